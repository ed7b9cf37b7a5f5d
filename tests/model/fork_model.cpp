// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves how a tee hands slots on and back, with the real rings and the real bell: each branch sees
// every slot as it was filled, no slot is filled again before all branches have given it back, and
// nobody sleeps for ever. The loop is written out as in ForkNode::work(). Run without arguments, or
// with parts of models' names; after all models, three planted bugs must be found.

#include <iostream>

#include "scenario.hpp"

#include <utility>

namespace penstock::model {
namespace {

enum class Change { none, stop, fail };
enum class Bug { none, bell_read_late, first_gives_back, kept_late };

using ModelRing = Ring<int, ModelPolicy<>>;

// Thread 0 fills slots, thread 1 hands them on to two branches, which are threads 2 and 3; with a
// change, thread 3 is who makes it, and the second branch takes nothing.
template <Change How, Bug Planted> struct Fork : Scenario {
  static constexpr int slots = 2;
  static constexpr int records = 3;

  ModelRing in{slots, Side::one, Side::one};
  ModelRing out[2]{ModelRing{slots, Side::one, Side::many},
                   ModelRing{slots, Side::one, Side::many}};
  ModelRing::Doorbell bell;
  rl::var<int> memory[slots]; // what the slots of all rings show
  ModelRing::Take held[slots];
  std::uint64_t taken = 0, back = 0;
  bool halted = false;
  int seen[2] = {};

  Fork() {
    in.on_publish(&bell);
    out[0].on_release(&bell);
    out[1].on_release(&bell);
  }
  ~Fork() override {
    for (ModelRing::Take& take : held) {
      take = {};
    }
  }

  void thread(unsigned id) override {
    if (id == 0) {
      fill();
    } else if (id == 1) {
      hand();
    } else if (id == 2 || How == Change::none) {
      use(id - 2);
    } else {
      for (ModelRing* ring : {&out[1], &out[0], &in}) {
        How == Change::stop ? ring->stop() : ring->fail();
      }
    }
  }
  void after() override {
    if (How == Change::none) {
      RL_ASSERT(seen[0] == records && seen[1] == records);
    }
  }

  void fill() {
    for (int i = 0; i != records; ++i) {
      auto claim = in.claim();
      if (!claim) {
        return;
      }
      memory[claim.place()](at()) = i;
      claim.publish();
    }
    in.end();
  }
  void use(unsigned branch) {
    while (auto take = out[branch].take()) {
      RL_ASSERT(memory[take.place()](at()) == seen[branch]);
      ++seen[branch];
    }
  }

  void hand() {
    for (;;) {
      std::uint32_t count = bell.count();
      bool any = give_back();
      any = hand_on() || any;
      if (halted || in.state() > Flow::ended) {
        return;
      }
      if (in.exhausted()) {
        out[0].end_at(taken);
        out[1].end_at(taken);
        return;
      }
      if (Planted == Bug::bell_read_late) {
        count = bell.count();
      }
      if (!any) {
        bell.wait(count, std::chrono::nanoseconds{-1});
      }
    }
  }
  bool is_done(std::uint64_t ticket) {
    return out[0].is_free(ticket + slots) &&
           (Planted == Bug::first_gives_back || out[1].is_free(ticket + slots));
  }
  bool give_back() {
    const std::uint64_t before = back;
    while (back != taken && is_done(back)) {
      held[back++ % slots].release();
    }
    return back != before;
  }
  bool hand_on() {
    bool any = false;
    while (auto next = in.try_take(1, Empties::give)) {
      auto& kept = held[taken % slots];
      if (Planted != Bug::kept_late) {
        kept = std::move(next);
      }
      for (ModelRing& ring : out) {
        auto claim = ring.try_claim();
        if (!claim) {
          return halted = true;
        }
        claim.publish();
      }
      if (Planted == Bug::kept_late) {
        kept = std::move(next);
      }
      ++taken;
      any = true;
    }
    return any;
  }
};

template <class S> std::unique_ptr<Scenario> make() {
  return std::make_unique<S>();
}

} // namespace
} // namespace penstock::model

int main(int count, char** arguments) {
  using namespace penstock::model;
  const auto random = Search::random(100'000);
  const int failed = run(
      {
          {"two branches", 4, make<Fork<Change::none, Bug::none>>, {random}},
          {"two branches, stop", 4, make<Fork<Change::stop, Bug::none>>, {random}},
          {"two branches, error", 4, make<Fork<Change::fail, Bug::none>>, {random}},
      },
      count, arguments);
  if (failed != 0 || count > 1) {
    return failed;
  }
  const std::vector<std::pair<Model, Search>> planted = {
      {{"planted: the bell read late", 4, make<Fork<Change::none, Bug::bell_read_late>>, {}},
       random},
      {{"planted: given back by the first", 4, make<Fork<Change::none, Bug::first_gives_back>>, {}},
       random},
      {{"planted: dropped between two rings", 4, make<Fork<Change::stop, Bug::kept_late>>, {}},
       random},
  };
  for (const auto& [model, search] : planted) {
    if (check(model, search)) {
      std::cout << "this planted bug was not found: " << model.name << std::endl;
      return 1;
    }
  }
  std::cout << planted.size() << " planted bugs found" << std::endl;
  return 0;
}
