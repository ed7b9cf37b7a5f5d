// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <penstock/diagnose/detail/watch_timeline.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

using penstock::IdleTimes;
using penstock::KernelsInARow;
using penstock::WatchSummary;
using penstock::detail::CallSpan;
using penstock::detail::CudaCall;
using penstock::detail::GpuInterval;
using penstock::detail::GpuWork;
using penstock::detail::IdleSweep;
using penstock::detail::KernelRows;
using penstock::detail::WatchTimeline;

namespace {

constexpr std::uint64_t us = 1000;

struct WatchedTime {
  std::uint64_t begin;
  std::uint64_t end;
};

std::uint64_t ns(double seconds) {
  return static_cast<std::uint64_t>(seconds * 1e9 + 0.5);
}
GpuInterval kernel(std::uint64_t begin, std::uint64_t end, bool product = false) {
  return {.begin = begin, .end = end, .work = GpuWork::kernel, .product = product};
}
IdleTimes idle_times(const std::vector<WatchedTime>& times, const std::vector<GpuInterval>& gpu,
                     const std::vector<CallSpan>& calls) {
  IdleSweep sweep;
  for (const WatchedTime& time : times) {
    sweep.begin_time(time.begin);
    sweep.end_time(time.end);
  }
  for (const GpuInterval& one : gpu) {
    sweep.add_kernel(one.begin, one.end);
  }
  for (const CallSpan& call : calls) {
    sweep.add_call(call);
  }
  return sweep.finish();
}
KernelsInARow kernels_in_a_row(const std::vector<GpuInterval>& intervals) {
  KernelRows rows;
  for (const GpuInterval& one : intervals) {
    rows.add(one);
  }
  return rows.finish();
}
double sum_of(const IdleTimes& idle) {
  return idle.allocation_s + idle.copy_s + idle.launch_s + idle.wait_s + idle.other_s +
         idle.between_s + idle.elsewhere_s + idle.setup_s;
}

/// A program that launches, waits, copies, allocates and looks whether the GPU is done.
struct Program {
  std::vector<CallSpan> calls;
  std::vector<GpuInterval> gpu;
  std::uint64_t end = 0;

  Program(std::mt19937& random, int items) {
    const auto below = [&](std::uint64_t n) { return std::uint64_t{random()} % n; };
    for (int i = 0; i < items; ++i) {
      const std::uint64_t begin = end + below(60 * us);
      end = begin + 1 + below(20 * us);
      calls.push_back({begin, end, static_cast<CudaCall>(below(7))});
      if (below(3) != 0) {
        const std::uint64_t at = end + below(5 * us);
        gpu.push_back({.begin = at,
                       .end = at + 1 + below(40 * us),
                       .bytes = below(100),
                       .work = static_cast<GpuWork>(below(4)),
                       .pageable = below(2) == 0,
                       .product = below(40) == 0,
                       .stream = static_cast<std::uint32_t>(below(3))});
      }
    }
    end += 100 * us;
  }
  /// Adds all to a timeline as it comes, what the GPU did some time later, and sums it up.
  WatchSummary sum(WatchTimeline timeline, std::size_t* settled = nullptr) const {
    timeline.begin_time(0);
    std::size_t handed = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      timeline.add(calls[i]);
      while (i % 16 == 0 && handed < gpu.size() && gpu[handed].end < calls[i].begin) {
        timeline.add(std::span{&gpu[handed++], 1});
      }
      if (timeline.is_full()) {
        timeline.settle();
        CHECK_FALSE(timeline.is_full());
        if (settled != nullptr) {
          ++*settled;
        }
      }
    }
    timeline.add(std::span{gpu}.subspan(handed));
    timeline.end_time(end);
    WatchSummary summary;
    timeline.finish(summary);
    return summary;
  }
};

} // namespace

TEST_CASE("idle time belongs to the call that a thread is in, and busy time to none") {
  const std::vector<WatchedTime> times{{0, 1000 * us}};
  const std::vector<GpuInterval> gpu{kernel(100 * us, 200 * us)};
  const std::vector<CallSpan> calls{{0, 50 * us, CudaCall::allocation},
                                    {50 * us, 150 * us, CudaCall::launch},
                                    {150 * us, 260 * us, CudaCall::wait},
                                    {270 * us, 280 * us, CudaCall::copy},
                                    {280 * us, 300 * us, CudaCall::other}};
  const IdleTimes idle = idle_times(times, gpu, calls);
  CHECK(ns(idle.setup_s) == 50 * us); // before the first kernel
  CHECK(ns(idle.allocation_s) == 0);
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
  const IdleTimes idle = idle_times(times, {kernel(0, 1)}, calls);
  CHECK(ns(idle.allocation_s) == 15);
  CHECK(ns(idle.copy_s) == 15);
  CHECK(ns(idle.launch_s) == 20);
  CHECK(ns(idle.wait_s) == 39); // after the kernel
  CHECK(ns(idle.between_s) == 10);
}

