// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whole pipelines on a host device whose k-th call fails, for every k: one error comes out, nothing
// hangs or leaks, and the pipeline runs again.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/outcome.hpp"
#include "support/sanitizer.hpp"
#include "support/watchdog.hpp"

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

using namespace suite;
using tests::Came;
using tests::Outcome;
using tests::outcome_of;

namespace {

using Bytes = ps::Batch<const std::byte, ps::Device>;
using Collects = Collector<ps::HostDevice>;

// One record a slot and batch, which makes them small.
constexpr std::size_t record = 524'289;
constexpr std::size_t total = 3 * record;
constexpr ps::MemoryOptions records{.record_bytes = record};

// Sends each batch to where it is told, so that two runs need not share memory.
struct Sink {
  Collects* to;
  void operator()(Bytes bytes, ps::HostStream& stream) { (*to)(bytes, stream); }
};

auto read_in_place(ps::HostDevice& device, std::span<const std::byte> bytes, Sink& sink) {
  return ps::Reader{ps::memory(bytes, records), ps::to_pinned, {.workers = 2, .depth = 2}} |
         ps::AsyncCopier{device, {.batch = 1}} | ps::Consumer{std::ref(sink)};
}
auto staged(ps::HostDevice& device, std::span<const std::byte> bytes, Sink& sink) {
  return ps::Reader{ps::memory(bytes, records), {.workers = 1, .depth = 2}} |
         ps::PinnedStager{{.workers = 2, .depth = 2}} | ps::AsyncCopier{device, {.batch = 1}} |
         ps::Consumer{std::ref(sink)};
}

struct Wanted {
  ps::HostFault fault;
  const char* name;
};
constexpr int fault_code = 77;
constexpr Wanted all_faults[] = {
    {{.persistent = false, .sticky = false, .code = fault_code}, "once"},
    {{.persistent = true, .sticky = false, .code = fault_code}, "persistent"},
    {{.persistent = false, .sticky = true, .code = fault_code}, "sticky"},
    {{.persistent = true, .sticky = true, .code = fault_code}, "sticky and persistent"},
};

void check_error_of_fault(const Outcome& out, const ps::HostFault& fault, bool in_run) {
  CAPTURE(out);
  if (in_run) {
    CHECK(out.came == Came::stage_error);
    CHECK(out.cause == Came::device_error);
    CHECK((out.stage == "AsyncCopier" || out.stage == "Consumer"));
    CHECK(out.says("penstock: " + out.stage + " failed at record "));
  } else {
    CHECK(out.came == Came::device_error);
  }
  CHECK(out.code == fault.code);
  CHECK(out.sticky == fault.sticky);
}

struct Fired {
  int in_prepare = 0;
  int in_run = 0;
};

// One pipeline whose k-th device call fails; false if it made fewer.
template <class Make>
bool fail_call(Make make, std::uint64_t k, const ps::HostFault& fault,
               std::span<const std::byte> bytes, Fired& fired) {
  // Late copies make for very many questions, all alike.
  ps::HostDevice device{{.late_seed = k % 8 == 0 ? k : 0}};
  Collects first{device, bytes.size()};
  Collects second{device, bytes.size()};
  Sink sink{&first};
  bool in_prepare = false;
  bool in_run = false;
  {
    auto pipeline = make(device, bytes, sink);
    device.fail_call(k, fault);
    Outcome out = outcome_of([&] { pipeline.prepare(); });
    in_prepare = device.fault_fired();
    if (in_prepare) {
      check_error_of_fault(out, fault, false);
      // As if it had not been called.
      ps::tests::check_nothing_lives(device, 2); // of two collectors
    } else {
      CHECK(out.came == Came::nothing);
      out = outcome_of([&] { pipeline.run(); });
      in_run = device.fault_fired();
      if (in_run) {
        check_error_of_fault(out, fault, true);
        // It counts what was handed over, and not the batch at which a call failed.
        CHECK(pipeline.report().records <= first.records);
        CHECK(pipeline.report().records + 1 >= first.records);
      } else {
        CHECK(out.came == Came::nothing);
        CHECK(first.holds(bytes));
      }
    }
    if (in_prepare || in_run) {
      device.fail_call(0);
      sink.to = &second;
      out = outcome_of([&] { pipeline.run(); });
      if (fault.sticky) {
        CHECK(second.records == 0);
        CHECK(out.code == fault.code);
        CHECK(out.sticky);
      } else {
        CAPTURE(out);
        CHECK(device.last_error() == 0);
        CHECK(out.came == Came::nothing);
        CHECK(second.in_order);
        CHECK(second.holds(bytes));
      }
    }
  }
  ps::tests::check_nothing_lives(device, 2); // of two collectors
  fired.in_prepare += in_prepare ? 1 : 0;
  fired.in_run += in_run ? 1 : 0;
  return in_prepare || in_run;
}

template <class Make> void fail_each_call(const char* chain, Make make) {
  const auto bytes = some_bytes(total);
  tests::Watchdog watchdog{chain};
  for (const auto& [fault, name] : all_faults) {
    CAPTURE(name);
    Fired fired;
    // How many calls a run makes depends on how long its fences take. Most are questions about
    // them.
    const std::uint64_t step = tests::under_tsan ? 9 : 1;
    for (std::uint64_t k = 1, missed = 0; missed < 3; k += k < 24 ? 1 : step) {
      CAPTURE(k);
      watchdog.progress(k);
      missed = fail_call(make, k, fault, bytes, fired) ? 0 : missed + 1;
    }
    std::printf("%s, %s: %d device calls failed in prepare(), %d in run()\n", chain, name,
                fired.in_prepare, fired.in_run);
    CHECK(fired.in_prepare >= 8); // memory, streams, events
    CHECK(fired.in_run >= 10);
  }
}

} // namespace

