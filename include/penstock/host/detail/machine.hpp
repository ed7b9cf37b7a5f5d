// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/throwing.hpp>
#include <penstock/error.hpp>
#include <penstock/host/detail/lateness.hpp>
#include <penstock/host/detail/turns.hpp>
#include <penstock/host/options.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace penstock::detail {

/// What a piece of work costs on the pretended machine: by default nothing.
struct Cost {
  std::chrono::nanoseconds late{};  ///< How much later it starts.
  Turns* on{};                      ///< What it needs a turn on; null for nothing.
  std::chrono::nanoseconds takes{}; ///< How long its turn is.
};

/// Which way a copy goes.
enum class Way : std::uint8_t { to_device, to_host };

/// Sleeps `time`, less what the sleeps before it in this thread took too long. Linux adds some 70
/// microseconds to each sleep, and short ones would add up to far too long. A longer error is not
/// made up for: the thread had no processor.
inline void sleep_on_average(std::chrono::nanoseconds time) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds most{100'000};
  thread_local std::chrono::nanoseconds too_long{};
  if (time <= too_long) {
    too_long -= time;
    return;
  }
  const Clock::time_point due = Clock::now() + time - too_long;
  std::this_thread::sleep_until(due);
  too_long = std::min<std::chrono::nanoseconds>(most, Clock::now() - due);
}

/// The machine that a HostDevice pretends to be. Any thread.
class Machine {
  using Nanoseconds = std::chrono::nanoseconds;

 public:
  /// Throws OptionError.
  explicit Machine(const HostOptions& options) : options_{checked(options)} {}

  /// Whether any work costs anything. If not, nobody reads a clock.
  bool has_costs() const noexcept {
    return options_.late_seed != 0 || options_.copy_ns_per_kib != 0 || has_bus(Way::to_device) ||
           has_bus(Way::to_host) || options_.kernel_s != 0;
  }
  bool has_bus(Way way) const noexcept { return rate(way) != 0; }
  std::uint64_t memory_bytes() const noexcept { return options_.memory_bytes; }

  Cost kernel() noexcept {
    Cost cost; // member by member: nvcc 13 drops an empty {} inside of Cost{}
    if (options_.kernel_s != 0) {
      cost.on = &kernels_;
      cost.takes = nanoseconds(options_.kernel_s);
    }
    return cost;
  }
  /// The cost of copy number `copy`, counted from 0.
  Cost copy(Way way, std::uint64_t copy, std::size_t bytes, bool pageable) noexcept {
    Cost cost{lateness(options_.late_seed, copy) + extra(bytes), {}, {}};
    if (has_bus(way)) {
      const double share = pageable ? options_.pageable_share : 1;
      cost.on = &buses_[static_cast<std::size_t>(way)];
      cost.takes = nanoseconds(static_cast<double>(bytes) / (rate(way) * share));
    }
    return cost;
  }
  /// Keeps the calling thread as long as a launch does.
  void launch() const {
    if (options_.launch_s != 0) {
      sleep_on_average(nanoseconds(options_.launch_s));
    }
  }

 private:
  static Nanoseconds nanoseconds(double seconds) noexcept {
    // A year is as good as any longer time, and no sum of two overflows.
    constexpr double most_s = 365.0 * 86'400;
    return Nanoseconds{std::llround(std::min(seconds, most_s) * 1e9)};
  }
  static const HostOptions& checked(const HostOptions& options) {
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

  const HostOptions options_;
  Turns buses_[2];
  Turns kernels_;
};

} // namespace penstock::detail
