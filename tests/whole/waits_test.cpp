// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a Report tells of the last stage's waits, of callables' calls of a device, and of memory.

#include "support/catch.hpp"
#include "support/watchdog.hpp"

#include <penstock/detail/measure/times.hpp>
#include <penstock/penstock.hpp>
#include <penstock/ring/detail/wait_word.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>

namespace ps = penstock;
using namespace std::chrono_literals;
using ps::detail::CallKind;
using ps::detail::NotedCall;

namespace {

using OnDevice = ps::Batch<const std::byte, ps::Device>;
using OnHost = ps::Batch<const std::byte, ps::Pageable>;
using ToFill = ps::Batch<std::byte, ps::Pageable>;

constexpr std::size_t slot = 10'000;
constexpr std::uint64_t slots = 40;

auto source(std::chrono::milliseconds each) {
  return ps::generate<std::byte>(slots * slot, [each](std::span<std::byte> out, std::uint64_t) {
    std::this_thread::sleep_for(each);
    std::fill(out.begin(), out.end(), std::byte{1});
  });
}
auto reader(std::chrono::milliseconds each) {
  return ps::Reader{source(each), {.workers = 1, .depth = 4, .batch = slot}};
}
void one_of_each() {
  {
    const NotedCall call{CallKind::launch};
  }
  {
    const NotedCall call{CallKind::wait};
  }
  {
    const NotedCall call{CallKind::allocation};
  }
  {
    const NotedCall call{CallKind::copy};
  }
  {
    const NotedCall call{CallKind::pageable_copy, 10};
  }
}
bool made(const ps::DeviceCalls& calls, std::uint64_t times) {
  return calls.launches == times && calls.waits == times && calls.allocations == times &&
         calls.copies == 2 * times && calls.pageable_copies == times &&
         calls.pageable_bytes == 10 * times;
}
bool none(const ps::DeviceCalls& calls) {
  return made(calls, 0);
}

// Runs it until the Report is right, since the machine may be busy with something else; fails after
// five times.
template <class Run, class Right> void check_often(Run run, Right is_right) {
  for (int tries = 0; tries != 5; ++tries) {
    const ps::Report report = run();
    for (const ps::StageReport& stage : report.stages) {
      CHECK(stage.busy_in_waits_s <= stage.busy_s + 1e-6);
    }
    if (is_right(report)) {
      return;
    }
    UNSCOPED_INFO(report);
  }
  FAIL_CHECK("none of five Reports is right");
}
// In a run whose Reader sleeps, all wait for it, and it is at work meanwhile.
bool has_slow_reader(const ps::Report& report) {
  const ps::StageReport& slow = report.stages.front();
  bool right = report.waited_s > 0.8 * report.seconds &&
               slow.busy_in_waits_s > 0.8 * report.waited_s &&
               slow.blocked_in_waits_s < 0.1 * report.waited_s;
  for (std::size_t i = 1; i != report.stages.size(); ++i) {
    // Fences are seen late on a busy machine.
    right = right && report.stages[i].busy_in_waits_s < slow.busy_in_waits_s;
  }
  return right;
}

} // namespace

TEST_CASE("while the last stage waits for a slow Reader, the Reader is busy and nobody else") {
  const ps::tests::Watchdog watchdog{"slow readers"};
  ps::HostDevice device;
  auto on_host = reader(3ms) | ps::Decoder{[](OnHost in, ToFill out) {
                   std::copy(in.data(), in.data() + in.size(), out.data());
                 }} |
                 ps::Consumer{[](OnHost) {}};
  check_often([&] { return on_host.run(); }, has_slow_reader);
  auto on_device = reader(3ms) | ps::PinnedStager{} | ps::AsyncCopier{device, {.batch = slot}} |
                   ps::Consumer{[](OnDevice, ps::HostStream& stream) { stream.enqueue([] {}); }};
  check_often([&] { return on_device.run(); }, has_slow_reader);
  auto open = reader(3ms) | ps::PinnedStager{} | ps::AsyncCopier{device, {.batch = slot}};
  auto stream = device.stream();
  const auto loop = [&] {
    for (auto batch : open.on(stream)) {
      stream.enqueue([] {});
    }
    return open.report();
  };
  check_often(loop, has_slow_reader);
  auto host_loop = reader(3ms) | ps::PinnedStager{device};
  const auto on_host_too = [&] {
    for (auto batch : host_loop.batches()) {
      static_cast<void>(batch);
    }
    return host_loop.report();
  };
  check_often(on_host_too, has_slow_reader);
}

