// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Kernels and the way back on a host device whose k-th call fails, for every k, or whose work
// breaks down: one error comes out, nothing hangs or leaks, and the pipeline runs again.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/failing_device.hpp"
#include "support/outcome.hpp"
#include "support/sanitizer.hpp"
#include "support/watchdog.hpp"

#include <penstock/host/algorithm.hpp>

#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace suite;
using tests::Calls;
using tests::Came;
using tests::FailingDevice;
using tests::Outcome;
using tests::outcome_of;

namespace {

using Number = std::uint64_t;
using In = ps::Batch<const Number, ps::Device>;
using Out = ps::Batch<Number, ps::Device>;

constexpr std::size_t batch = 100;
constexpr std::size_t batches = 7;
constexpr std::size_t records = batch * batches - 30;

struct Twice {
  const Number* in;
  Number* out;
  void operator()(std::size_t i) const { out[i] = 2 * in[i]; }
};
struct PlusOne {
  Number* at;
  void operator()(std::size_t i) const { ++at[i]; }
};

// What a run delivered. The numbers of two runs differ.
struct Seen {
  Number run{};
  // As delivered. After a failed run some may come late: nobody waits for a lost device.
  std::vector<std::atomic<Number>> numbers = std::vector<std::atomic<Number>>(records);
  std::size_t given{};
  std::uint64_t trap = ~std::uint64_t{0}; // the batch whose work throws
  int trapped_by = 0;                     // in which kernel

  void next_run() {
    ++run;
    given = 0;
    for (std::atomic<Number>& number : numbers) {
      number.store(0, std::memory_order_relaxed);
    }
  }
  template <class B> void keep(const B& got) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      numbers[got.index() + i].store(got.data()[i], std::memory_order_relaxed);
    }
  }
  void set_trap(int kernel, std::uint64_t index, ps::HostStream& stream) const {
    if (kernel == trapped_by && index == trap) {
      stream.enqueue([] { throw std::runtime_error{"a trap"}; });
    }
  }
  bool right() const {
    for (std::size_t i = 0; i < records; ++i) {
      if (numbers[i].load(std::memory_order_relaxed) != 2 * (i + (run << 20)) + 1) {
        return false;
      }
    }
    return given == records;
  }
};

template <class D> auto through_kernels(D& device, Seen& seen) {
  return ps::Reader{ps::generate<Number>(records,
                                         [&seen](std::span<Number> out, std::uint64_t first) {
                                           for (Number& number : out) {
                                             number = first++ + (seen.run << 20);
                                           }
                                         }),
                    ps::to_pinned,
                    {.workers = 2, .depth = 2, .batch = batch}} |
         ps::AsyncCopier{device, {.batch = batch, .depth = 2}} |
         ps::Kernel{[&seen](In in, Out out, ps::HostStream& stream) {
                      seen.set_trap(0, in.index(), stream);
                      ps::for_each(stream, in.size(), Twice{in.data(), out.data()});
                    },
                    {.streams = 2, .depth = 2}} |
         ps::Kernel{[&seen](Out both, ps::HostStream& stream) {
           seen.set_trap(1, both.index(), stream);
           ps::for_each(stream, both.size(), PlusOne{both.data()});
         }};
}
template <class D> auto home(D& device, Seen& seen) {
  return through_kernels(device, seen) | ps::AsyncCopier{ps::to_host, {.batch = batch}} |
         ps::Consumer{[&seen](ps::Batch<const Number, ps::Pinned> numbers) {
                        seen.keep(numbers);
                        seen.given += numbers.size();
                      },
                      {.workers = 1}};
}

constexpr int fault_code = 77;

bool one_of(const std::string& stage, const char* last) {
  return stage == "AsyncCopier" || stage == "Kernel" || stage == "Kernel 2" || stage == last;
}

