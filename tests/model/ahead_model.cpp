// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves that a Reader's workers take credits in the order of their tickets, that what is read in
// the place of a unit comes after that unit was used up, and that nobody who waits oversleeps.

#include <algorithm>
#include <cstdint>
#include <memory>

#include <penstock/detail/turns/ahead.hpp>

#include "scenario.hpp"

namespace penstock::model {
namespace {

enum class End : bool { by_itself, by_a_stop };

// `Readers` threads read units, up to two at a time and `Most` ahead, into places that are used
// again; one more thread uses them up. By a stop: yet another ends it.
template <unsigned Readers, unsigned Units, unsigned Most, End How> struct Bounded : Scenario {
  detail::Ahead<ModelPolicy<>> ahead{Most, 1, Readers};
  rl::var<unsigned> next{0}; // whose turn it is
  struct Place {
    rl::var<unsigned> unit;
    RelacyAtomic<std::uint32_t> filled{0};
  };
  Place places[Most];
  RelacyAtomic<std::uint32_t> stopped{0};
  unsigned used = 0;

  void thread(unsigned id) override {
    if (id < Readers) {
      read(id);
    } else if (id == Readers) {
      use();
    } else {
      stopped.store(1, rl::mo_relaxed);
      ahead.stop();
    }
  }
  void after() override { RL_ASSERT(How == End::by_a_stop || used == Units); }

 private:
  void read(unsigned id) {
    for (std::uint64_t ticket = id; ahead.await_turn(ticket); ticket += Readers) {
      const unsigned first = next(at());
      if (first == Units) {
        ahead.stop();
        return;
      }
      const auto got = static_cast<unsigned>(ahead.take(std::min(Units - first, 2U), false));
      if (got == 0) {
        RL_ASSERT(How == End::by_a_stop);
        return;
      }
      next(at()) = first + got;
      ahead.pass(ticket);
      for (unsigned unit = first; unit != first + got; ++unit) {
        places[unit % Most].unit(at()) = unit;
        places[unit % Most].filled.store(unit + 1, rl::mo_release);
      }
    }
  }
  void use() {
    for (; used != Units; ++used) {
      Place& place = places[used % Most];
      while (place.filled.load(rl::mo_acquire) != used + 1) {
        if (How == End::by_a_stop && stopped.load(rl::mo_relaxed) != 0) {
          return;
        }
        rl::yield(1, at());
      }
      RL_ASSERT(place.unit(at()) == used);
      ahead.give_back(1);
    }
  }
};

// Nothing but the end of a turn wakes who waits for the next one.
struct Turns : Scenario {
  detail::Ahead<ModelPolicy<>> ahead{1, 1, 3};
  rl::var<unsigned> turns{0};

  void thread(unsigned id) override {
    ahead.await_turn(id);
    turns(at()) = turns(at()) + 1;
    ahead.pass(id);
  }
  void after() override { RL_ASSERT(turns(at()) == 3); }
};

// Who waits in vain sees what was done before the end.
struct Ended : Scenario {
  detail::Ahead<ModelPolicy<>> ahead{1, 1, 2};
  rl::var<unsigned> done{0};

  void thread(unsigned id) override {
    if (id == 0) {
      done(at()) = 1;
      ahead.stop();
    } else {
      RL_ASSERT(!ahead.await_turn(1));
      RL_ASSERT(done(at()) == 1);
    }
  }
};

// A loop that keeps two credits of four for leases: the reader, who waits for three, is to make do
// with what is left.
struct Leases : Scenario {
  detail::Ahead<ModelPolicy<>> ahead{4};
  RelacyAtomic<std::uint32_t> read{0};

  Leases() { ahead.needs(2); }
  void thread(unsigned id) override {
    if (id == 0) {
      ahead.await_turn(0);
      RL_ASSERT(ahead.take(3, false) == 3);
      read.store(1, rl::mo_release);
      const std::uint64_t rest = ahead.take(3, false); // perhaps before the third came back
      RL_ASSERT(rest == 1 || rest == 2);
    } else {
      while (read.load(rl::mo_acquire) == 0) {
        rl::yield(1, at());
      }
      ahead.give_back(1);
      RL_ASSERT(ahead.keep(2));
    }
  }
  void after() override { RL_ASSERT(!ahead.keep(3)); }
};

template <class S> std::unique_ptr<Scenario> make() {
  return std::make_unique<S>();
}

} // namespace
} // namespace penstock::model

int main(int count, char** arguments) {
  using namespace penstock::model;
  const auto three = Search::switches(3), random = Search::random(100'000);
  return run(
      {
          {"ahead, turns", 3, make<Turns>, {three, random}},
          {"ahead, an end", 2, make<Ended>, {three, random}},
          {"ahead, one reads", 2, make<Bounded<1, 3, 1, End::by_itself>>, {three, random}},
          {"ahead, two read", 3, make<Bounded<2, 4, 2, End::by_itself>>, {random}},
          {"ahead, three units", 3, make<Bounded<2, 7, 3, End::by_itself>>, {random}},
          {"ahead, a stop", 4, make<Bounded<2, 4, 2, End::by_a_stop>>, {random}},
          {"ahead, leases", 2, make<Leases>, {three, random}},
      },
      count, arguments);
}
