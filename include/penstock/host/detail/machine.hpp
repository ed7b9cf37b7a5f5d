// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/host/detail/call_gate.hpp>
#include <penstock/host/detail/turns.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

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

} // namespace penstock::detail
