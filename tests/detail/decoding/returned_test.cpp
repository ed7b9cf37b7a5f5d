// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Decoders whose callables return the record that they make, or none.

#include "support/catch.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ps = penstock;
namespace tests = penstock::tests;

namespace {

struct Pair : ps::Columns<ps::Field<"a", std::int32_t>, ps::Field<"b", std::int32_t>> {};

std::vector<int> numbers() {
  std::vector<int> all(1000);
  std::iota(all.begin(), all.end(), 0);
  return all;
}
double half(const int& in) {
  return in / 2.0;
}
struct Counting {
  int calls = 0;
  int operator()(const int& in) { return ++calls > 0 ? in + 1 : 0; }
};

// Everything that a pipeline gives, by ranges of its batches.
template <class P> auto all_of(P pipeline) {
  auto any = pipeline.batches();
  std::vector<std::remove_cvref_t<decltype(*any.next().begin())>> all;
  for (auto batch : pipeline.batches()) {
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

} // namespace

TEST_CASE("a Decoder's callable may return the record that it makes") {
  const tests::Watchdog watchdog{"callables that return"};
  const std::vector<int> given = numbers();
  const auto read = [&] { return ps::Reader{ps::memory(given), {.batch = 64}}; };

  const auto halves = all_of(read() | ps::Decoder{half, {.workers = 3}});
  REQUIRE(halves.size() == given.size());
  CHECK(halves[7] == 3.5);

  Counting counting;
  const auto more = all_of(read() | ps::Decoder{std::ref(counting), {.workers = 1}});
  CHECK(counting.calls >= 1000);
  CHECK(more[999] == 1000);

  const auto seen = all_of(read() | ps::Decoder{[](const int& in, ps::Visit visit) {
                             return visit.record + static_cast<std::uint64_t>(in);
                           }});
  CHECK(seen[321] == 642);

  // It throws for one record, which is left out alone.
  const auto thrown = [](const int& in) {
    if (in == 500) {
      throw std::runtime_error{"no half"};
    }
    return static_cast<float>(in);
  };
  const auto kept = all_of(read() | ps::Decoder{thrown, {.on_error = {.skips = 5}}});
  REQUIRE(kept.size() == 999);
  CHECK(kept[500] == 501);
}

TEST_CASE("a Decoder's callable may return a record or none, and read columns") {
  const tests::Watchdog watchdog{"callables that filter"};
  const std::vector<int> given = numbers();
  auto pairs = ps::Reader{ps::memory(given)} | ps::Decoder{[](const int& in, ps::Row<Pair> out) {
                 ps::get<"a">(out) = in;
                 ps::get<"b">(out) = -in;
               }} |
               ps::Decoder{[](ps::Row<const Pair> in) -> std::optional<char> {
                 const int sum = ps::get<"a">(in) + ps::get<"b">(in);
                 return ps::get<"a">(in) % 10 == 0 ? std::optional{static_cast<char>('a' + sum)}
                                                   : std::nullopt;
               }};
  CHECK(all_of(std::move(pairs)) == std::vector<char>(100, 'a'));

  auto pinned = ps::Reader{ps::memory(given)} |
                ps::Decoder{[](const int& in, const ps::Visit& visit) -> std::optional<int> {
                  return visit.record < 3 ? std::optional{in} : std::nullopt;
                }};
  CHECK(all_of(std::move(pinned)) == std::vector<int>{0, 1, 2});
}

TEST_CASE("batches and columns are ranges, and make spans") {
  const std::vector<int> given = numbers();
  auto data = ps::Reader{ps::memory(given), {.batch = 100}} |
              ps::Decoder{[](const int& in, ps::Row<Pair> out) {
                ps::get<"a">(out) = in;
                ps::get<"b">(out) = 1;
              }};
  std::int64_t sum = 0;
  std::int64_t ones = 0;
  for (auto batch : data.batches()) {
    for (const int a : ps::get<"a">(batch)) {
      sum += a;
    }
    const std::span b{ps::get<"b">(batch)};
    ones = std::accumulate(b.begin(), b.end(), ones);
  }
  CHECK(sum == 999 * 1000 / 2);
  CHECK(ones == 1000);

  float planes[2][3] = {{1, 2, 3}, {4, 5, 6}};
  const ps::Column<float, 3> column{planes[0], 2};
  float last = 0;
  for (const auto& record : column) {
    static_assert(std::size(decltype(column)::record_type{}) == 3);
    last += record[2];
  }
  CHECK(last == 9);

  const std::vector<std::byte> bytes(120, std::byte{7});
  const ps::Batch<const std::byte, ps::Pageable> of_bytes{bytes.data(), 10, 0, 12};
  CHECK(of_bytes.end() - of_bytes.begin() == 120);
  std::span<const std::byte> all{of_bytes};
  CHECK(all.size() == 120);
  auto copied = ps::Reader{ps::memory(std::as_bytes(std::span{given}), {.record_bytes = 8})} |
                ps::Decoder{[](ps::Batch<const std::byte, ps::Pageable> in,
                               ps::Batch<std::byte, ps::Pageable> out) {
                              std::ranges::copy(in, out.begin());
                            },
                            {.extents = {8}}};
  for (auto batch : copied.batches()) {
    CHECK(std::span{batch}.size() == batch.size() * 8);
  }
}
