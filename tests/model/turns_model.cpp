// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves that turns are taken in the order of tickets, that each sees the sum of those before, and
// that the end wakes who waits for a turn that never comes.

#include <memory>

#include <penstock/detail/turns.hpp>

#include "scenario.hpp"

namespace penstock::model {
namespace {

// A sum that the checker sees two threads race for.
class Sum {
 public:
  Sum() : value_{0} {}
  Sum& operator=(std::uint64_t value) {
    value_(at()) = value;
    return *this;
  }
  operator std::uint64_t() const { return value_(at()); }
  Sum& operator+=(std::uint64_t more) {
    const std::uint64_t before = value_(at());
    value_(at()) = before + more;
    return *this;
  }

 private:
  mutable rl::var<std::uint64_t> value_;
};

using ModelTurns = detail::Turns<ModelPolicy<>, Sum>;

// Ticket t adds t + 1. The later come first, so that they must wait.
template <unsigned Threads> struct InOrder : Scenario {
  ModelTurns turns;

  void thread(unsigned id) override {
    const std::uint64_t ticket = Threads - 1 - id;
    std::uint64_t before = 99;
    RL_ASSERT(turns.take(ticket, ticket + 1, before));
    RL_ASSERT(before == ticket * (ticket + 1) / 2);
  }
};

// Who holds ticket 0 finds the ring closed and ends the turns: nobody waits for it for ever.
struct Ended : Scenario {
  ModelTurns turns;

  void thread(unsigned id) override {
    std::uint64_t before = 99;
    if (id == 0) {
      turns.end();
    } else {
      RL_ASSERT(!turns.take(id, 1, before));
    }
  }
};

// The end comes while turns are taken: those before it have theirs or not, all return.
struct EndedMeanwhile : Scenario {
  ModelTurns turns;

  void thread(unsigned id) override {
    std::uint64_t before = 99;
    if (id == 2) {
      turns.end();
    } else if (turns.take(id, 5, before)) {
      RL_ASSERT(before == id * 5);
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
  const auto full = Search::full(), three = Search::switches(3);
  const auto random = Search::random(100'000);
  return run(
      {
          {"two in order", 2, make<InOrder<2>>, {full, random}},
          {"three in order", 3, make<InOrder<3>>, {three, random}},
          {"the end wakes who waits", 3, make<Ended>, {three, random}},
          {"the end meanwhile", 3, make<EndedMeanwhile>, {three, random}},
      },
      count, arguments);
}
