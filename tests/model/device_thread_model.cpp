// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves how the device thread and the consumer end a run, with the real ring and the real bell;
// the device thread's loop is written out as in DeviceThread::look_on() and over(). Run without
// arguments, or with parts of models' names; after all models, two planted bugs must be found.

#include <iostream>

#include "scenario.hpp"

namespace penstock::model {
namespace {

using DeviceRing = Ring<rl::var<int>, ModelPolicy<>>;

enum class Change { none, stop, fail };
enum class Bug { none, bell_read_late, finished_relaxed };

// The device thread fills places and ends the ring; the consumer uses up the places, says that it
// has finished, and rings; a third thread may close the ring at any time.
template <Change How, Bug Planted> struct LastDoorbell : Scenario {
  static constexpr int batches = 3;
  static constexpr auto acquire =
      Planted == Bug::finished_relaxed ? rl::mo_relaxed : rl::mo_acquire;
  static constexpr auto release =
      Planted == Bug::finished_relaxed ? rl::mo_relaxed : rl::mo_release;

  DeviceRing ring{2, Side::one, Side::one};
  DeviceRing::Doorbell bell;
  RelacyAtomic<std::uint32_t> finished{0};
  rl::var<int> used{0}; // only the consumer's, until it has finished
  int published = 0;
  bool ended = false;

  LastDoorbell() { ring.on_release(&bell); }
  void thread(unsigned id) override {
    if (id == 0) {
      serve();
    } else if (id == 1) {
      consume();
    } else if (How == Change::stop) {
      ring.stop();
    } else {
      ring.fail();
    }
  }

  void serve() {
    for (;;) {
      std::uint32_t count = bell.count();
      const bool any = step();
      if (over()) {
        break;
      }
      if (Planted == Bug::bell_read_late) {
        count = bell.count();
      }
      if (!any) {
        bell.wait(count, std::chrono::nanoseconds{-1});
      }
    }
    if (How == Change::none) {
      RL_ASSERT(used(at()) == batches);
    }
  }
  bool over() { return ring.state() > Flow::ended || (ended && finished.load(acquire) != 0); }
  bool step() {
    bool any = false;
    while (published != batches) {
      auto claim = ring.try_claim();
      if (!claim) {
        return any;
      }
      claim.slot()(at()) = published++;
      claim.publish();
      any = true;
    }
    if (!ended) {
      ring.end();
      ended = any = true;
    }
    return any;
  }

  void consume() {
    int next = 0;
    while (auto take = ring.take()) {
      RL_ASSERT(take.slot()(at()) == next++);
    }
    RL_ASSERT(How != Change::none || next == batches);
    used(at()) = next;
    finished.store(1, release); // pairs with over()
    bell.ring();
  }
};

template <class S> std::unique_ptr<Scenario> make() {
  return std::make_unique<S>();
}

} // namespace
} // namespace penstock::model

int main(int count, char** arguments) {
  using namespace penstock::model;
  const auto one = Search::switches(1), three = Search::switches(3);
  const auto random = Search::random(100'000);
  const int failed = run(
      {
          {"device thread and consumer",
           2,
           make<LastDoorbell<Change::none, Bug::none>>,
           {one, random}},
          {"device thread, consumer, stop",
           3,
           make<LastDoorbell<Change::stop, Bug::none>>,
           {one, random}},
          {"device thread, consumer, error",
           3,
           make<LastDoorbell<Change::fail, Bug::none>>,
           {one, random}},
      },
      count, arguments);
  if (failed != 0 || count > 1) {
    return failed;
  }
  const std::vector<Model> planted = {
      {"planted: the bell read late", 2, make<LastDoorbell<Change::none, Bug::bell_read_late>>, {}},
      {"planted: finished is relaxed",
       2,
       make<LastDoorbell<Change::none, Bug::finished_relaxed>>,
       {}},
  };
  for (const Model& model : planted) {
    if (check(model, three)) {
      std::cout << "this planted bug was not found: " << model.name << std::endl;
      return 1;
    }
  }
  std::cout << planted.size() << " planted bugs found" << std::endl;
  return 0;
}
