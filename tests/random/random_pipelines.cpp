// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Draws pipelines, runs each in many ways, and compares all that it gives with a model that has no
// thread. `random_pipelines SEEDS [FIRST]` takes so many seeds, `random_pipelines 600s [FIRST]` as
// many as it can in so many seconds. A failure is printed with its seed: `random_pipelines 1 SEED`
// repeats it, if it does not take an order of threads that is rare. PENSTOCK_LATE=4 in the
// environment holds up every fourth thread that has woken others.

#include "random/checks.hpp"
#include "random/draw.hpp"
#include "random/late_threads.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

using namespace penstock::tests;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds longest_step{60};

/// Until when seeds are taken: so many, or until a time.
class Until {
 public:
  explicit Until(const std::string& text)
      : seeds_{text.ends_with('s') ? ~std::uint64_t{0} : std::strtoull(text.c_str(), nullptr, 10)},
        end_{text.ends_with('s') ? Clock::now() + std::chrono::seconds{std::atoll(text.c_str())}
                                 : Clock::time_point::max()} {}
  bool is_reached(std::uint64_t seeds) const { return seeds >= seeds_ || Clock::now() >= end_; }

 private:
  std::uint64_t seeds_;
  Clock::time_point end_;
};

/// An error's text without its numbers.
std::string kind_of(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text.substr(0, 90);
}

} // namespace

int main(int count, char** arguments) {
  const Until until{count > 1 ? arguments[1] : "100"};
  const std::uint64_t first = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  const char* const late = std::getenv("PENSTOCK_LATE");
  late_one_in = late != nullptr ? std::strtoull(late, nullptr, 10) : 0;

  // Written only while the watchdog, which prints it, has no reason to.
  static std::array<char, 4096> doing{};
  Watchdog watchdog{doing.data(), longest_step};
  drawn::Tally tally;
  std::map<std::string, std::uint64_t> refusals;
  std::uint64_t seeds = 0, failures = 0;
  for (; !until.is_reached(seeds); ++seeds) {
    const std::uint64_t seed = first + seeds;
    const drawn::Description d = drawn::describe(seed);
    const char* step = "";
    const auto begin = [&](const char* next) {
      step = next;
      std::snprintf(doing.data(), doing.size(), "%s: %s", next, d.text().c_str());
      watchdog.progress(seed);
    };
    const Outcome outcome = outcome_of([&] { drawn::Checks{d, tally, begin}.run(); });
    if (drawn::is_promised(d, outcome)) {
      ++tally.refused;
      ++refusals[kind_of(outcome.text)];
    } else if (outcome.came != Came::nothing) {
      std::printf("FAILED seed %llu, which %s: %s\n  %s\n", static_cast<unsigned long long>(seed),
                  step, outcome.text.c_str(), d.text().c_str());
      std::fflush(stdout);
      ++failures;
    }
  }
  for (const auto& [text, times] : refusals) {
    std::printf("refused %llu times: %s\n", static_cast<unsigned long long>(times), text.c_str());
  }
  const auto print = [](const char* what, std::uint64_t number) {
    std::printf("%llu %s", static_cast<unsigned long long>(number), what);
  };
  print("pipelines, ", seeds);
  print("of them refused; ", tally.refused);
  print("whole runs, ", tally.runs);
  print("resumed, ", tally.resumed);
  print("ended early, ", tally.stopped);
  print("faults, ", tally.faults);
  print("records; ", tally.records);
  print("failed\n", failures);
  const bool vacuous = seeds >= 20 && tally.runs < seeds / 2;
  if (vacuous) {
    std::puts("too many pipelines were refused");
  }
  return failures != 0 || vacuous ? 1 : 0;
}
