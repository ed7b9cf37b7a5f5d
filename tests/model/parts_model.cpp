// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves who publishes a slot that several threads fill: the last of them, once, when all parts are
// written, and that none writes or reads a slot of another lap. A stop ends all of them.

#include <cstddef>
#include <cstdint>
#include <memory>

#include <penstock/detail/turns/parts.hpp>
#include <penstock/ring/ring.hpp>

#include "scenario.hpp"

namespace penstock::model {
namespace {

template <std::size_t Parts> struct Slot {
  rl::var<int> part[Parts];
};
template <std::size_t Parts> using Shared = Ring<Slot<Parts>, ModelPolicy<>>;

enum class End : bool { by_itself, by_a_stop };

// One thread fills slots of `parts` parts, `Workers` threads turn them into those of the next ring
// together, `Draw` parts at a time, and the last thread takes those. `Rest`: behind each share a
// thread takes all that is left of the slot.
template <int Workers, int Tickets, End How, std::size_t Draw = 1, std::size_t parts = 2,
          bool Rest = false>
struct Together : Scenario {
  Shared<parts> in{2, Side::one, Side::many};
  Shared<parts> out{2, Side::many, Side::one};
  detail::Parts<ModelPolicy<>> dealt{2, parts};
  int taken = 0;

  Together() {
    in.end_at(Tickets);
    out.end_at(Tickets);
  }
  void thread(unsigned id) override {
    if (id == 0) {
      fill();
    } else if (id <= Workers) {
      work();
    } else {
      take();
    }
  }
  void after() override { RL_ASSERT(How == End::by_a_stop || taken == Tickets); }

 private:
  void fill() {
    while (auto claim = in.claim()) {
      for (std::size_t i = 0; i < parts; ++i) {
        claim.slot().part[i](at()) = number(claim.ticket(), i);
      }
      claim.publish();
    }
  }
  void work() {
    for (;;) {
      const auto share = dealt.draw(Draw);
      if (!work(share) || (Rest && !work(dealt.draw_rest(share.ticket)))) {
        return;
      }
    }
  }
  template <class Share> bool work(const Share& share) {
    auto* const from = in.await_filled(share.ticket);
    auto* const to = from ? out.await_free(share.ticket) : nullptr;
    if (!to) {
      return false;
    }
    for (std::size_t part = share.first; part != share.end; ++part) {
      const int value = from->part[part](at());
      RL_ASSERT(value == number(share.ticket, part));
      to->part[part](at()) = value;
    }
    if (share.first != share.end && dealt.finish(share)) {
      auto taken_slot = in.take_at(share.ticket);
      out.claim_at(share.ticket).publish();
    }
    return true;
  }
  void take() {
    if (How == End::by_a_stop) {
      in.stop();
      out.stop();
    }
    while (auto slot = out.take()) {
      for (std::size_t i = 0; i < parts; ++i) {
        RL_ASSERT(slot.slot().part[i](at()) == number(slot.ticket(), i));
      }
      ++taken;
    }
  }
  static int number(std::uint64_t ticket, std::size_t part) {
    return static_cast<int>(ticket * parts + part + 1);
  }
};

template <class S> std::unique_ptr<Scenario> make() {
  return std::make_unique<S>();
}

} // namespace
} // namespace penstock::model

int main(int count, char** arguments) {
  using namespace penstock::model;
  const auto one = Search::switches(1), random = Search::random(100'000);
  return run(
      {
          {"parts, one slot", 4, make<Together<2, 1, End::by_itself>>, {one, random}},
          {"parts, laps", 4, make<Together<2, 4, End::by_itself>>, {random}},
          {"parts, three at a time", 4, make<Together<2, 4, End::by_itself, 3>>, {random}},
          {"parts, the rest of a slot",
           4,
           make<Together<2, 4, End::by_itself, 1, 3, true>>,
           {random}},
          {"parts, slots of one", 4, make<Together<2, 4, End::by_itself, 1, 1>>, {random}},
          {"parts, a stop", 4, make<Together<2, 2, End::by_a_stop>>, {random}},
      },
      count, arguments);
}
