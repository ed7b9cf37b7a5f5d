// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <penstock/diagnose/detail/activity_intervals.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

using penstock::GpuActivitySummary;
using penstock::detail::GpuInterval;
using penstock::detail::GpuWork;
using penstock::detail::IntervalUnion;
using penstock::detail::summarize;

namespace {

// Converts seconds back to the whole nanoseconds that they once were.
std::uint64_t ns(double seconds) {
  return static_cast<std::uint64_t>(seconds * 1e9 + 0.5);
}

std::vector<GpuInterval> sorted(std::vector<GpuInterval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const GpuInterval& a, const GpuInterval& b) { return a.begin < b.begin; });
  return intervals;
}

// Does what summarize() does by counting nanoseconds: returns in how many of [from, to) something
// runs that `is` accepts.
template <class Is>
std::uint64_t counted(const std::vector<GpuInterval>& intervals, std::uint64_t from,
                      std::uint64_t to, Is is) {
  std::uint64_t count = 0;
  for (std::uint64_t at = from; at < to; ++at) {
    count += std::any_of(intervals.begin(), intervals.end(), [&](const GpuInterval& one) {
      return is(one) && one.begin <= at && at < one.end;
    });
  }
  return count;
}

bool is_kernel(const GpuInterval& one) {
  return one.work == GpuWork::kernel;
}

// A kernel of 100, a pause of 100, a copy of 100 to the device whose second half runs beside a
// kernel of 150, and after it a copy of 50 to the host.
const std::vector<GpuInterval> pattern{{1000, 1100, 0, GpuWork::kernel},
                                       {1200, 1300, 4096, GpuWork::to_device},
                                       {1250, 1400, 0, GpuWork::kernel},
                                       {1400, 1450, 512, GpuWork::to_host}};

} // namespace

TEST_CASE("a union counts what several intervals cover once") {
  IntervalUnion apart;
  apart.add(10, 20);
  apart.add(30, 45);
  CHECK(apart.length() == 25);

  IntervalUnion touching;
  touching.add(10, 20);
  touching.add(20, 30);
  CHECK(touching.length() == 20);

  IntervalUnion crossing;
  crossing.add(10, 20);
  crossing.add(15, 30);
  CHECK(crossing.length() == 20);

  IntervalUnion inside;
  inside.add(10, 50);
  inside.add(20, 30);
  inside.add(45, 60);
  CHECK(inside.length() == 50);

  CHECK(IntervalUnion{}.length() == 0);
}

TEST_CASE("a summary has each kind's time, counts and bytes, and what they share") {
  const GpuActivitySummary sum = summarize(pattern, 0, 1);
  CHECK(ns(sum.seconds) == 450);
  CHECK(ns(sum.kernel_s) == 250);
  CHECK(ns(sum.to_device_s) == 100);
  CHECK(ns(sum.to_host_s) == 50);
  CHECK(ns(sum.copy_s) == 150);
  CHECK(ns(sum.overlap_s) == 50);
  CHECK(ns(sum.busy_s) == 350);
  CHECK(sum.kernels == 2);
  CHECK(sum.copies_to_device == 1);
  CHECK(sum.copies_to_host == 1);
  CHECK(sum.other_copies == 0);
  CHECK(sum.bytes_to_device == 4096);
  CHECK(sum.bytes_to_host == 512);
  CHECK(sum.kernel_share() == Approx(250.0 / 450));
  CHECK(sum.busy_share() == Approx(350.0 / 450));
  CHECK(sum.idle_share() == Approx(100.0 / 450));
}

TEST_CASE("copies that are neither to the device nor to the host are copies still") {
  const std::vector<GpuInterval> one{{5, 25, 100, GpuWork::other_copy}};
  const GpuActivitySummary sum = summarize(one, 0, 1);
  CHECK(ns(sum.copy_s) == 20);
  CHECK(ns(sum.busy_s) == 20);
  CHECK(sum.other_copies == 1);
  CHECK(sum.to_device_s == 0);
  CHECK(sum.to_host_s == 0);
  CHECK(sum.bytes_to_device + sum.bytes_to_host == 0);
}

TEST_CASE("a window cuts what reaches into it, and counts what begins in it") {
  // The whole span is [1000, 1450): this part is [1225, 1360).
  const GpuActivitySummary sum = summarize(pattern, 0.5, 0.8);
  CHECK(ns(sum.seconds) == 135);
  CHECK(ns(sum.to_device_s) == 75);
  CHECK(ns(sum.kernel_s) == 110);
  CHECK(ns(sum.overlap_s) == 50);
  CHECK(ns(sum.busy_s) == 135);
  CHECK(sum.idle_share() == Approx(0));
  CHECK(sum.kernels == 1);
  CHECK(sum.copies_to_device == 0);
  CHECK(sum.bytes_to_device == 0);
  CHECK(sum.copies_to_host == 0);
}

