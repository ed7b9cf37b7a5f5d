// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves that who asks from where an output comes never sees a note that is half written, also
// while the list forgets every second one of its older half.

#include <cstdint>
#include <memory>

#include <penstock/order/detail/origins.hpp>

#include "scenario.hpp"

namespace penstock::model {
namespace {

// Place p makes two outputs. One thread notes `Places` of them in a list of four; the others ask.
template <unsigned Places> struct Asked : Scenario {
  detail::OutputLog<ModelPolicy<>> log{4};

  void thread(unsigned id) override {
    if (id == 0) {
      for (std::uint64_t place = 1; place != Places + 1; ++place) {
        log.note(2 * place, place);
      }
    } else {
      for (std::uint64_t outputs = 1; outputs < 2 * Places + 2; outputs += 3) {
        const auto origin = log.origin(outputs);
        RL_ASSERT(2 * origin.place + origin.made == outputs);
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
          {"log, one note", 2, make<Asked<1>>, {two, random}},
          {"log, thinned out", 2, make<Asked<5>>, {random}},
          {"log, two ask", 3, make<Asked<4>>, {random}},
      },
      count, arguments);
}
