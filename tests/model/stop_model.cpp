// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves what stop() relies on: a thread that stops a run closes everything that there is to close
// or nothing, sees what was made ready for that run, and has left before the next run is made
// ready.

#include <cstdint>
#include <memory>

#include <penstock/detail/engine/run_control.hpp>

#include "scenario.hpp"

namespace penstock::model {
namespace {

// Thread 0 runs twice; each other thread stops once, whenever the model likes. Thread 0 makes the
// rings ready, and any of the others closes them.
template <unsigned Stoppers> struct StopAtAnyTime : Scenario {
  static constexpr int runs = 2;

  detail::StopGate<ModelPolicy<>> gate;
  rl::var<int> ready_for{0}; // the run that the rings were reset for
  RelacyAtomic<std::uint32_t> first_ring{0}, last_ring{0};

  void thread(unsigned id) override {
    if (id == 0) {
      for (int run = 1; run <= runs; ++run) {
        go(run);
      }
    } else if (gate.enter()) {
      RL_ASSERT(ready_for(at()) != 0);
      first_ring.store(1, rl::mo_relaxed);
      last_ring.store(1, rl::mo_relaxed);
      gate.leave();
    }
  }
  void go(int run) {
    ready_for(at()) = run;
    first_ring.store(0, rl::mo_relaxed);
    last_ring.store(0, rl::mo_relaxed);
    gate.open();
    gate.close();
    const bool closed = last_ring.load(rl::mo_relaxed) != 0;
    RL_ASSERT((first_ring.load(rl::mo_relaxed) != 0) == closed);
    RL_ASSERT(gate.was_entered() == closed);
  }
};

template <class S> std::unique_ptr<Scenario> make() {
  return std::make_unique<S>();
}

} // namespace
} // namespace penstock::model

int main(int count, char** arguments) {
  using namespace penstock::model;
  const auto three = Search::switches(3), full = Search::full();
  const auto random = Search::random(100'000);
  return run(
      {
          {"one stops", 2, make<StopAtAnyTime<1>>, {full}},
          {"two stop", 3, make<StopAtAnyTime<2>>, {three, random}},
      },
      count, arguments);
}
