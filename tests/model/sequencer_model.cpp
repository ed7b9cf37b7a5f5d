// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves that turns are taken in the order of tickets, each once and by one thread at a time. That
// thread sees what was done before and what each thread brought, even if places are used again at
// once.

#include <cstddef>
#include <cstdint>
#include <memory>

#include <penstock/detail/turns/sequencer.hpp>

#include "scenario.hpp"

namespace penstock::model {
namespace {

constexpr std::size_t places = 2;

// Thread i brings the tickets i, i + Threads and so on, each when the ticket before it in its place
// is done, as a ring's claims ensure.
template <unsigned Threads, unsigned Tickets> struct InOrder : Scenario {
  detail::Sequencer<ModelPolicy<>> turns{places};
  RelacyAtomic<std::uint32_t> laps[places]{0, 0};
  rl::var<unsigned> brought[places]; // stands for a slot
  rl::var<unsigned> done{0};

  void thread(unsigned id) override {
    for (unsigned ticket = id; ticket < Tickets; ticket += Threads) {
      const std::size_t at_place = ticket % places;
      while (laps[at_place].load(rl::mo_acquire) != ticket / places) {
        rl::yield(1, at());
      }
      brought[at_place](at()) = ticket;
      turns.bring(ticket, [this](std::size_t place) {
        const unsigned count = done(at());
        RL_ASSERT(count % places == place);
        RL_ASSERT(brought[place](at()) == count);
        done(at()) = count + 1;
        laps[place].store(count / places + 1, rl::mo_release);
      });
    }
  }
  void after() override { RL_ASSERT(done(at()) == Tickets); }
};

template <class S> std::unique_ptr<Scenario> make() {
  return std::make_unique<S>();
}

} // namespace
} // namespace penstock::model

int main(int count, char** arguments) {
  using namespace penstock::model;
  const auto full = Search::full(), three = Search::switches(3);
  const auto random = Search::random(100'000);
  return run(
      {
          {"two in order", 2, make<InOrder<2, 2>>, {full, random}},
          {"two, laps", 2, make<InOrder<2, 6>>, {three, random}},
          {"three in order", 3, make<InOrder<3, 6>>, {three, random}},
      },
      count, arguments);
}
