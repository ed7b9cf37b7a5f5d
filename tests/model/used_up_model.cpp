// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves that a position is never behind a slot that is not used up: who reads the place up to
// which all was used up sees what each worker did to each slot before it, in whatever order they
// finish, also where slots are empty and the ring's places are used again.

#include <cstddef>
#include <cstdint>
#include <memory>

#include <penstock/detail/turns/used_up.hpp>

#include "scenario.hpp"

namespace penstock::model {
namespace {

constexpr std::size_t places = 2;

// Workers draw slots in turn, and finish them when they like; one more thread asks for the place.
// Slot t has a unit, and the place t + 1 is behind it; `Empty` has none.
template <unsigned Workers, unsigned Slots, unsigned Empty = ~0U>
struct Used : Scenario {
  using Policy = ModelPolicy<>;

  detail::UsedUp<Policy> all;
  detail::UsedInTurn<Policy> in_turn{places, all};
  RelacyAtomic<std::uint32_t> next{0};
  RelacyAtomic<std::uint32_t> laps[places]{0, 0};
  rl::var<unsigned> done[Slots]; // who reads one that is not written is found out

  void thread(unsigned id) override {
    if (id == Workers) {
      look();
      look();
      return;
    }
    for (;;) {
      const unsigned ticket = next.fetch_add(1, rl::mo_relaxed);
      if (ticket >= Slots) {
        return;
      }
      const std::size_t at_place = ticket % places;
      while (laps[at_place].load(rl::mo_acquire) != ticket / places) {
        rl::yield(1, at());
      }
      done[ticket](at()) = 1;
      in_turn.note(ticket, ticket == Empty ? 0 : ticket + 1, [this](std::uint64_t due) {
        laps[due % places].store(static_cast<std::uint32_t>(due / places + 1), rl::mo_release);
      });
    }
  }
  void after() override { RL_ASSERT(all.place() == (Empty == Slots - 1 ? Slots - 1 : Slots)); }

 private:
  void look() {
    const std::uint64_t place = all.place();
    for (unsigned slot = 0; slot != place; ++slot) {
      RL_ASSERT(done[slot](at()) == 1);
    }
  }
};

template <class S> std::unique_ptr<Scenario> make() {
  return std::make_unique<S>();
}

} // namespace
} // namespace penstock::model

int main(int count, char** arguments) {
  using namespace penstock::model;
  const auto three = Search::switches(3);
  const auto random = Search::random(100'000);
  return run(
      {
          {"used, two", 3, make<Used<2, 2>>, {three, random}},
          {"used, three", 4, make<Used<3, 3>>, {random}},
          {"used, laps", 4, make<Used<3, 5>>, {random}},
          {"used, an empty one", 3, make<Used<2, 3, 1>>, {three, random}},
          {"used, the last is empty", 3, make<Used<2, 3, 2>>, {three, random}},
      },
      count, arguments);
}
