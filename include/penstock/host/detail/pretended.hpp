// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/throwing.hpp>
#include <penstock/error.hpp>
#include <penstock/host/detail/average_sleep.hpp>
#include <penstock/host/detail/call_gate.hpp>
#include <penstock/host/detail/lateness.hpp>
#include <penstock/host/detail/machine.hpp>
#include <penstock/host/detail/turns.hpp>
#include <penstock/host/options.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace penstock::detail {

/// The machine that HostOptions describe. A template, so that a compiler that sees no other machine
/// does not guess that each is this one, and compile it for that.
template <class Options = HostOptions> class PretendedMachine final : public Machine {
  using Nanoseconds = std::chrono::nanoseconds;
  using Clock = Progress::Clock;

 public:
  /// Throws OptionError.
  explicit PretendedMachine(const Options& options) : options_{checked(options)} {}

  bool has_costs() const noexcept override {
    return options_.late_seed != 0 || options_.copy_ns_per_kib != 0 || has_bus(Way::to_device) ||
           has_bus(Way::to_host) || options_.kernel_s != 0;
  }
  bool has_bus(Way way) const noexcept override { return rate(way) != 0; }
  std::uint64_t memory_bytes() const noexcept override { return options_.memory_bytes; }

  Cost kernel() noexcept override {
    Cost cost; // member by member: nvcc 13 drops an empty {} inside of Cost{}
    if (options_.kernel_s != 0) {
      cost.on = &kernels_;
      cost.takes = nanoseconds(options_.kernel_s);
    }
    return cost;
  }
  Cost copy(Way way, std::uint64_t copy, std::size_t bytes, bool pageable) noexcept override {
    Cost cost{lateness(options_.late_seed, copy) + extra(bytes), {}, {}};
    if (has_bus(way)) {
      const double share = pageable ? options_.pageable_share : 1;
      cost.on = &buses_[static_cast<std::size_t>(way)];
      cost.takes = nanoseconds(static_cast<double>(bytes) / (rate(way) * share));
    }
    return cost;
  }

  Clock::time_point begin_launch() override {
    if (options_.launch_s != 0) {
      sleep_on_average(nanoseconds(options_.launch_s));
    }
    return Clock::now();
  }
  void end_launch(Clock::time_point begun, bool at_once) noexcept override {
    if (options_.launch_s != 0 && at_once) { // a wait for room is not the launch's
      make_up_for(Clock::now() - begun);
    }
  }

  bool begin(Progress& progress, const Cost& cost, const CallGate& gate) override {
    const Clock::time_point ready = progress.at + cost.late;
    progress.turn = cost.on ? cost.on->book(ready, cost.takes) : Turn{ready, ready};
    constexpr std::chrono::milliseconds look_again{10};
    const Clock::time_point end = progress.turn.end;
    for (progress.began = Clock::now(); progress.began < end; progress.began = Clock::now()) {
      if (gate.is_broken()) {
        return false;
      }
      std::this_thread::sleep_until(std::min(end, progress.began + look_again));
    }
    return !gate.is_broken();
  }
  void end(Progress& progress) noexcept override {
    // Work that takes longer than its turn has its own time, but the sleep is not part of it.
    const Turn& turn = progress.turn;
    progress.at = std::max(turn.end, turn.begin + (Clock::now() - progress.began));
  }

 private:
  static Nanoseconds nanoseconds(double seconds) noexcept {
    // A year is as good as any longer time, and no sum of two overflows.
    constexpr double most_s = 365.0 * 86'400;
    return Nanoseconds{std::llround(std::min(seconds, most_s) * 1e9)};
  }
  static const Options& checked(const Options& options) {
    const auto check = [](const char* name, double value) {
      if (!(value >= 0)) {
        throw_error<OptionError>(
            {"penstock: HostDevice: ", name, " is less than 0 or no number: 0 switches it off."});
      }
    };
    check("to_device_bytes_per_s", options.to_device_bytes_per_s);
    check("to_host_bytes_per_s", options.to_host_bytes_per_s);
    check("launch_s", options.launch_s);
    check("kernel_s", options.kernel_s);
    if (!(options.pageable_share > 0 && options.pageable_share <= 1)) {
      throw OptionError{"penstock: HostDevice: pageable_share must be more than 0 and at most 1: "
                        "pageable copies are as fast as others with 1."};
    }
    return options;
  }
  double rate(Way way) const noexcept {
    return way == Way::to_device ? options_.to_device_bytes_per_s : options_.to_host_bytes_per_s;
  }
  Nanoseconds extra(std::size_t bytes) const noexcept {
    const std::uint64_t each = options_.copy_ns_per_kib;
    return Nanoseconds{bytes / 1024 * each + bytes % 1024 * each / 1024};
  }

  const Options options_;
  Turns buses_[2];
  Turns kernels_;
};

} // namespace penstock::detail
