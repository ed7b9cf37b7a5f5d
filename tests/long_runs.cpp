// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What only shows after a long time: `long_runs runs N` runs one pipeline of each kind N times and
// looks at what the process has, `long_runs idle SECONDS` lets live pipelines wait and counts their
// processor time, and `long_runs records BITS` sends 2^BITS records through one, and compares each.
// It prints what it saw, and exits 1 if that is not flat, not idle, or wrong.

#include "support/lives.hpp"
#include "support/process.hpp"

#include <penstock/sources/channel.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

using namespace penstock::tests;
using namespace penstock::tests::lives;

namespace {

struct Has {
  int descriptors = descriptors_open();
  std::ptrdiff_t threads = threads_alive();
  std::size_t heap = heap_bytes();
  std::size_t resident = resident_bytes();
};

template <class L> bool same_after(const char* name, int runs) {
  const Files files;
  L life{files};
  bool right = true;
  const auto run = [&](int times) {
    for (int i = 0; i != times; ++i) {
      right = life.run() == sum_of_all && right;
    }
  };
  run(100);
  const Has before;
  run(runs);
  const Has after;
  // A worker that has its first record only now opens the three files for itself. The system may
  // bring in a page of code, or the allocator one of its own. What leaks in each run is far more.
  constexpr int late = 3;
  constexpr std::size_t slack = std::size_t{8} << 10;
  constexpr std::size_t pages = std::size_t{256} << 10;
  const bool flat = after.descriptors <= before.descriptors + late &&
                    after.threads == before.threads && after.heap <= before.heap + slack &&
                    after.resident <= before.resident + pages;
  std::printf("%s, %d runs: descriptors %d to %d, threads %td to %td, heap %zu to %zu bytes, "
              "resident %zu to %zu KiB: %s\n",
              name, runs, before.descriptors, after.descriptors, before.threads, after.threads,
              before.heap, after.heap, before.resident >> 10U, after.resident >> 10U,
              !right ? "WRONG RECORDS"
              : flat ? "flat"
                     : "NOT FLAT");
  return right && flat;
}

bool runs(int times) {
  bool right = same_after<HostOnly>("Reader, Decoder, Consumer", times);
  right = same_after<Written>("Reader, Writer", times) && right;
  right = same_after<BothWays>("to a device and back", times) && right;
  return same_after<Loop>("loop with deferred values", times) && right;
}

// Lets a live pipeline wait: `start(channel)` returns when it has begun to.
template <class Body> bool waits(const char* name, std::chrono::seconds length, Body body) {
  constexpr double most = 0.002; // of one processor
  ps::Channel<Number> channel;
  std::atomic<Number> seen{0};
  std::thread running{[&] { body(channel, seen); }};
  for (Number n = 0; n != 100; ++n) {
    channel.push(n);
  }
  while (seen != 100) {
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(std::chrono::seconds{1}); // it comes to rest
  const auto before = processor_time();
  std::this_thread::sleep_for(length);
  const std::chrono::duration<double> used = processor_time() - before;
  channel.close();
  running.join();
  const double share = used.count() / static_cast<double>(length.count());
  std::printf("%s, idle for %lld s: %.1f ms of processor time, %.4f %% of one processor: %s\n",
              name, static_cast<long long>(length.count()), used.count() * 1e3, share * 100,
              share < most ? "idle" : "BUSY");
  return share < most;
}

bool idle(std::chrono::seconds length) {
  bool right = waits("host", length, [](auto& channel, auto& seen) {
    auto pipeline = ps::Reader{channel, {.ahead = 64, .flush = 1ms}} |
                    ps::Decoder{[](const Number& in, Number& out) { out = in; }} |
                    ps::Consumer{[&](OnHost batch) { seen += batch.size(); }};
    pipeline.run();
  });
  return waits("device", length,
               [](auto& channel, auto& seen) {
                 ps::HostDevice device;
                 ps::HostStream stream = device.stream();
                 auto data = ps::Reader{channel, ps::to_pinned, {.ahead = 64, .flush = 1ms}} |
                             ps::AsyncCopier{device, {.batch = 16}};
                 for (auto batch : data.on(stream)) {
                   seen += batch.size();
                 }
               }) &&
         right;
}

bool records(unsigned bits) {
  const Number all = Number{1} << bits;
  const auto start = std::chrono::steady_clock::now();
  std::atomic<Number> wrong{0};
  std::atomic<Number> seen{0};
  auto pipeline = ps::Reader{ps::generate<Number>(all,
                                                  [](std::span<Number> out, std::uint64_t first) {
                                                    std::iota(out.begin(), out.end(), first);
                                                  })} |
                  ps::Consumer{[&](OnHost batch) {
                    Number differ = 0;
                    for (std::size_t i = 0; i != batch.size(); ++i) {
                      differ |= batch.data()[i] ^ (batch.index() + i);
                    }
                    wrong += differ == 0 ? 0 : 1;
                    seen += batch.size();
                  }};
  const ps::Report& report = pipeline.run();
  const bool right = wrong == 0 && seen == all && report.records == all;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("2^%u records of 8 bytes in %.0f s: %llu came, %llu by the Report: %s\n", bits,
              took.count(), static_cast<unsigned long long>(seen.load()),
              static_cast<unsigned long long>(report.records), right ? "each right" : "WRONG");
  return right;
}

} // namespace

int main(int given, char** arguments) {
  const std::string_view part = given == 3 ? arguments[1] : "";
  const int number = given == 3 ? std::atoi(arguments[2]) : 0;
  const bool right = part == "runs"      ? runs(number)
                     : part == "idle"    ? idle(std::chrono::seconds{number})
                     : part == "records" ? records(static_cast<unsigned>(number))
                                         : false;
  return right ? 0 : 1;
}