TEST_CASE("windows side by side add up to the whole") {
  const GpuActivitySummary whole = summarize(pattern, 0, 1);
  GpuActivitySummary sum;
  for (int part = 0; part < 9; ++part) {
    const GpuActivitySummary one = summarize(pattern, part / 9.0, (part + 1) / 9.0);
    sum.seconds += one.seconds;
    sum.kernel_s += one.kernel_s;
    sum.busy_s += one.busy_s;
    sum.kernels += one.kernels;
    sum.copies_to_device += one.copies_to_device;
    sum.copies_to_host += one.copies_to_host;
    sum.bytes_to_device += one.bytes_to_device;
  }
  CHECK(ns(sum.seconds) == ns(whole.seconds));
  CHECK(ns(sum.kernel_s) == ns(whole.kernel_s));
  CHECK(ns(sum.busy_s) == ns(whole.busy_s));
  CHECK(sum.kernels == whole.kernels);
  CHECK(sum.copies_to_device == whole.copies_to_device);
  CHECK(sum.copies_to_host == whole.copies_to_host);
  CHECK(sum.bytes_to_device == whole.bytes_to_device);
}

TEST_CASE("the span ends where the longest ends, though others began later") {
  const std::vector<GpuInterval> two{{0, 1000, 0, GpuWork::kernel}, {10, 20, 0, GpuWork::kernel}};
  const GpuActivitySummary sum = summarize(two, 0, 1);
  CHECK(ns(sum.seconds) == 1000);
  CHECK(ns(sum.kernel_s) == 1000);
  CHECK(sum.kernels == 2);
}

TEST_CASE("of nothing there is nothing, and no share is a division by 0") {
  const GpuActivitySummary sum = summarize({}, 0, 1);
  CHECK(sum.seconds == 0);
  CHECK(sum.busy_s == 0);
  CHECK(sum.kernel_share() == 0);
  CHECK(sum.busy_share() == 0);
  CHECK(sum.idle_share() == 0);
}

TEST_CASE("random intervals, as counting every nanosecond gives them") {
  std::mt19937 random{7};
  const auto below = [&](std::uint64_t n) { return std::uint64_t{random()} % n; };
  for (int round = 0; round < 200; ++round) {
    std::vector<GpuInterval> intervals(1 + below(12));
    for (GpuInterval& one : intervals) {
      one.begin = 50 + below(200);
      one.end = one.begin + 1 + below(60);
      one.work = static_cast<GpuWork>(below(4));
    }
    intervals = sorted(intervals);
    CAPTURE(round, intervals.size());
    const std::uint64_t from = intervals.front().begin;
    std::uint64_t to = from;
    for (const GpuInterval& one : intervals) {
      to = std::max(to, one.end);
    }
    const GpuActivitySummary sum = summarize(intervals, 0, 1);
    const auto any = [](const GpuInterval&) { return true; };
    const auto copy = [](const GpuInterval& one) { return !is_kernel(one); };
    const std::uint64_t kernel_ns = counted(intervals, from, to, is_kernel);
    const std::uint64_t copy_ns = counted(intervals, from, to, copy);
    const std::uint64_t busy_ns = counted(intervals, from, to, any);
    CHECK(ns(sum.seconds) == to - from);
    CHECK(ns(sum.kernel_s) == kernel_ns);
    CHECK(ns(sum.copy_s) == copy_ns);
    CHECK(ns(sum.busy_s) == busy_ns);
    CHECK(ns(sum.overlap_s) == kernel_ns + copy_ns - busy_ns);
    CHECK(sum.kernels + sum.copies_to_device + sum.copies_to_host + sum.other_copies ==
          intervals.size());
  }
}

TEST_CASE("a summary prints as one line, which says when records were lost") {
  GpuActivitySummary sum = summarize(pattern, 0, 1);
  std::ostringstream text;
  text << sum;
  CHECK(text.str() ==
        "GPU: kernels 55.6 % (2), copies 33.3 % (1 to the device, 1 to the host, 0 other), "
        "both at once 11.1 %, idle 22.2 % of 0.000 s\n");
  sum.dropped = 3;
  std::ostringstream lost;
  lost << sum << 1.0 / 3;
  CHECK(lost.str().find("of 0.000 s; 3 records were lost") != std::string::npos);
  CHECK(lost.str().substr(lost.str().size() - 9) == "\n0.333333");
}
