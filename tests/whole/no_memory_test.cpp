// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Pipelines of every kind whose k-th allocation is refused, for every k, from their first line to
// their destructor: each run ends in an error or is right, and the next one is right.
// faults_memory_test.cpp says more of each error.

#include "support/counted_new.hpp"

#include "support/catch.hpp"
#include "support/lives.hpp"
#include "support/outcome.hpp"
#include "support/sanitizer.hpp"
#include "support/watchdog.hpp"

#include <cstdint>
#include <cstdio>
#include <memory>

namespace tests = penstock::tests;
namespace memory = penstock::tests::memory;
using namespace tests::lives;
using tests::Came;
using tests::Outcome;
using tests::outcome_of;

namespace {

constexpr std::uint64_t step = tests::under_tsan ? 5 : 1;

// Refuses the k-th allocation of a life, once and for good.
int refuse_each(const char* name, const Make& make) {
  tests::Watchdog watchdog{name};
  int points = 0;
  for (const bool persistent : {false, true}) {
    bool fired = true;
    for (std::uint64_t k = 1; fired; k += step) {
      CAPTURE(name, k, persistent);
      watchdog.progress(k);
      std::unique_ptr<Life> life;
      Number first = 0;
      Number second = 0;
      const Outcome out = outcome_of([&] {
        struct Refuse {
          ~Refuse() { memory::refuse_allocation(0); }
        } const refuse;
        memory::refuse_allocation(k, persistent);
        life = make();
        first = life->run();
        second = life->run();
      });
      fired = memory::has_refused();
      points += fired ? 1 : 0;
      CAPTURE(out);
      CHECK(out.came != Came::other);
      CHECK((fired || out.came == Came::nothing));
      if (out.came == Came::nothing) {
        CHECK(first == sum_of_all);
        CHECK(second == sum_of_all);
      }
      if (!life) {
        life = make();
      }
      CHECK(life->run() == sum_of_all);
      memory::refuse_allocation(1, true); // a destructor needs none
      life.reset();
      memory::refuse_allocation(0);
    }
  }
  std::printf("%s: %d allocations refused\n", name, points);
  return points;
}
template <class L> void refuse_each(const char* name) {
  const Files files;
  const int points = refuse_each(name, [&] { return std::make_unique<L>(files); });
  CHECK(points >= (memory::can_refuse ? 20 / static_cast<int>(step) : 0));
}

} // namespace

TEST_CASE("whichever allocation is refused, a pipeline on the host ends its run and goes on") {
  refuse_each<HostOnly>("records, decoded");
  refuse_each<Shuffled>("a shuffled mix");
  refuse_each<Lines>("shuffled lines");
  refuse_each<Outputs>("outputs, by each worker");
  refuse_each<Written>("a file into a file");
  refuse_each<Noted>("a source of its own");
}

TEST_CASE("whichever allocation is refused, a pipeline with a device ends its run and goes on") {
  refuse_each<BothWays>("there and back");
  refuse_each<Replayed>("replayed");
  refuse_each<Loop>("a loop with deferred values");
  refuse_each<Fan>("to two devices");
}
