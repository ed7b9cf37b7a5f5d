// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <penstock/cuda/detail/watch_timeline.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

using penstock::IdleTimes;
using penstock::KernelsInARow;
using penstock::WatchSummary;
using penstock::detail::add_activity;
using penstock::detail::CallSpan;
using penstock::detail::CudaCall;
using penstock::detail::GpuInterval;
using penstock::detail::GpuWork;
using penstock::detail::IdleSweep;
using penstock::detail::kernels_in_a_row;
using penstock::detail::WatchedTime;

namespace {

constexpr std::uint64_t us = 1000;

std::uint64_t ns(double seconds) {
  return static_cast<std::uint64_t>(seconds * 1e9 + 0.5);
}
GpuInterval kernel(std::uint64_t begin, std::uint64_t end, bool product = false) {
  return {.begin = begin, .end = end, .work = GpuWork::kernel, .product = product};
}

} // namespace

TEST_CASE("idle time belongs to the call that a thread is in, and busy time to none") {
  const std::vector<WatchedTime> times{{0, 1000 * us}};
  const std::vector<GpuInterval> gpu{kernel(100 * us, 200 * us)};
  const std::vector<CallSpan> calls{{0, 50 * us, CudaCall::allocation},
                                    {50 * us, 150 * us, CudaCall::launch},
                                    {150 * us, 260 * us, CudaCall::wait},
                                    {270 * us, 280 * us, CudaCall::copy},
                                    {280 * us, 300 * us, CudaCall::other}};
  const IdleTimes idle = IdleSweep::over(times, gpu, calls);
  CHECK(ns(idle.allocation_s) == 50 * us);
  CHECK(ns(idle.launch_s) == 50 * us);
  CHECK(ns(idle.wait_s) == 60 * us);
  CHECK(ns(idle.between_s) == 10 * us); // from 260 to 270
  CHECK(ns(idle.copy_s) == 10 * us);
  CHECK(ns(idle.other_s) == 20 * us);
  CHECK(ns(idle.elsewhere_s) == 700 * us);
  CHECK(idle.gaps == 1);
  CHECK(ns(idle.longest_gap_s) == 700 * us);
}

TEST_CASE("of several threads the one that allocates counts, then the one that copies") {
  const std::vector<WatchedTime> times{{0, 100}};
  const std::vector<CallSpan> calls{{0, 90, CudaCall::wait},
                                    {10, 60, CudaCall::launch},
                                    {20, 50, CudaCall::copy},
                                    {30, 40, CudaCall::page_lock},
                                    {40, 45, CudaCall::release}};
  const IdleTimes idle = IdleSweep::over(times, {}, calls);
  CHECK(ns(idle.allocation_s) == 15);
  CHECK(ns(idle.copy_s) == 15);
  CHECK(ns(idle.launch_s) == 20);
  CHECK(ns(idle.wait_s) == 40);
  CHECK(ns(idle.between_s) == 10);
}

TEST_CASE("a gap ends when work or a call begins, and times outside of the watch do not count") {
  const std::vector<WatchedTime> times{{100 * us, 200 * us}, {300 * us, 400 * us}};
  const std::vector<GpuInterval> gpu{kernel(0, 110 * us), kernel(350 * us, 500 * us)};
  const std::vector<CallSpan> calls{{140 * us, 141 * us, CudaCall::launch}};
  const IdleTimes idle = IdleSweep::over(times, gpu, calls);
  CHECK(idle.gaps == 3); // 110 to 140, 141 to 200, 300 to 350
  CHECK(ns(idle.elsewhere_s) == 139 * us);
  CHECK(ns(idle.longest_gap_s) == 59 * us);
  CHECK(ns(idle.launch_s) == us);
  CHECK(ns(idle.between_s) == 0);
}