// Makes the k-th device call of a pipeline fail; returns false if it made fewer. `Make(device,
// seen)` makes the pipeline, and `run` runs it.
template <class Make, class Run>
bool fail_call(Make make, Run run, const char* last, Calls calls, std::uint64_t k,
               const ps::HostFault& fault, int& in_run) {
  FailingDevice device{{.late_seed = k % 8 == 0 ? k : 0}};
  Seen seen;
  bool fired = false;
  {
    ps::HostStream stream = device.stream();
    auto pipeline = make(device, seen);
    device.fail(calls, k, fault);
    Outcome out = outcome_of([&] { pipeline.prepare(); });
    fired = device.fired();
    CHECK((out.came == Came::device_error) == fired);
    if (fired) {
      const ps::HostCounts now = device.counts();
      CHECK(now.live_allocations + now.live_pinned + now.live_events == 0);
      CHECK(now.live_streams == 1);
    } else {
      out = outcome_of([&] { run(pipeline, seen, stream); });
      CAPTURE(out);
      fired = device.fired();
      in_run += fired ? 1 : 0;
      if (fired && out.came == Came::device_error) {
        // An exception of a loop's body is the application's own.
        CHECK((fault.sticky || fault.persistent));
        CHECK(last == std::string{"loop"});
      } else if (fired) {
        CHECK(out.came == Came::stage_error);
        CHECK(out.cause == Came::device_error);
        CHECK(one_of(out.stage, last));
        CHECK(out.record <= records);
      }
      if (fired) {
        CHECK(out.code == fault.code);
        CHECK(out.sticky == fault.sticky);
      } else {
        CHECK(out.came == Came::nothing);
        CHECK(seen.right());
      }
    }
    if (fired) {
      device.mend();
      seen.next_run();
      out = outcome_of([&] { run(pipeline, seen, stream); });
      CAPTURE(out);
      if (fault.sticky) {
        CHECK(out.sticky);
        CHECK(seen.given == 0);
      } else {
        CHECK(out.came == Came::nothing);
        CHECK(seen.right());
        CHECK(device.last_error() == 0);
      }
    }
  }
  ps::tests::check_nothing_lives(device);
  return fired;
}

template <class Make, class Run> void fail_each_call(const char* last, Make make, Run run) {
  tests::Watchdog watchdog{last};
  for (const ps::HostFault& fault :
       {ps::HostFault{.code = fault_code}, ps::HostFault{.persistent = true, .code = fault_code},
        ps::HostFault{.sticky = true, .code = fault_code}}) {
    CAPTURE(fault.persistent, fault.sticky);
    int others = 0;
    for (std::uint64_t k = 1, missed = 0; missed < 3; ++k) {
      CAPTURE(k);
      watchdog.progress(k);
      missed = fail_call(make, run, last, Calls::others, k, fault, others) ? 0 : missed + 1;
    }
    // Only the first ones fail, each in turn; how many there are depends on how long the fences
    // take.
    int questions = 0;
    constexpr std::uint64_t each = tests::under_tsan ? 4 : 12;
    for (std::uint64_t k = 1, missed = 0; missed < 2; k += k < each ? 1 : k / 2) {
      CAPTURE(k);
      watchdog.progress(k);
      missed = fail_call(make, run, last, Calls::questions, k, fault, questions) ? 0 : missed + 1;
    }
    std::printf("to the %s: %d calls and %d questions failed in run()\n", last, others, questions);
    CHECK(others >= 30); // copies both ways, waits, records, of each batch
    CHECK(questions >= 3);
  }
}

} // namespace

TEST_CASE("whichever device call fails, a pipeline both ways ends with it") {
  fail_each_call(
      "AsyncCopier 2", [](FailingDevice& device, Seen& seen) { return home(device, seen); },
      [](auto& pipeline, Seen&, ps::HostStream&) { pipeline.run(); });
}

TEST_CASE("whichever device call fails, a loop behind kernels ends with it") {
  fail_each_call(
      "loop", [](FailingDevice& device, Seen& seen) { return through_kernels(device, seen); },
      [](auto& pipeline, Seen& seen, ps::HostStream& stream) {
        for (auto numbers : pipeline.on(stream)) {
          stream.enqueue([&seen, view = In{numbers}] { seen.keep(view); });
          seen.given += numbers.size();
        }
      });
}

