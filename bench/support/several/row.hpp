// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/contender.hpp"
#include "support/cpu_time.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace penstock_bench {

/// A contender with figures of its own beside its rate.
class Row : public Contender {
 public:
  /// Adds them, of the last run.
  virtual void count(benchmark::State& /*state*/) const {}
  /// Returns the CPU seconds of the last run, which took this process `here`.
  virtual double cpu(double here) const { return here; }
  /// Returns how long the last run took, by the clock of whoever called it.
  virtual double seconds(double here) const { return here; }
};

/// Registers a row, whose every repetition is one run of `bytes` bytes in all.
inline void add_row(const std::string& name, std::uint64_t bytes,
                    std::function<std::uint64_t()> expected, Make make) {
  const auto checked = std::make_shared<Checked>(std::move(make), std::move(expected));
  add_contender(name, checked, [bytes](benchmark::State& state, Contender& contender) {
    const Row& row = static_cast<const Row&>(contender);
    for (auto _ : state) {
      const double before = cpu_seconds();
      const double here = seconds_of_run(contender);
      const double cpu = cpu_seconds() - before;
      const double seconds = row.seconds(here);
      state.SetIterationTime(seconds);
      state.counters["processors"] = row.cpu(cpu) / seconds;
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
    row.count(state);
  });
}

} // namespace penstock_bench