TEST_CASE("random times: idle time is all that is watched and not busy") {
  std::mt19937 random{11};
  const auto below = [&](std::uint64_t n) { return std::uint64_t{random()} % n; };
  for (int round = 0; round < 200; ++round) {
    const std::vector<WatchedTime> times{{50, 50 + below(200)}};
    std::vector<GpuInterval> gpu(below(6));
    for (GpuInterval& one : gpu) {
      const std::uint64_t begin = below(250);
      one = kernel(begin, begin + 1 + below(60));
    }
    std::vector<CallSpan> calls(below(6));
    for (CallSpan& one : calls) {
      const std::uint64_t begin = below(250);
      one = {begin, begin + below(60), static_cast<CudaCall>(below(7))};
    }
    std::uint64_t expected = 0;
    for (std::uint64_t at = times[0].begin; at < times[0].end; ++at) {
      expected += std::none_of(gpu.begin(), gpu.end(), [&](const GpuInterval& one) {
        return one.begin <= at && at < one.end;
      });
    }
    const IdleTimes idle = IdleSweep::over(times, gpu, calls);
    CAPTURE(round);
    CHECK(ns(idle.allocation_s + idle.copy_s + idle.launch_s + idle.wait_s + idle.other_s +
             idle.between_s + idle.elsewhere_s) == expected);
  }
}

TEST_CASE("kernels in a row: behind a product, and at least 32 of them") {
  std::vector<GpuInterval> intervals;
  std::uint64_t at = 0;
  const auto add = [&](std::uint64_t kernels, bool product) {
    for (std::uint64_t i = 0; i < kernels; ++i) {
      intervals.push_back(kernel(at, at + 2, product));
      at += 3;
    }
  };
  add(40, false); // before any product
  add(1, true);
  add(40, false);
  intervals.push_back({.begin = at - 2, .end = at, .work = GpuWork::to_host}); // no kernel
  add(2, true);
  add(31, false);
  add(1, true);
  add(32, false); // the last ones
  const KernelsInARow found = kernels_in_a_row(intervals);
  CHECK(found.rows == 2);
  CHECK(found.kernels == 72);
  CHECK(ns(found.seconds) == (40 * 3 - 1) + (32 * 3 - 1));
  CHECK(ns(found.busy_s) == 72 * 2);
  CHECK(kernels_in_a_row({}).rows == 0);
}

TEST_CASE("activity counts if it began in the times, and the span is theirs") {
  WatchSummary summary;
  summary.gpu.dropped = 4;
  std::vector<GpuInterval> intervals{
      kernel(5, 20), // before
      {.begin = 20,
       .end = 40,
       .bytes = 64,
       .work = GpuWork::to_device,
       .pageable = true,
       .stream = 1},
      {.begin = 30,
       .end = 50,
       .bytes = 32,
       .work = GpuWork::to_host,
       .pageable = true,
       .stream = 2},
      kernel(55, 58), // between the times
      {.begin = 70, .end = 75, .bytes = 8, .work = GpuWork::to_device, .stream = 1},
      kernel(80, 95)}; // after
  const std::vector<WatchedTime> times{{10, 50}, {60, 80}};
  add_activity(summary, intervals, times);
  CHECK(intervals.size() == 3);
  CHECK(ns(summary.seconds) == 60);
  CHECK(ns(summary.gpu.seconds) == 60);
  CHECK(summary.gpu.dropped == 4);
  CHECK(summary.gpu.kernels == 0);
  CHECK(summary.gpu.copies_to_device == 2);
  CHECK(summary.gpu.bytes_to_device == 72);
  CHECK(summary.pageable.copies == 2);
  CHECK(summary.pageable.bytes == 96);
  CHECK(ns(summary.pageable.seconds) == 30);
  CHECK(summary.streams == 2);
}

TEST_CASE("a stream for each item, and a bracket for each, are summed up in no time") {
  // A square of these numbers would take minutes.
  constexpr std::uint64_t items = 400'000;
  std::vector<GpuInterval> intervals;
  std::vector<WatchedTime> times;
  for (std::uint64_t i = 0; i != items; ++i) {
    intervals.push_back(kernel(100 * i + 10, 100 * i + 20));
    intervals.back().stream = static_cast<std::uint32_t>(i);
    if (i % 2 == 1) {
      times.push_back({100 * i, 100 * i + 50});
    }
  }
  intervals.push_back(kernel(100 * items - 50, 100 * items)); // where the last one ends
  WatchSummary summary;
  add_activity(summary, intervals, times);
  CHECK(intervals.size() == items / 2);
  CHECK(summary.streams == items / 2);
  CHECK(ns(summary.seconds) == items / 2 * 50);
  CHECK(ns(summary.gpu.busy_s) == items / 2 * 10);
}
