// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whole pipelines one of whose kernels traps. Each runs in a process of its own, since a trap ends
// the GPU's use for a process.

#include <penstock/cuda/algorithm.cuh>
#include <penstock/penstock.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>

#include <unistd.h>

using namespace penstock;
using namespace std::chrono_literals;
using penstock::tests::Came;
using penstock::tests::Outcome;
using penstock::tests::outcome_of;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint64_t count = 40;
constexpr const char* variable = "PENSTOCK_TEST_TRAP";

struct Item {
  std::uint64_t value[512];
};
using Items = Batch<const Item, Device>;

struct TrapAt {
  Items items;
  std::uint64_t bad;
  PENSTOCK_HD void operator()(std::size_t i) const {
#if defined(__CUDA_ARCH__)
    if (items.index() + i == bad) {
      __trap();
    }
#else
    (void)i;
#endif
  }
};

struct Fill {
  void operator()(std::span<Item> out, std::uint64_t first) const {
    for (Item& item : out) {
      item.value[0] = first++;
    }
  }
};
auto staged(CudaDevice& gpu) {
  return Reader{generate<Item>(count, Fill{}), {.workers = 2, .depth = 3, .batch = 1}} |
         PinnedStager{{.workers = 2, .depth = 3}} | AsyncCopier{gpu, {.batch = 1, .depth = 3}};
}

double ms(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Runs a pipeline twice and destroys it, by `make` and `run`, in the process that traps.
template <class Make, class Run>
void trap(const char* stage, std::uint64_t bad, Make make, Run run) {
  tests::Watchdog watchdog{stage};
  Clock::time_point trapped;
  std::uint64_t calls = 0;
  const auto use = [&](Items items, cudaStream_t stream) {
    ++calls;
    if (items.index() == bad) {
      trapped = Clock::now();
    }
    for_each(stream, items.size(), TrapAt{items, bad});
  };
  std::optional pipeline{make(use)};
  const Outcome out = outcome_of([&] { run(*pipeline, use); });
  const Clock::time_point thrown = Clock::now();
  CAPTURE(out);
  CHECK(calls > bad);
  if (out.came == Came::stage_error) {
    CHECK(out.cause == Came::device_error);
    // Whichever stage saw the trap, the error names the stage whose work it was.
    CHECK((out.stage == stage || out.enqueued_by == stage));
    CHECK((out.enqueued_by.empty() ||
           out.says("Still queued was what " + std::string{stage} + " enqueued from record ")));
  } else {
    // A launch in the application's own loop may see it first.
    CHECK(out.came == Came::device_error);
    CHECK(std::string{stage} == "loop");
  }
  CHECK(out.sticky);
  CHECK(out.says("start it anew"));

  calls = 0;
  const Outcome again = outcome_of([&] { run(*pipeline, use); });
  CHECK(again.came != Came::nothing);
  CHECK(again.sticky);
  CHECK(calls == 0);
  const Clock::time_point thrown_again = Clock::now();
  pipeline.reset();
  const Clock::time_point gone = Clock::now();
  std::fprintf(stderr,
               "a trap at batch %llu of a %s: error after %.2f ms, the second run's after %.2f ms, "
               "destroyed in %.2f ms; seen by %s\n",
               static_cast<unsigned long long>(bad), stage, ms(thrown - trapped),
               ms(thrown_again - thrown), ms(gone - thrown_again), out.stage.c_str());
  CHECK(gone - trapped < 20s);
}

void trap_in_consumer(std::uint64_t bad) {
  CudaDevice gpu;
  trap(
      "Consumer", bad,
      [&](const auto& use) {
        return staged(gpu) |
               Consumer{[&use](Items items, cudaStream_t stream) { use(items, stream); }};
      },
      [](auto& pipeline, const auto&) { pipeline.run(); });
}
void trap_in_loop(std::uint64_t bad) {
  CudaDevice gpu;
  CudaStream stream = gpu.stream();
  trap(
      "loop", bad, [&](const auto&) { return staged(gpu); },
      [&](auto& pipeline, const auto& use) {
        for (auto batch : pipeline.on(stream)) {
          use(batch, stream.get());
        }
      });
}

} // namespace

TEST_CASE("a pipeline whose kernel traps ends once, says whose work it was, and dies", "[trap]") {
  if (const char* what = std::getenv(variable)) {
    const std::string asked{what};
    const std::uint64_t bad = std::stoull(asked.substr(1));
    asked[0] == 'c' ? trap_in_consumer(bad) : trap_in_loop(bad);
    return;
  }
  char self[4096] = {};
  REQUIRE(::readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  for (const char* what : {"c0", "c7", "c39", "l0", "l7", "l39"}) {
    CAPTURE(what);
    const Clock::time_point start = Clock::now();
    const std::string command =
        std::string{variable} + "=" + what + " '" + self + "' '[trap]' 1>&2";
    CHECK(std::system(command.c_str()) == 0);
    std::printf("%s: its process took %.0f ms\n", what, ms(Clock::now() - start));
  }
}
