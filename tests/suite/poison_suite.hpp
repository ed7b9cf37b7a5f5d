// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Catches slots that are handed back too early: slots are spoilt the moment they are given back, so
// that a copy that still reads one brings spoilt bytes. The including file defines TestDevice and
// for_each_device(f).

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/sanitizer.hpp"
#include "support/test_devices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <span>
#include <type_traits>
#include <vector>

namespace suite {

using D = TestDevice;

// Returns bytes none of which looks spoilt.
inline std::vector<std::byte> clean_bytes(std::size_t n) {
  std::vector<std::byte> bytes = some_bytes(n);
  for (std::byte& byte : bytes) {
    byte &= std::byte{0x7F};
  }
  return bytes;
}

struct Seen {
  std::size_t spoilt{};
  bool right{};
  std::uint64_t poisoned{};
};

template <class Device> Seen run_poisoned(Device& device, const std::vector<std::byte>& bytes,
                                          bool staged) {
  Collector<Device> got{device, bytes.size()};
  const ps::CopierOptions copying{.batch = 1'000'000, .depth = 2};
  if (staged) {
    auto pipeline = ps::Reader{ps::memory(std::span{bytes}), {.workers = 2}} |
                    ps::Decoder{[](ps::Batch<const std::byte, ps::Pageable> in,
                                   ps::Batch<std::byte, ps::Pinned> out) {
                                  std::copy_n(in.data(), in.size(), out.data());
                                },
                                {.workers = 2, .depth = 3}} |
                    ps::AsyncCopier{device, copying} | ps::Consumer{std::ref(got)};
    pipeline.run();
  } else {
    auto pipeline =
        ps::Reader{ps::memory(std::span{bytes}), ps::to_pinned, {.workers = 2, .depth = 3}} |
        ps::AsyncCopier{device, copying} | ps::Consumer{std::ref(got)};
    pipeline.run();
  }
  const auto arrived = got.bytes();
  return {static_cast<std::size_t>(
              std::count(arrived.begin(), arrived.end(), tests::Poisons<D>::spoilt)),
          got.holds(bytes), device.poisoned};
}

TEST_CASE("no spoilt byte is ever seen, though every slot is spoilt when it is given back") {
  const auto bytes = clean_bytes(12'000'000);
  for (const bool staged : {false, true}) {
    CAPTURE(staged);
    for_each_device<tests::Poisons<D>>([&](tests::Poisons<D>& device) {
      const Seen seen = run_poisoned(device, bytes, staged);
      CHECK(seen.right);
      CHECK(seen.spoilt == 0);
      CHECK(seen.poisoned >= bytes.size());
    });
  }
}

TEST_CASE("a slot that is given back too early is caught", "[race]") {
  // A race, which ThreadSanitizer would report by itself: under it slots are given back in time.
  using Device = std::conditional_t<tests::under_tsan, tests::Poisons<D>, tests::Hasty<D>>;
  const auto bytes = clean_bytes(12'000'000);
  std::size_t spoilt = 0;
  for (int attempt = 0; attempt < (tests::under_tsan ? 1 : 20) && spoilt == 0; ++attempt) {
    for_each_device<Device>(
        [&](Device& device) { spoilt += run_poisoned(device, bytes, false).spoilt; });
  }
  std::printf("given back too early: %zu spoilt bytes seen\n", spoilt);
  CHECK((spoilt != 0) == !tests::under_tsan);
}

} // namespace suite
