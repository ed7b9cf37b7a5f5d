// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/interrupt.hpp>
#include <penstock/detail/measure/meter.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stop_token>

namespace penstock {

/// What read() of a source returns: how many records it filled. A number converts to it: fewer than
/// asked are then the source's last ones. See for_now().
struct Filled {
  /// So many records, and the source ends if they are fewer than asked.
  constexpr Filled(std::size_t filled) noexcept : count{filled} {}

  std::size_t count; ///< Records filled, from the batch's first on.
  bool for_now{};    ///< Whether more will come, although they may be fewer than asked.
};

/// Returns from read() that it filled `count` records, perhaps none, and that more will come: the
/// Reader asks again.
constexpr Filled for_now(std::size_t count) noexcept {
  Filled filled{count};
  filled.for_now = true;
  return filled;
}

/// How long a source's read(into, patience) may wait, and by what it waits. It is over when the run
/// ends: at the last record, by a stop, by `break` or by an error in any stage. Copies are cheap,
/// and valid until read() returns. Any thread, but readable(), sleep_for() and wait() are for the
/// thread that called read().
class Patience {
 public:
  using Clock = std::chrono::steady_clock; ///< What until() is of.

  /// Waits for ever: for a source that you read yourself, without a pipeline.
  Patience() : interrupt_{&never()} {}
  /// For stages: ends when `interrupt` says so, or at `until`; books on `meter` how long it waits.
  Patience(const detail::Interrupt& interrupt, detail::Meter& meter, std::uint64_t epoch,
           unsigned attempt, Clock::time_point until = Clock::time_point::max());

  /// Blocks, without using the processor, until `fd` can be read, has hung up or has failed, and
  /// returns true: the next read of it tells which. Returns false if read() should return first,
  /// what it has: the run ends, or until() has come.
  bool readable(int fd) const;
  /// Blocks for `time`, and returns true; or returns false as readable() does. For a source that
  /// tries again by itself.
  bool sleep_for(std::chrono::nanoseconds time) const;
  /// Blocks, without using the processor, until `ready()` holds, and returns true; or returns false
  /// as readable() does. `changed` is a std::condition_variable_any, which the thread that
  /// makes ready() true notifies, and `lock` a lock of the mutex that ready() needs, held before
  /// and after. Of a stop it hears as a token does: see below.
  template <class Condition, class Lock, class Ready>
  bool wait(Condition& changed, Lock& lock, Ready ready) const {
    constexpr bool hears = requires(std::stop_token end) { changed.wait(lock, end, ready); };
    static_assert(hears,
                  "penstock: patience.wait(changed, lock, ready) takes a "
                  "std::condition_variable_any, since no other can be told that the run ends; a "
                  "lock of your mutex, such as std::unique_lock; and bool ready().");
    if constexpr (hears) {
      const std::stop_token end = *this;
      const bool came = !stop_requested() && waiting([&] {
        return until_ == Clock::time_point::max() ? changed.wait(lock, end, ready)
                                                  : changed.wait_until(lock, end, until_, ready);
      });
      return came && !stop_requested();
    } else {
      return false; // refused above
    }
  }

  /// Returns whether the run ends: read() should return then, and what it fills is dropped.
  bool stop_requested() const noexcept { return interrupt_->raised(); }
  /// The run's end as a token, so that read(into, std::stop_token) is a source too. It is told once
  /// the thread that runs the pipeline has left its callable, or your loop's body, if `stop()`
  /// ended the run. After a run that ended early the next one allocates another.
  operator std::stop_token() const noexcept { return interrupt_->token(); }
  /// Returns when records that were read already are due at the next stage, which gets them when
  /// read() returns; max() if never.
  Clock::time_point until() const noexcept { return until_; }
  /// Returns the number of the epoch that is read, from 0.
  std::uint64_t epoch() const noexcept { return epoch_; }
  /// Returns how often this slot was tried before and failed: see OnError::retries.
  unsigned attempt() const noexcept { return attempt_; }

 private:
  static const detail::Interrupt& never();
  // Who waits for a source is not at work.
  template <class F> bool waiting(F f) const {
    if (!meter_) {
      return f();
    }
    meter_->pause(detail::Activity::starved);
    const bool answer = f();
    meter_->spent(detail::Activity::starved, detail::Activity::busy);
    return answer;
  }

  const detail::Interrupt* interrupt_;
  detail::Meter* meter_{};
  Clock::time_point until_ = Clock::time_point::max();
  std::uint64_t epoch_{};
  unsigned attempt_{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Patience::Patience(const detail::Interrupt& interrupt, detail::Meter& meter,
                                   std::uint64_t epoch, unsigned attempt, Clock::time_point until)
    : interrupt_{&interrupt}, meter_{&meter}, until_{until}, epoch_{epoch}, attempt_{attempt} {}

PENSTOCK_INLINE bool Patience::readable(int fd) const {
  return waiting([&] { return interrupt_->await_readable(fd, until_); });
}

PENSTOCK_INLINE bool Patience::sleep_for(std::chrono::nanoseconds time) const {
  const Clock::time_point now = Clock::now();
  const bool whole = time <= until_ - now;
  return waiting([&] { return interrupt_->sleep_until(whole ? now + time : until_); }) && whole;
}

PENSTOCK_INLINE const detail::Interrupt& Patience::never() {
  static const detail::Interrupt none;
  return none;
}
#endif

} // namespace penstock
