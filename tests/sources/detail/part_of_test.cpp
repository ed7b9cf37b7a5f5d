// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/made_source.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/detail/part_of.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace ps = penstock;
using namespace ps::tests;
using ps::detail::part_of;

namespace {

// Fills a batch of ten records in parts of 4, 1, 0 and 5, with numbers from 100 on.
template <class Schema, class Where> void check_parts() {
  const Room<Schema, Where> room{10, 77};
  std::size_t first = 0;
  for (const std::size_t count : {4, 1, 0, 5}) {
    const auto part = part_of(room.batch(), first, count, 1000 * first);
    REQUIRE(part.size() == count);
    REQUIRE(part.index() == 1000 * first);
    REQUIRE(part.source_index() == 77 + first);
    for (std::size_t i = 0; i < count; ++i) {
      make(part, i, 100 + first + i);
    }
    first += count;
  }
  REQUIRE(room.numbers(10) == from_to(100, 110));
}

} // namespace

TEST_CASE("what is written to the parts of a batch is in the batch") {
  check_parts<Plain, ps::Pageable>();
  check_parts<Wide, ps::Pinned>();
  check_parts<Uneven, ps::Pageable>();
}

TEST_CASE("a part of a batch to read is one to read") {
  const Room<Wide, ps::Pageable> room{10, 0};
  for (std::size_t i = 0; i < 10; ++i) {
    make(room.batch(), i, i);
  }
  const ps::Batch<const Wide, ps::Pageable> whole = room.batch();
  const ps::Batch<const Wide, ps::Pageable> part = part_of(whole, 3, 2, 3);
  REQUIRE(made_of(part, 0) == 3U);
  REQUIRE(made_of(part, 1) == 4U);
}

TEST_CASE("a part knows records whose size only the run knows") {
  std::byte bytes[60]{};
  const ps::Batch<std::byte, ps::Pageable> batch{bytes, 10, 0, 6, 4};
  const auto part = part_of(batch, 3, 7, 0);
  REQUIRE(part.data() == bytes + 18);
  REQUIRE(part.size_bytes() == 42);
  REQUIRE(part.alignment() == 2); // of 6 bytes each
}

TEST_CASE("put() into a part names a record by its number in the whole batch's source") {
  const Room<Uneven, ps::Pageable> room{10, 500};
  const auto part = part_of(room.batch(), 4, 3, 9'000);
  const auto early = caught<ps::Error>([&] { ps::get<"letters">(part).put(0, 1); });
  REQUIRE(has(early, "record 504 was put out of turn"));
  for (std::size_t i = 0; i < 4; ++i) {
    make(room.batch(), i, 6);
  }
  ps::get<"letters">(part).put(0, 1);
  const auto beyond = caught<ps::Error>([&] { ps::get<"letters">(part).put(1, 100); });
  REQUIRE(has(beyond, "record 505 has 100 values"));
}
