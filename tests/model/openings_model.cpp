// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves that workers who make any number of units of what each is given fill a ring's slots in
// order, each unit once, also where one of them makes more than the whole ring holds. A stop ends
// all of them, and nobody waits for a turn that another worker has given up.

#include <cstddef>
#include <cstdint>
#include <memory>

#include <penstock/detail/turns/openings.hpp>
#include <penstock/detail/turns/parts.hpp>
#include <penstock/ring/ring.hpp>

#include "scenario.hpp"

namespace penstock::model {
namespace {

constexpr std::size_t units_a_slot = 3;

struct Slot {
  rl::var<int> unit[units_a_slot];
  rl::var<int> void_units;
};
using Shared = Ring<Slot, ModelPolicy<>, RingKind::with_many>;

enum class End : bool { by_itself, by_a_stop };

// `Workers` threads draw numbers; what has number i makes Made[i] units, the last one closes the
// slot at hand behind them, and another thread takes the slots.
template <int Workers, End How, int... Made> struct Filled : Scenario {
  static constexpr int made[] = {Made...};
  static constexpr int count = sizeof...(Made);
  static constexpr int all = (Made + ... + 0);

  Shared ring{2, Side::many, Side::one};
  detail::Openings<ModelPolicy<>> openings{detail::Ramp{units_a_slot}, Workers};
  detail::Fillings<ModelPolicy<>> fillings{2, detail::Ramp{units_a_slot}};
  RelacyAtomic<std::uint64_t> next{0};
  rl::var<int> opened{0}; // in turn
  int taken = 0;

  void thread(unsigned id) override {
    if (id < Workers) {
      work();
    } else {
      take();
    }
  }
  void after() override { RL_ASSERT(How == End::by_a_stop || taken == all); }

 private:
  void work() {
    for (;;) {
      const auto number = static_cast<int>(next.fetch_add(1, rl::mo_relaxed));
      if (number >= count) {
        return;
      }
      if (How == End::by_a_stop && ring.state() != Flow::open) {
        return; // as one that fails, before its turn
      }
      if (!openings.await_turn(static_cast<std::uint64_t>(number))) {
        return;
      }
      const bool last = number == count - 1;
      const int first = opened(at());
      opened(at()) = first + made[number];
      const detail::Room room = openings.open(static_cast<std::uint64_t>(made[number]));
      const detail::Room rest = last ? openings.close(false) : detail::Room{};
      if (last) {
        ring.end_at(openings.end());
      }
      openings.pass(static_cast<std::uint64_t>(number) + 1);
      if (!fill(room, first, false) || !fill(rest, 0, true)) {
        return;
      }
    }
  }
  bool fill(const detail::Room& room, int first, bool stays_void) {
    return fillings.fill(
        ring, room,
        [&](Slot& slot, const detail::Room::Piece& piece) {
          if (stays_void) {
            slot.void_units(at()) = static_cast<int>(piece.units);
          }
          for (std::uint64_t i = 0; !stays_void && i != piece.units; ++i) {
            slot.unit[piece.first + i](at()) = first++;
          }
        },
        [this](std::uint64_t ticket) { ring.claim_at(ticket).publish(); });
  }
  void take() {
    if (How == End::by_a_stop) {
      ring.stop();
      openings.stop();
    }
    while (auto slot = ring.take()) {
      const bool last = static_cast<int>(slot.ticket() + 1) * static_cast<int>(units_a_slot) > all;
      const int units = static_cast<int>(units_a_slot) - (last ? slot.slot().void_units(at()) : 0);
      for (int i = 0; i != units; ++i) {
        RL_ASSERT(slot.slot().unit[i](at()) == taken++);
      }
    }
  }
};

// Workers share slots of two parts. By itself: the stage before them hands on an empty slot before
// it ends the ring there, so that one worker may have seen the slot and wait for its part's turn,
// while another sees that the ring has ended, and leaves. By a stop: nobody has a turn before all
// parts ahead of his are done.
template <End How> struct Leaves : Scenario {
  static constexpr std::size_t parts = 2;
  Shared in{2, Side::one, Side::many};
  detail::Parts<ModelPolicy<>> dealt{2, parts};
  detail::Openings<ModelPolicy<>> openings{detail::Ramp{units_a_slot}, 2};
  rl::var<unsigned> turns{0};

  void thread(unsigned id) override {
    if (id == 0) {
      in.claim().publish();
      in.claim().publish(Fill::none);
      How == End::by_itself ? in.end_at(1) : in.stop();
      if (How == End::by_a_stop) {
        openings.stop();
      }
    } else {
      work();
    }
  }
  void after() override { RL_ASSERT(How == End::by_a_stop || turns(at()) >= parts); }

 private:
  void work() {
    for (;;) {
      const auto share = dealt.draw(1);
      const std::uint64_t number = share.ticket * parts + share.first;
      if (!in.await_filled(share.ticket)) {
        openings.leave(in, number, number + 1);
        return;
      }
      if (!openings.await_turn(number)) {
        RL_ASSERT(How == End::by_a_stop);
        return;
      }
      RL_ASSERT(How == End::by_itself || turns(at()) == number);
      turns(at()) = turns(at()) + 1;
      openings.pass(number + 1);
      if (dealt.finish(share)) {
        in.take_at(share.ticket).release();
      }
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
  const auto two = Search::switches(2), random = Search::random(100'000);
  return run(
      {
          {"openings, one slot", 3, make<Filled<2, End::by_itself, 1, 2>>, {two, random}},
          {"openings, a short slot", 3, make<Filled<2, End::by_itself, 2, 2>>, {random}},
          {"openings, laps", 4, make<Filled<3, End::by_itself, 1, 4, 0, 4, 2, 1>>, {random}},
          {"openings, more than the ring", 3, make<Filled<2, End::by_itself, 1, 9, 2>>, {random}},
          {"openings, a late end", 3, make<Leaves<End::by_itself>>, {random}},
          {"openings, a stop before all parts", 3, make<Leaves<End::by_a_stop>>, {random}},
          {"openings, a stop", 4, make<Filled<3, End::by_a_stop, 1, 5, 2>>, {random}},
      },
      count, arguments);
}