TEST_CASE("a last stage that is slow itself does not wait") {
  const ps::tests::Watchdog watchdog{"a slow consumer"};
  auto pipeline =
      reader(0ms) | ps::Consumer{[](OnHost) { std::this_thread::sleep_for(3ms); }, {.workers = 1}};
  check_often([&] { return pipeline.run(); },
              [](const ps::Report& report) {
                return report.waited_s < 0.2 * report.seconds &&
                       report.stages[0].busy_in_waits_s < 0.2 * report.seconds &&
                       report.stages[0].blocked_s > 0.5 * report.seconds;
              });
}

TEST_CASE("waits begin anew with each run") {
  const ps::tests::Watchdog watchdog{"two runs"};
  auto pipeline = reader(3ms) | ps::Consumer{[](OnHost) {}};
  for (int run = 0; run != 2; ++run) {
    const ps::Report report = pipeline.run();
    CHECK(report.waited_s <= report.seconds);
    CHECK(report.waited_s > 0.8 * report.seconds);
  }
}

TEST_CASE("what callables ask of a device counts for their stage, and nothing else does") {
  const ps::tests::Watchdog watchdog{"calls"};
  ps::HostDevice device;
  one_of_each(); // on this thread, outside of callables
  auto pipeline = reader(0ms) | ps::Decoder{[](OnHost, ToFill) { one_of_each(); }, {.workers = 2}} |
                  ps::PinnedStager{} | ps::AsyncCopier{device, {.batch = slot}} |
                  ps::Kernel{[](OnDevice, ps::Batch<std::byte, ps::Device>, ps::HostStream&) {
                    one_of_each();
                  }} |
                  ps::Consumer{[](OnDevice, ps::HostStream&) { one_of_each(); }};
  for (int run = 0; run != 2; ++run) {
    const ps::Report report = pipeline.run();
    one_of_each();
    REQUIRE(report.stages.size() == 6);
    CHECK(none(report.stages[0].calls));
    CHECK(made(report.stages[1].calls, report.stages[1].units));
    CHECK(none(report.stages[2].calls));
    CHECK(none(report.stages[3].calls));
    CHECK(made(report.stages[4].calls, slots));
    CHECK(made(report.stages[5].calls, slots));
    CHECK(report.stages[4].units == slots);
    CHECK(report.stages[5].units == slots);
  }
}

TEST_CASE("the body of a loop counts as a callable, from one batch to the next") {
  const ps::tests::Watchdog watchdog{"calls of loops"};
  ps::HostDevice device;
  auto stream = device.stream();
  auto on_device = reader(0ms) | ps::PinnedStager{} | ps::AsyncCopier{device, {.batch = slot}};
  for (auto batch : on_device.on(stream)) {
    one_of_each();
    std::this_thread::sleep_for(1ms);
  }
  one_of_each();
  CHECK(ps::detail::calls_here == nullptr);
  const ps::Report report = on_device.report();
  CHECK(made(report.stages.back().calls, slots));
  CHECK(report.stages.back().units == slots);
  CHECK(report.stages.back().calling_s >= 0.001 * slots);
  CHECK(report.stages.back().calling_s <= report.seconds);

  auto on_host = reader(0ms) | ps::PinnedStager{device};
  std::uint64_t bodies = 0;
  for (auto batch : on_host.batches()) {
    one_of_each();
    if (++bodies == 5) {
      break;
    }
  }
  one_of_each();
  CHECK(ps::detail::calls_here == nullptr);
  CHECK(made(on_host.report().stages.back().calls, 5));
}

