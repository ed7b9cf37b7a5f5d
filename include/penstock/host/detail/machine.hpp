// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/splitmix.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/host/detail/call_gate.hpp>
#include <penstock/host/options.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace penstock::detail {

/// When something has its turn.
struct Turn {
  std::chrono::steady_clock::time_point begin, end;
};

/// The turns on something pretended that does one thing at a time, such as a bus. Any thread.
///
/// Turns are booked ahead, and whoever books one sleeps until it ends. A sleep that lasts too long
/// takes nothing from the next turn, so such errors do not add up. All is relaxed: an order of
/// threads here would hide from ThreadSanitizer what they forgot to order.
class Turns {
  using Clock = std::chrono::steady_clock;

 public:
  /// Books the next turn that begins at `earliest` or later, for so long.
  Turn book(Clock::time_point earliest, Clock::duration takes) noexcept;

 private:
  StdAtomics::Atomic<Clock::rep> free_from_{0};
};

/// What a piece of work costs on the pretended machine: by default nothing.
struct Cost {
  std::chrono::nanoseconds late{};  ///< How much later it starts.
  Turns* on{};                      ///< What it needs a turn on; null for nothing.
  std::chrono::nanoseconds takes{}; ///< How long its turn is.
};

/// Which way a copy goes.
enum class Way : std::uint8_t { to_device, to_host };

/// How far a stream has got in the pretended machine's time.
struct Progress {
  using Clock = std::chrono::steady_clock;

  Clock::time_point at{};    ///< What is done here and now is done at this time.
  Turn turn{};               ///< That of the work that runs.
  Clock::time_point began{}; ///< When that work began.
};

/// The machine that a HostDevice pretends to be, if it has options: see PretendedMachine. It is
/// behind virtual calls, and made by one constructor of HostDevice alone, so that a program without
/// such a device compiles none of it. Any thread.
class Machine {
 public:
  virtual ~Machine() = default;

  /// Whether any work costs anything. If not, nobody reads a clock.
  virtual bool has_costs() const noexcept = 0;
  virtual bool has_bus(Way way) const noexcept = 0;
  virtual std::uint64_t memory_bytes() const noexcept = 0;

  virtual Cost kernel() noexcept = 0;
  /// The cost of copy number `copy`, counted from 0.
  virtual Cost copy(Way way, std::uint64_t copy, std::size_t bytes, bool pageable) noexcept = 0;

  /// Called before a launch hands its work over, and after that with what begin_launch() returned.
  /// All of it keeps the calling thread as long as a launch does, on average. `at_once`: it waited
  /// for no room.
  /// @{
  virtual Progress::Clock::time_point begin_launch() = 0;
  virtual void end_launch(Progress::Clock::time_point begun, bool at_once) noexcept = 0;
  /// @}
  /// Called before a piece of work, and after it. begin() sleeps until the work's turn ends, and
  /// returns false, and the work is not to run, if the device breaks down meanwhile.
  /// @{
  virtual bool begin(Progress& progress, const Cost& cost, const CallGate& gate) = 0;
  virtual void end(Progress& progress) noexcept = 0;
  /// @}
};

/// How far a stream has got in the pretended machine's time, which real time never precedes: work
/// is done when its turn has ended on that machine, or somewhat later. The next piece of work
/// begins where that turn ended. Only the stream's thread uses it.
class Pace {
 public:
  using Clock = Progress::Clock;

  /// `machine`: null for none.
  Pace(Machine* machine, const CallGate& gate)
      : machine_{machine && machine->has_costs() ? machine : nullptr}, gate_{gate} {}

  /// Whether it keeps time: else all work runs at once, and at() means nothing.
  bool keeps_time() const noexcept { return machine_ != nullptr; }
  /// What is done here and now is done at this time.
  Clock::time_point at() const noexcept { return progress_.at; }
  /// Nothing that comes now is done before `time`.
  void not_before(Clock::time_point time) noexcept { progress_.at = std::max(progress_.at, time); }
  /// Goes back to an earlier time, for work beside that which has run since.
  void go_back(Clock::time_point time) noexcept { progress_.at = time; }

  /// Runs f() when its turn ends. Does not, if the device breaks down meanwhile.
  template <class F> void run(const Cost& cost, F&& f) {
    if (machine_ && !machine_->begin(progress_, cost, gate_)) {
      return;
    }
    f();
    if (machine_) {
      machine_->end(progress_);
    }
  }
  /// Runs enqueued work.
  template <class F> void run_kernel(F& work) { run(machine_ ? machine_->kernel() : Cost{}, work); }

 private:
  Machine* const machine_;
  const CallGate& gate_;
  Progress progress_;
};

/// Returns by how much the calling thread's sleeps were too long so far, in sum.
std::chrono::nanoseconds& slept_too_long() noexcept;
/// Has the sleeps that follow in this thread make up for so much more. What is more than 10
/// milliseconds in all is not made up for.
void make_up_for(std::chrono::nanoseconds time) noexcept;
/// Sleeps `time`, less what the sleeps before it in this thread took too long. Linux adds some 70
/// microseconds to each sleep, and a busy machine milliseconds: short ones would add up to far too
/// long.
void sleep_on_average(std::chrono::nanoseconds time);

/// Returns how late the `copy`-th copy, counted from 0, starts for a seed.
std::chrono::nanoseconds lateness(std::uint64_t seed, std::uint64_t copy) noexcept;

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

#if PENSTOCK_BODIES
PENSTOCK_INLINE Turn Turns::book(Clock::time_point earliest, Clock::duration takes) noexcept {
  Clock::rep free = free_from_.load(StdAtomics::relaxed);
  Clock::time_point begin;
  do {
    begin = std::max(earliest, Clock::time_point{Clock::duration{free}});
  } while (!free_from_.compare_exchange_weak(free, (begin + takes).time_since_epoch().count(),
                                             StdAtomics::relaxed));
  return {begin, begin + takes};
}

PENSTOCK_INLINE std::chrono::nanoseconds& slept_too_long() noexcept {
  thread_local constinit std::chrono::nanoseconds sum{};
  return sum;
}

PENSTOCK_INLINE void make_up_for(std::chrono::nanoseconds time) noexcept {
  constexpr std::chrono::nanoseconds most{10'000'000};
  slept_too_long() = std::min(most, slept_too_long() + time);
}

PENSTOCK_INLINE void sleep_on_average(std::chrono::nanoseconds time) {
  using Clock = std::chrono::steady_clock;
  std::chrono::nanoseconds& too_long = slept_too_long();
  if (time <= too_long) {
    too_long -= time;
    return;
  }
  const Clock::time_point due = Clock::now() + time - too_long;
  std::this_thread::sleep_until(due);
  too_long = {};
  make_up_for(Clock::now() - due);
}

PENSTOCK_INLINE std::chrono::nanoseconds lateness(std::uint64_t seed, std::uint64_t copy) noexcept {
  if (seed == 0) {
    return {};
  }
  const std::uint64_t x = splitmix(seed, copy);
  constexpr std::uint64_t prompt_one_in = 4, most_ns = 400'000;
  return std::chrono::nanoseconds{x % prompt_one_in == 0 ? 0 : (x >> 8) % most_ns};
}
#endif

} // namespace penstock::detail
