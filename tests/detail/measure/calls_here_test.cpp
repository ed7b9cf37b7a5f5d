// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <penstock/detail/measure/meter.hpp>
#include <penstock/detail/measure/times.hpp>
#include <penstock/run/stage_report.hpp>

#include <chrono>
#include <memory>
#include <thread>

namespace ps = penstock;
using namespace ps::detail;
using namespace std::chrono_literals;

namespace {

ps::DeviceCalls sum_of(const CallCounts& counts) {
  ps::DeviceCalls sum;
  counts.add_to(sum);
  return sum;
}

} // namespace

TEST_CASE("a noted call counts in the innermost place of its own thread, with the time it took") {
  CallCounts outer;
  CallCounts inner;
  {
    const NotedCall nowhere{CallKind::wait};
  }
  {
    const CallsCountIn here{&outer};
    {
      const NotedCall launch{CallKind::launch};
    }
    std::thread{[] { const NotedCall elsewhere{CallKind::launch}; }}.join();
    {
      const CallsCountIn deeper{&inner};
      const NotedCall wait{CallKind::wait};
      std::this_thread::sleep_for(3ms);
    }
    {
      const CallsCountIn not_counted{nullptr};
      const NotedCall wait{CallKind::wait};
    }
    {
      const NotedCall copy{CallKind::pageable_copy, 100};
    }
    {
      const NotedCall copy{CallKind::copy, 1'000};
    }
    {
      const NotedCall allocation{CallKind::allocation};
    }
  }
  CHECK(calls_here == nullptr);
  const ps::DeviceCalls out = sum_of(outer);
  CHECK(out.launches == 1);
  CHECK(out.waits == 0);
  CHECK(out.copies == 2);
  CHECK(out.pageable_copies == 1);
  CHECK(out.pageable_bytes == 100);
  CHECK(out.allocations == 1);
  const ps::DeviceCalls in = sum_of(inner);
  CHECK(in.waits == 1);
  CHECK(in.wait_s >= 0.003);
  CHECK(in.launches + in.copies + in.allocations == 0);
  inner.clear();
  CHECK(sum_of(inner).waits == 0);
  CHECK(sum_of(inner).wait_s == 0);
}

TEST_CASE("a place that dies on another thread is found no more by the one that made it") {
  CallCounts outer;
  const CallsCountIn before{&outer};
  auto counts = std::make_unique<CallCounts>();
  auto place = std::make_unique<CallsCountIn>(counts.get());
  std::thread{[&] {
    place.reset();
    counts.reset();
  }}.join();
  {
    const NotedCall nowhere{CallKind::launch};
  }
  CHECK(calls_here == nullptr);
  CHECK(sum_of(outer).launches == 0);
  CallCounts later;
  {
    const CallsCountIn here{&later};
    const NotedCall launch{CallKind::launch};
  }
  CHECK(sum_of(later).launches == 1);
  CHECK(calls_here == nullptr);

  // So it is if the next thing that this thread does is to make a place, or to end one.
  place = std::make_unique<CallsCountIn>(&later);
  std::thread{[&] { place.reset(); }}.join();
  {
    const CallsCountIn here{&later};
  }
  CHECK(calls_here == nullptr);
  place = std::make_unique<CallsCountIn>(&later);
  auto deeper = std::make_unique<CallsCountIn>(&outer);
  std::thread{[&] { place.reset(); }}.join();
  deeper.reset();
  CHECK(calls_here == nullptr);
}

TEST_CASE("a call that a callable makes counts where the callable began it") {
  CallCounts counts;
  {
    const CallsCountIn here{&counts};
    const NotedCall outlives{CallKind::launch};
    const CallsCountIn not_counted{nullptr};
  }
  CHECK(sum_of(counts).launches == 1);
}

TEST_CASE("CallTimes look at every long call, and count a short one for several") {
  CallTimes times;
  const auto call = [&times](std::chrono::microseconds time) {
    times.begin();
    std::this_thread::sleep_for(time);
    times.end();
  };
  for (int i = 0; i != 5; ++i) {
    call(2ms);
  }
  CHECK(times.calls() == 5);
  CHECK(times.seconds() >= 0.010);
  times.clear();
  CHECK(times.calls() == 0);
  CHECK(times.seconds() == 0);
  for (int i = 0; i != 1'600; ++i) {
    times.begin();
    times.end();
  }
  CHECK(times.calls() == 1'600);
  CHECK(times.seconds() > 0);
  // The next one that is looked at is long, and counts as what it took from then on.
  times.clear();
  call(2ms);
  CallCounts counts;
  {
    const Calling calling{times, counts};
    CHECK(calls_here == &counts);
  }
  CHECK(calls_here == nullptr);
  CHECK(times.calls() == 2);
}

TEST_CASE("a stage's thread is in its callable for no longer than the run takes") {
  Meter meter;
  CallTimes& times = meter.call_times();
  times.begin();
  std::this_thread::sleep_for(2ms);
  times.end();
  ps::StageReport stage;
  Meter::sum(&meter, 1, 1e-3, stage); // as if a long call had counted for 16 short ones
  CHECK(stage.calling_s == 1e-3);
  Meter::sum(&meter, 1, 3600, stage);
  CHECK(stage.calling_s == times.seconds());
}