TEST_CASE("a gap ends when work or a call begins, and times outside of the watch do not count") {
  const std::vector<WatchedTime> times{{100 * us, 200 * us}, {300 * us, 400 * us}};
  const std::vector<GpuInterval> gpu{kernel(0, 110 * us), kernel(350 * us, 500 * us)};
  const std::vector<CallSpan> calls{{140 * us, 141 * us, CudaCall::launch}};
  const IdleTimes idle = idle_times(times, gpu, calls);
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
    const IdleTimes idle = idle_times(times, gpu, calls);
    CAPTURE(round);
    CHECK(ns(sum_of(idle)) == expected);
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

TEST_CASE("allocations and other calls before the first kernel are set-up, and copies no kernel") {
  const std::vector<CallSpan> calls{{0, 10, CudaCall::allocation},  {10, 15, CudaCall::other},
                                    {15, 22, CudaCall::copy},       {30, 40, CudaCall::allocation},
                                    {60, 75, CudaCall::allocation}, {75, 78, CudaCall::other}};
  IdleSweep sweep;
  sweep.begin_time(0);
  sweep.end_time(78);
  for (const CallSpan& call : calls) {
    sweep.add_call(call);
  }
  sweep.add_copy(22, 30);
  sweep.add_kernel(40, 60);
  const IdleTimes idle = sweep.finish();
  CHECK(ns(idle.setup_s) == 25);
  CHECK(ns(idle.copy_s) == 7);
  CHECK(ns(idle.allocation_s) == 15);
  CHECK(ns(idle.other_s) == 3);
}

TEST_CASE("a timeline has the sums of what the GPU did, and of what came pageable") {
  WatchTimeline timeline;
  timeline.begin_time(10);
  timeline.end_time(50);
  timeline.begin_time(60);
  timeline.end_time(80);
  const std::vector<GpuInterval> intervals{
      {.begin = 30,
       .end = 50,
       .bytes = 32,
       .work = GpuWork::to_host,
       .pageable = true,
       .stream = 2},
      {.begin = 20,
       .end = 40,
       .bytes = 64,
       .work = GpuWork::to_device,
       .pageable = true,
       .stream = 1},
      {.begin = 70, .end = 75, .bytes = 8, .work = GpuWork::to_device, .stream = 1}};
  timeline.add(intervals);
  WatchSummary summary;
  summary.gpu.dropped = 4;
  timeline.finish(summary);
  CHECK(ns(summary.seconds) == 60);
  CHECK(ns(summary.gpu.seconds) == 60);
  CHECK(summary.gpu.dropped == 4);
  CHECK(summary.gpu.kernels == 0);
  CHECK(summary.gpu.copies_to_device == 2);
  CHECK(summary.gpu.bytes_to_device == 72);
  CHECK(summary.pageable.copies == 2);
  CHECK(summary.pageable.bytes == 96);
  CHECK(ns(summary.pageable.seconds) == 30);
  CHECK(summary.page_locked_bytes_per_s == 0); // 8 bytes tell nothing
  CHECK(summary.streams == 2);
}

TEST_CASE("the best large copy of page-locked memory tells what the link does") {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  WatchTimeline timeline;
  timeline.add(std::vector<GpuInterval>{
      {.begin = 0, .end = 100 * us, .bytes = mib, .work = GpuWork::to_device},
      {.begin = 0, .end = 50 * us, .bytes = mib, .work = GpuWork::to_host},
      {.begin = 0, .end = us, .bytes = mib, .work = GpuWork::other_copy},
      {.begin = 0, .end = us, .bytes = mib, .work = GpuWork::to_host, .pageable = true},
      {.begin = 0, .end = us, .bytes = mib - 1, .work = GpuWork::to_host}});
  WatchSummary summary;
  timeline.finish(summary);
  CHECK(summary.page_locked_bytes_per_s == Approx(static_cast<double>(mib) / 50e-6));
}

TEST_CASE("random programs: a timeline that keeps little has the sums of one that keeps all") {
  std::mt19937 random{12};
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    const Program program{random, 3000};
    std::size_t settled = 0;
    const WatchSummary whole = program.sum(WatchTimeline{});
    const WatchSummary parts = program.sum(WatchTimeline{400}, &settled);
    CHECK(settled > 10);
    CHECK(parts.late == 0);
    for (const auto member :
         {&IdleTimes::allocation_s, &IdleTimes::copy_s, &IdleTimes::launch_s, &IdleTimes::wait_s,
          &IdleTimes::elsewhere_s, &IdleTimes::longest_gap_s, &IdleTimes::setup_s}) {
      CHECK(ns(parts.idle.*member) == ns(whole.idle.*member));
    }
    CHECK(
        ns(parts.idle.other_s + parts.idle.between_s) == // which a short pause counts as, may vary
        ns(whole.idle.other_s + whole.idle.between_s));
    CHECK(parts.idle.gaps == whole.idle.gaps);
    CHECK(ns(parts.gpu.busy_s) == ns(whole.gpu.busy_s));
    CHECK(ns(parts.gpu.overlap_s) == ns(whole.gpu.overlap_s));
    CHECK(parts.gpu.kernels == whole.gpu.kernels);
    CHECK(parts.gpu.bytes_to_host == whole.gpu.bytes_to_host);
    CHECK(parts.pageable.bytes == whole.pageable.bytes);
    CHECK(ns(parts.pageable.seconds) == ns(whole.pageable.seconds));
    CHECK(parts.in_a_row.rows == whole.in_a_row.rows);
    CHECK(ns(parts.in_a_row.seconds) == ns(whole.in_a_row.seconds));
    CHECK(ns(sum_of(parts.idle) + parts.gpu.busy_s) == ns(parts.seconds));
  }
}