TEST_CASE("work of a kernel that throws on the device ends the run, and is laid to that kernel") {
  tests::Watchdog watchdog{"a trap in a kernel"};
  for (int kernel = 0; kernel < 2; ++kernel) {
    for (std::uint64_t bad = 0; bad < batches; ++bad) {
      for (const std::uint64_t seed : {0, 1, 2}) {
        CAPTURE(kernel, bad, seed);
        watchdog.progress(bad);
        ps::HostDevice device{{.late_seed = seed}};
        Seen seen;
        seen.trap = bad * batch;
        seen.trapped_by = kernel;
        {
          auto pipeline = home(device, seen);
          const Outcome out = outcome_of([&] { pipeline.run(); });
          CAPTURE(out);
          CHECK(out.came == Came::stage_error);
          CHECK(out.cause == Came::device_error);
          CHECK(out.sticky);
          CHECK(out.says("a trap"));
          CHECK(seen.given <= bad * batch);
          // Whichever stage sees it, the error names the stage whose work it was, or one whose
          // earlier work was not known to be done.
          const auto named = [&](const char* stage) {
            return out.stage == stage || out.enqueued_by == stage;
          };
          CHECK((named("Kernel") || (kernel == 1 && named("Kernel 2"))));
          const std::size_t given = seen.given;
          const Outcome again = outcome_of([&] { pipeline.run(); });
          CHECK(again.text == out.text);
          CHECK(seen.given == given);
        }
        ps::tests::check_nothing_lives(device);
      }
    }
  }
}

TEST_CASE("records left out before the device keep their numbers in the source on the way back") {
  // The value of each record is its number.
  const auto numbers = ps::generate<Number>(3000, [](std::span<Number> out, std::uint64_t first) {
    for (Number& number : out) {
      number = first++;
    }
  });
  const auto drop = [](Number every) {
    return [every](const Number& in, Number& out) {
      if (in % every == every - 1) {
        throw std::runtime_error{"bad"};
      }
      out = in;
    };
  };
  for (const std::uint64_t seed : {0, 1}) {
    CAPTURE(seed);
    ps::HostDevice device{{.late_seed = seed}};
    std::uint64_t came = 0;
    std::size_t wrong = 0;
    auto pipeline = ps::Reader{numbers, {.workers = 2, .epochs = 2, .batch = 50}} |
                    ps::Decoder{drop(7), {.workers = 2, .on_error = {.skips = 1000}}} |
                    ps::PinnedStager{{.workers = 2}} | ps::AsyncCopier{device, {.batch = 30}} |
                    ps::Kernel{[](Out, ps::HostStream&) {}} |
                    ps::AsyncCopier{ps::to_host, {.batch = 30}} |
                    ps::Consumer{[&](ps::Batch<const Number, ps::Pinned> given) {
                                   wrong += given.index() == came ? 0 : 1;
                                   wrong += given.data()[0] == given.source_index() ? 0 : 1;
                                   came += given.size();
                                 },
                                 {.workers = 1}};
    for (int run = 0; run < 2; ++run) {
      came = 0;
      const ps::Report& report = pipeline.run();
      CHECK(wrong == 0);
      CHECK(came == 2 * (3000 - 428));
      CHECK(report.records == came);
      CHECK(report.skipped == 2 * 428);
      CHECK(report.dropped == 0);
    }

    // Records skipped after a kernel that changes their number are not among those that it took.
    auto recounted = ps::Reader{numbers, {.workers = 2, .batch = 50}} |
                     ps::Decoder{drop(7), {.workers = 2, .on_error = {.skips = 1000}}} |
                     ps::PinnedStager{{.workers = 2}} | ps::AsyncCopier{device, {.batch = 30}} |
                     ps::Kernel{[](In, Out out, ps::HostStream& stream) {
                                  stream.enqueue([out] {
                                    for (std::size_t i = 0; i < out.size(); ++i) {
                                      out.data()[i] = out.index() + i;
                                    }
                                  });
                                },
                                {.gives = 3, .per = 2}} |
                     ps::AsyncCopier{ps::to_host, {.batch = 45}} |
                     ps::Decoder{drop(11), {.workers = 2, .on_error = {.skips = 1000}}} |
                     ps::Consumer{[](ps::Batch<const Number, ps::Pageable>) {}, {.workers = 1}};
    const ps::Report& report = recounted.run();
    const std::uint64_t given = (3000 - 428) / 2 * 3;
    CHECK(report.stages[6].name == "Decoder 2");
    CHECK(report.stages[6].skipped == given / 11);
    CHECK(report.skipped == 428 + given / 11);
    CHECK(report.records == given - given / 11);
    CHECK(report.dropped == 0);
  }
}
