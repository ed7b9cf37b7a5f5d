// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/failing_device.hpp"
#include "support/outcome.hpp"
#include "support/sanitizer.hpp"
#include "support/watchdog.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace penstock::tests {

/// What a chain whose device calls fail has at hand. `Seen` is what its last stage sees of a run:
///
///     static constexpr std::uint64_t records, at_once; // of a whole run, and of a batch
///     std::uint64_t given;                           // records that the last stage has had
///     void next_run();                               // other bytes are right from here on
///     bool right() const;                            // no byte that it saw was wrong
///     bool whole() const;                            // it saw all bytes of a run
///
/// The streams and the event are the application's own: they are there before and after.
template <class Seen> struct Bench {
  FailingDevice& device;
  Seen& seen;
  HostStream& stream;
  HostStream& other;
  HostEvent& event;
};

/// Who tells of a failed device call, and how many calls of prepare() and of a run fail at least.
struct ToldBy {
  const char* chain;
  std::vector<std::string> stages; // "loop" if the chain ends in the application's own
  int in_prepare, in_run;

  bool has(const std::string& stage) const {
    return std::find(stages.begin(), stages.end(), stage) != stages.end();
  }
};

inline constexpr int fault_code = 77;

struct Fault {
  HostFault fault;
  const char* name;
};
/// After a sticky fault all calls fail.
inline constexpr Fault all_faults[] = {
    {{.persistent = false, .sticky = false, .code = fault_code}, "once"},
    {{.persistent = true, .sticky = false, .code = fault_code}, "from then on"},
    {{.persistent = false, .sticky = true, .code = fault_code}, "sticky"},
};

inline void check_error_of_run(const Outcome& out, const HostFault& fault, const ToldBy& told,
                               std::uint64_t records) {
  if (out.came == Came::device_error) {
    // An exception of a loop's body is the application's own.
    CHECK((fault.sticky || fault.persistent));
    CHECK(told.has("loop"));
  } else {
    CHECK(out.came == Came::stage_error);
    CHECK(out.cause == Came::device_error);
    CHECK(out.record <= records);
    CHECK(told.has(out.stage));
    CHECK(out.says("penstock: " + out.stage + " failed at record "));
  }
}

/// How many device calls failed.
struct Fired {
  int in_prepare = 0;
  int in_run = 0;
};

/// Runs one pipeline whose k-th device call fails; returns false if it made fewer. `make(bench)`
/// returns something with a `pipeline` and a `run()`.
template <class Seen, class Make>
bool fail_call(const ToldBy& told, Make make, Calls calls, std::uint64_t k, const HostFault& fault,
               Fired& fired) {
  FailingDevice device{{.late_seed = k % 8 == 0 ? k : 0}};
  Seen seen;
  bool in_prepare = false;
  bool in_run = false;
  {
    HostStream stream = device.stream();
    HostStream other = device.stream();
    HostEvent event = device.event();
    auto chain = make(Bench<Seen>{device, seen, stream, other, event});
    device.fail(calls, k, fault);
    Outcome out = outcome_of([&] { chain.pipeline.prepare(); });
    CAPTURE(out);
    in_prepare = device.fired();
    CHECK(out.came == (in_prepare ? Came::device_error : Came::nothing));
    if (in_prepare) {
      // As if prepare() had not been called.
      const HostCounts now = device.counts();
      CHECK(now.live_allocations + now.live_pinned == 0);
      CHECK(now.live_streams == 2);
      CHECK(now.live_events == 1);
    } else {
      out = outcome_of([&] { chain.run(); });
      in_run = device.fired();
      if (in_run) {
        check_error_of_run(out, fault, told, Seen::records);
        // The Report counts the batches handed over, and not the one at which a call failed.
        CHECK(chain.pipeline.report().records <= seen.given + Seen::at_once);
        CHECK(chain.pipeline.report().records + Seen::at_once >= seen.given);
      } else {
        CHECK(out.came == Came::nothing);
        CHECK(seen.whole());
      }
    }
    if (in_prepare || in_run) {
      CHECK(out.code == fault.code);
      CHECK(out.sticky == fault.sticky);
      device.mend();
      seen.next_run();
      out = outcome_of([&] { chain.run(); });
      if (fault.sticky) {
        CHECK(seen.given == 0);
        CHECK(out.code == fault.code);
        CHECK(out.sticky);
      } else {
        CHECK(device.last_error() == 0);
        CHECK(out.came == Came::nothing);
        CHECK(seen.whole());
      }
    }
  }
  CHECK(seen.right());
  check_nothing_lives(device);
  fired.in_prepare += in_prepare ? 1 : 0;
  fired.in_run += in_run ? 1 : 0;
  return in_prepare || in_run;
}

/// Has each device call of a chain fail in each way: one error comes out, nothing hangs or leaks,
/// and the pipeline runs again.
template <class Seen, class Make> void fail_each_call(const ToldBy& told, Make make) {
  Watchdog watchdog{told.chain};
  for (const auto& [fault, name] : all_faults) {
    CAPTURE(name);
    const auto fails = [&](Calls calls, std::uint64_t k, Fired& fired) {
      CAPTURE(k);
      watchdog.progress(k);
      return fail_call<Seen>(told, make, calls, k, fault, fired);
    };
    Fired others;
    for (std::uint64_t k = 1, missed = 0; missed < 3; ++k) {
      missed = fails(Calls::others, k, others) ? 0 : missed + 1;
    }
    // Only the first ones fail, each in turn; how many there are depends on how long the fences
    // take.
    Fired questions;
    constexpr std::uint64_t each = under_tsan ? 4 : 12;
    for (std::uint64_t k = 1, missed = 0; missed < 2; k += k < each ? 1 : k / 2) {
      missed = fails(Calls::questions, k, questions) ? 0 : missed + 1;
    }
    std::printf("%s, %s: %d calls failed in prepare(), %d and %d questions in run()\n", told.chain,
                name, others.in_prepare, others.in_run, questions.in_run);
    CHECK(others.in_prepare >= told.in_prepare); // memory, streams, events
    CHECK(others.in_run >= told.in_run);         // copies, waits, records
    CHECK(questions.in_run >= 3);
  }
}

} // namespace penstock::tests
