// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Kernels and the way back on a host device whose k-th call fails, for every k, or whose work
// breaks down: one error comes out, nothing hangs or leaks, and the pipeline runs again.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/fail_each_call.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <penstock/host/algorithm.hpp>

#include <atomic>
#include <stdexcept>
#include <vector>

using namespace suite;
using tests::Came;
using tests::Outcome;
using tests::outcome_of;

namespace {

using Number = std::uint64_t;
using In = ps::Batch<const Number, ps::Device>;
using Out = ps::Batch<Number, ps::Device>;

constexpr std::size_t batch = 100;
constexpr std::size_t batches = 7;
constexpr std::size_t count = batch * batches - 30;

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
  static constexpr std::uint64_t records = count, at_once = batch;
  Number run{};
  // As delivered. After a failed run some may come late: nobody waits for a lost device.
  std::vector<std::atomic<Number>> numbers = std::vector<std::atomic<Number>>(count);
  std::uint64_t given{};
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
  bool right() const { return came() <= count; }
  bool whole() const { return given == count && came() == count; }
  // Returns how many right numbers came, or more than all if one was wrong.
  std::size_t came() const {
    std::size_t right = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Number number = numbers[i].load(std::memory_order_relaxed);
      const bool is_late = run != 0 && number == 2 * (i + ((run - 1) << 20)) + 1;
      if (number == 2 * (i + (run << 20)) + 1) {
        ++right;
      } else if (number != 0 && !is_late) {
        return count + 1;
      }
    }
    return right;
  }
};

template <class D> auto through_kernels(D& device, Seen& seen) {
  return ps::Reader{ps::generate<Number>(count,
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

// A pipeline, and one run of it.
template <class P> struct Ran {
  P pipeline;
  void run() { pipeline.run(); }
};
template <class P> struct Looped {
  P pipeline;
  Seen& seen;
  ps::HostStream& stream;
  void run() {
    for (auto numbers : pipeline.on(stream)) {
      stream.enqueue([&seen = seen, view = In{numbers}] { seen.keep(view); });
      seen.given += numbers.size();
    }
  }
};

} // namespace

TEST_CASE("whichever device call fails, a pipeline both ways ends with it") {
  tests::fail_each_call<Seen>(
      {"both ways", {"AsyncCopier", "Kernel", "Kernel 2", "AsyncCopier 2"}, 20, 30},
      [](tests::Bench<Seen> b) { return Ran{home(b.device, b.seen)}; });
}

TEST_CASE("whichever device call fails, a loop behind kernels ends with it") {
  tests::fail_each_call<Seen>(
      {"a loop behind kernels", {"AsyncCopier", "Kernel", "Kernel 2", "loop"}, 20, 30},
      [](tests::Bench<Seen> b) {
        return Looped{through_kernels(b.device, b.seen), b.seen, b.stream};
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
