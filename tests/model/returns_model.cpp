// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves that what threads put into the box for returns comes out once, that each thread's comes in
// its order, that who takes it sees what was done before, and that nobody sleeps beside a box that
// is not empty.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <penstock/detail/lending/returns.hpp>

#include "scenario.hpp"

namespace penstock::model {
namespace {

// `Givers` threads put `each` in; another one takes until it has all.
template <unsigned Givers, std::size_t Each> struct GivenBack : Scenario {
  struct Item : detail::Return {
    rl::var<int> batch{0}; // what is done with it before it comes back
  };

  detail::Returns<ModelPolicy<RelacyParking<0>>> box;
  std::array<std::array<Item, Each>, Givers> items;

  void thread(unsigned id) override {
    if (id == Givers) {
      take();
      return;
    }
    for (std::size_t i = 0; i != Each; ++i) {
      Item& item = items[id][i];
      item.ticket = id * Each + i;
      item.batch(at()) = 1;
      box.put(item);
    }
  }

 private:
  void take() {
    std::array<std::size_t, Givers> got{};
    for (std::size_t left = Givers * Each; left != 0;) {
      const std::uint32_t seen = box.count();
      detail::Return* back = box.take();
      if (back == nullptr) {
        box.wait(seen, std::chrono::nanoseconds{-1});
      }
      for (; back != nullptr; back = back->next, --left) {
        RL_ASSERT(left != 0);
        RL_ASSERT(back->ticket % Each == got[back->ticket / Each]++);
        RL_ASSERT(static_cast<Item*>(back)->batch(at()) == 1);
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
  const auto three = Search::switches(3), full = Search::full();
  const auto random = Search::random(100'000);
  return run(
      {
          {"one gives back", 2, make<GivenBack<1, 2>>, {full}},
          {"two give back", 3, make<GivenBack<2, 1>>, {three, random}},
          {"two give back two", 3, make<GivenBack<2, 2>>, {random}},
      },
      count, arguments);
}
