// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of Decoders on the host device, whose copies come late in three different orders.

#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

using TestDevice = penstock::HostDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    D device{{.late_seed = seed}};
    f(device);
  }
}

#include "suite/decoded_suite.hpp"

namespace {

// A callable that waits until as many workers as `wanted` are in it at once, for up to 20 s.
struct Meeting {
  void operator()(const int& from, int& to) {
    const int here = inside->fetch_add(1) + 1;
    for (int seen = most->load(); seen < here && !most->compare_exchange_weak(seen, here);) {
    }
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (most->load() < wanted && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
    inside->fetch_sub(1);
    to = from + 1;
  }
  int wanted;
  std::atomic<int>* inside;
  std::atomic<int>* most;
};

std::vector<int> numbers(int count) {
  std::vector<int> from(static_cast<std::size_t>(count));
  std::iota(from.begin(), from.end(), 0);
  return from;
}

} // namespace

TEST_CASE("all workers share the records of one slot") {
  const auto from = numbers(64); // 256 bytes: one slot
  std::atomic<int> inside{0}, most{0};
  std::vector<int> got;
  auto pipeline = penstock::Reader{penstock::memory(from)} |
                  penstock::Decoder{Meeting{8, &inside, &most}, {.workers = 8}} |
                  penstock::Consumer{[&](penstock::Batch<const int, penstock::Pageable> batch) {
                    got.insert(got.end(), batch.data(), batch.data() + batch.size());
                  }};
  for (int run = 1; run <= 3; ++run) {
    got.clear();
    most = 0;
    pipeline.run();
    CHECK(most.load() == 8);
    REQUIRE(got.size() == 64);
    CHECK(
        std::equal(got.begin(), got.end(), from.begin(), [](int g, int f) { return g == f + 1; }));
  }
}

TEST_CASE("gaps that several workers leave in one slot are closed, and numbers stay exact") {
  for (const int count : {1, 2, 7, 31, 32, 33, 1000}) {
    for (const int keep_every : {1, 2, 5, 1000}) {
      CAPTURE(count, keep_every);
      const auto from = numbers(count);
      const auto bad = [keep_every](int n) { return keep_every != 1 && n % keep_every != 0; };
      std::vector<int> got;
      auto pipeline = penstock::Reader{penstock::memory(from), {.epochs = 3, .batch = 100}} |
                      penstock::Decoder{[bad](const int& n, int& to) {
                                          if (bad(n)) {
                                            throw std::runtime_error{"bad"};
                                          }
                                          to = n;
                                        },
                                        {.workers = 5, .on_error = {.skips = 10'000}}} |
                      penstock::Consumer{[&](penstock::Batch<const int, penstock::Pageable> batch) {
                        got.insert(got.end(), batch.data(), batch.data() + batch.size());
                        CHECK(batch.source_index() == static_cast<std::uint64_t>(batch.data()[0]));
                        CHECK(batch.index() == got.size() - batch.size());
                      }};
      pipeline.run();
      std::vector<int> expected;
      for (int epoch = 0; epoch < 3; ++epoch) {
        std::copy_if(from.begin(), from.end(), std::back_inserter(expected),
                     [&](int n) { return !bad(n); });
      }
      CHECK(got == expected);
      CHECK(pipeline.report().skipped == 3 * from.size() - expected.size());
    }
  }
}