TEST_CASE("loops that are walked in turns end in any order, and count what is theirs") {
  const ps::tests::Watchdog watchdog{"two loops"};
  ps::HostDevice device;
  auto stream = device.stream();
  auto on_device = reader(0ms) | ps::PinnedStager{} | ps::AsyncCopier{device, {.batch = slot}};
  {
    auto on_host = reader(0ms) | ps::PinnedStager{device};
    auto here = on_host.batches();
    auto there = on_device.on(stream);
    while (here.next() && there.next()) {
      one_of_each();
    }
    CHECK(made(on_host.report().stages.back().calls, 0));
  }
  // The other pipeline is gone, and calls count there no more.
  CHECK(ps::detail::calls_here == nullptr);
  one_of_each();
  CHECK(made(on_device.report().stages.back().calls, slots));

  auto stays = reader(0ms) | ps::PinnedStager{device};
  auto later = stays.batches();
  {
    auto goes = reader(0ms) | ps::PinnedStager{device};
    auto first = goes.batches();
    CHECK(first.next());
    CHECK(later.next());
  }
  CHECK(ps::detail::calls_here != nullptr);
  one_of_each();
  while (later.next()) {
  }
  CHECK(ps::detail::calls_here == nullptr);
  CHECK(stays.report().stages.back().calls.launches == 1);
}

TEST_CASE("the last stage waits as long if another pipeline runs on its thread") {
  const ps::tests::Watchdog watchdog{"pipelines within pipelines"};
  ps::HostDevice device;
  auto within = reader(0ms) | ps::Consumer{[](OnHost) {}, {.workers = 1}};
  within.prepare();
  auto pipeline = reader(3ms) | ps::Consumer{[&within, first = true](OnHost) mutable {
                                               if (std::exchange(first, false)) {
                                                 within.run();
                                               }
                                             },
                                             {.workers = 1}};
  const ps::Report report = pipeline.run();
  CHECK(report.waited_s > 0.8 * report.seconds);
  auto loop = reader(15ms) | ps::PinnedStager{device};
  for (auto batch : loop.batches()) {
    within.run();
  }
  CHECK(loop.report().waited_s > 0.2 * loop.report().seconds);
  CHECK(ps::detail::before_sleep.call == nullptr);
}

TEST_CASE("a Report tells what the rings of a pipeline take of each kind of memory") {
  ps::HostDevice device;
  auto pipeline = ps::Reader{source(0ms), {.workers = 3, .depth = 5, .batch = slot}} |
                  ps::PinnedStager{{.depth = 4}} | ps::AsyncCopier{device, {.batch = slot}} |
                  ps::Consumer{[](OnDevice, ps::HostStream&) {}};
  const ps::Report report = pipeline.run();
  CHECK(report.stages[0].kind == ps::StageKind::reader);
  CHECK(report.stages[1].kind == ps::StageKind::stager);
  CHECK(report.stages[2].kind == ps::StageKind::copy_to_device);
  CHECK(report.stages[3].kind == ps::StageKind::consumer);
  CHECK(report.stages[0].slot_bytes == slot);
  CHECK(report.stages[3].slot_bytes == slot);
  CHECK(report.pageable_bytes == 5 * slot);
  CHECK(report.pinned_bytes >= 4 * slot); // whole pages
  CHECK(report.pinned_bytes < 4 * slot + 4096);
  CHECK(report.device_bytes == report.stages[2].depth * slot);
  CHECK(report.stages[0].workers_used >= 1);
  CHECK(report.stages[0].workers_used <= 3);
  CHECK(report.stages[0].units == slots);
  CHECK(report.epochs == 1);
}