TEST_CASE("what comes late counts, and is told of") {
  WatchTimeline timeline{8};
  timeline.begin_time(0);
  for (std::uint64_t i = 0; !timeline.is_full(); ++i) {
    timeline.add(CallSpan{10 * i, 10 * i + 5, CudaCall::launch});
  }
  timeline.settle();
  timeline.add(std::vector<GpuInterval>{kernel(1, 9)});
  timeline.end_time(1000);
  WatchSummary summary;
  timeline.finish(summary);
  CHECK(summary.late == 1);
  CHECK(summary.gpu.kernels == 1);
  CHECK(ns(summary.gpu.busy_s) == 8);
  CHECK(ns(sum_of(summary.idle)) == 1000); // too much by what came late
}

TEST_CASE("calls that ask again and again whether the GPU is done take no memory each") {
  WatchTimeline timeline{100};
  timeline.begin_time(0);
  timeline.add(std::vector<GpuInterval>{kernel(0, 1)});
  std::uint64_t at = us;
  for (int i = 0; i < 100'000; ++i) {
    timeline.add(CallSpan{at, at + us, CudaCall::other});
    at += 2 * us;
    REQUIRE_FALSE(timeline.is_full());
  }
  timeline.add(CallSpan{at + 50 * us, at + 51 * us, CudaCall::other}); // after a pause
  timeline.end_time(at + 51 * us);
  WatchSummary summary;
  timeline.finish(summary);
  CHECK(ns(summary.idle.other_s) == 100'000 * 2 * us); // less the last pause, with the last call
  CHECK(ns(summary.idle.elsewhere_s) == 51 * us);
}

TEST_CASE("a stream for each item, and a bracket for each, are summed up in no time") {
  // A square of these numbers would take minutes.
  constexpr std::uint64_t items = 200'000;
  WatchTimeline timeline{10'000};
  for (std::uint64_t i = 0; i != items; ++i) {
    timeline.begin_time(100 * i);
    GpuInterval one = kernel(100 * i + 10, 100 * i + 20);
    one.stream = static_cast<std::uint32_t>(i);
    timeline.add(std::span{&one, 1});
    timeline.end_time(100 * i + 50);
    if (timeline.is_full()) {
      timeline.settle();
    }
  }
  WatchSummary summary;
  timeline.finish(summary);
  CHECK(summary.late == 0);
  CHECK(summary.streams == items);
  CHECK(ns(summary.seconds) == items * 50);
  CHECK(ns(summary.gpu.busy_s) == items * 10);
  CHECK(ns(summary.idle.between_s) == items * 40);
}