TEST_CASE("whichever device call fails, a pipeline that reads into pinned memory ends with it") {
  fail_each_call("Reader, AsyncCopier, Consumer", read_in_place);
}

TEST_CASE("whichever device call fails, a pipeline that stages ends with it") {
  fail_each_call("Reader, PinnedStager, AsyncCopier, Consumer", staged);
}

TEST_CASE("a run whose waiting at the end fails too leaves a pipeline that runs again") {
  // All calls fail from a moment when copies and work of the callable are under way.
  const auto bytes = some_bytes(total);
  tests::Watchdog watchdog{"waiting fails"};
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    watchdog.progress(seed);
    ps::HostDevice device{{.late_seed = seed, .copy_ns_per_kib = 500}};
    Collects first{device, bytes.size()};
    Collects second{device, bytes.size()};
    std::uint64_t left = seed % 3;
    Collects* to = &first;
    auto pipeline = ps::Reader{ps::memory(std::span{bytes}, records), ps::to_pinned, {.depth = 2}} |
                    ps::AsyncCopier{device, {.batch = 1}} |
                    ps::Consumer{[&](Bytes arrived, ps::HostStream& stream) {
                      (*to)(arrived, stream);
                      if (to == &first && left-- == 0) {
                        device.fail_call(1, {.persistent = true});
                      }
                    }};
    CHECK(outcome_of([&] { pipeline.run(); }).cause == Came::device_error);
    // The device is still not well, and nothing is begun.
    CHECK(outcome_of([&] { pipeline.run(); }).cause == Came::device_error);
    device.fail_call(0);
    to = &second;
    CHECK(pipeline.run().records == 3);
    CHECK(second.holds(bytes));
  }
}

TEST_CASE("work that throws on the device ends the run, and every later one at once") {
  const auto bytes = some_bytes(total);
  tests::Watchdog watchdog{"a trap"};
  for (std::uint64_t bad = 0; bad < 3; ++bad) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      CAPTURE(bad, seed);
      watchdog.progress(bad);
      ps::HostDevice device{{.late_seed = seed}};
      std::uint64_t calls = 0;
      {
        auto pipeline = ps::Reader{ps::memory(std::span{bytes}, records)} |
                        ps::PinnedStager{{.workers = 2, .depth = 2}} |
                        ps::AsyncCopier{device, {.batch = 1}} |
                        ps::Consumer{[&](Bytes arrived, ps::HostStream& stream) {
                          ++calls;
                          if (arrived.index() == bad) {
                            stream.enqueue([] { throw std::runtime_error{"a trap"}; });
                          }
                        }};
        const Outcome out = outcome_of([&] { pipeline.run(); });
        CAPTURE(out);
        CHECK(out.came == Came::stage_error);
        CHECK(out.cause == Came::device_error);
        CHECK(out.sticky);
        CHECK(out.says("a trap"));
        CHECK(calls > bad);
        calls = 0;
        const Outcome again = outcome_of([&] { pipeline.run(); });
        CHECK(again.text == out.text);
        CHECK(calls == 0);
      }
      CHECK(device.counts().live_allocations == 0);
      CHECK(device.counts().live_pinned == 0);
      CHECK(device.counts().live_streams == 0);
      CHECK(device.counts().live_events == 0);
    }
  }
}
