// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/thread_end.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/engine/run_control.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/device/device.hpp>
#include <penstock/parking.hpp>
#include <penstock/ring/detail/state.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <sys/prctl.h>

namespace penstock::detail {

/// A stage whose work is queued on the device. The pipeline's device thread drives all such stages
/// in turns, none of which waits for a ring or for the device.
class DeviceStep : public Node {
 public:
  using Node::Node;

  unsigned threads() const noexcept override { return 0; }

  /// The device thread calls begin() before the first turn, take_turn() for each, rest() after the
  /// last, and give_up() when no copy and no kernel is to touch memory any more. A turn is true if
  /// there was anything to do.
  /// @{
  void begin() noexcept;
  bool take_turn();
  void rest() noexcept { meter(0).went_by(doing_, Activity::resting); }
  /// Books the thread's CPU time since begin() for this step's stage.
  void book_cpu() noexcept { meter(0).stop(); }
  void give_up() noexcept;
  /// @}

  /// Returns whether work is on its way whose end only a fence will tell.
  virtual bool has_open_fence() const noexcept = 0;
  /// Returns whether all that will come was handed on, and all that the step took is free.
  virtual bool done() const noexcept = 0;
  /// Returns when there will be something to do although no ring and no fence tells; max() if
  /// never.
  virtual Meter::Clock::time_point due() const noexcept { return Meter::Clock::time_point::max(); }
  /// Returns the state of the ring that the step fills.
  virtual Flow flow() const noexcept = 0;

 protected:
  virtual bool step() = 0;
  /// Returns what the device does for the step, as far as fences tell.
  virtual Activity doing() = 0;
  /// Forgets a run, also one that was broken off. Blocks until no work that the step enqueued
  /// touches memory. If it throws, nothing was given back, and it is to be called again.
  virtual void abandon() = 0;

 private:
  Activity doing_{};
};

/// The one thread that enqueues a pipeline's copies and kernels and asks fences. It looks at
/// everything in turn and waits for nothing but its bell, which every ring that it touches rings;
/// while a fence is open it looks again by itself: after a short while at first, and ever more
/// seldom while nothing changes.
template <AnyDevice D> class DeviceThread final : public SharedThread {
 public:
  using Doorbell = typename DeviceLink<D>::Doorbell;

  DeviceThread(D& device, RunControl& control) : device_{device}, control_{control} {}

  const Shared<Doorbell>& bell() const noexcept { return bell_; }
  /// Adds, before the first run, a stage that takes from the one added last. `fills`: the device
  /// ring that it fills, or null.
  void add(DeviceStep& step, Shared<DeviceLink<D>> fills) {
    steps_.push_back(&step);
    if (ends_.empty()) {
      ends_.push_back({});
    }
    ends_.back() = std::move(fills);
  }
  /// Goes on with a branch that takes from `from`, when all before it have their stages.
  [[gnu::cold]] void branch(Shared<DeviceLink<D>> from) { ends_.push_back(std::move(from)); }

  const std::string& name() const noexcept override { return steps_.front()->name(); }
  [[gnu::cold]] void reset() noexcept override {
    for (const auto& end : ends_) {
      if (end) {
        end->forget_uses();
      }
    }
  }
  void run() override {
    const auto f = [this] {
      const auto attached = attach_own_thread(device_);
      serve();
    };
    caught(f, [this] { fail(); });
  }

 private:
  using Clock = Meter::Clock;

  [[gnu::cold]] void serve() {
    struct Rest {
      ~Rest() { self.rest(); } // also if a callable ends the thread
      DeviceThread& self;
    } const rests{*this};
    const auto f = [this] {
      begin();
      look_on();
    };
    caught(f, [this] { fail(); });
  }
  [[gnu::cold]] void fail() noexcept {
    control_.fail({.stage = name(), .side = steps_.front()->side()});
  }
  [[gnu::cold]] void rest() noexcept {
    for (DeviceStep* step : steps_) {
      step->rest();
    }
    for (const auto& end : ends_) {
      if (end) {
        end->consumer.rest();
      }
    }
    // A lost device answers no more.
    if (!control_.device_lost()) {
      // Each step may hold places of the one before it.
      for (std::size_t i = steps_.size(); i-- != 0;) {
        steps_[i]->give_up();
      }
    }
    steps_.front()->book_cpu();
  }
  void begin() {
    // The kernel rounds short sleeps up by 50 us unless a thread asks for less.
    prctl(PR_SET_TIMERSLACK, 1UL);
    for (DeviceStep* step : steps_) {
      step->begin();
    }
    for (const auto& end : ends_) {
      if (end) {
        end->consumer.begin();
      }
    }
  }
  void look_on() {
    Clock::time_point moved = Clock::now();
    Clock::time_point changed = moved; // as far as the bell and fences tell
    std::uint32_t heard = bell_->count();
    for (;;) {
      // Read before looking at anything: what changes after that look rings once more.
      const std::uint32_t count = bell_->count();
      bool any = false;
      for (DeviceStep* step : steps_) {
        any = step->take_turn() || any;
      }
      bool open = false;
      for (const auto& end : ends_) {
        open = (end && end->look()) || open;
      }
      for (const DeviceStep* step : steps_) {
        open = step->has_open_fence() || open;
      }
      // After all turns, since one step's turn may find another's fence reached.
      if (over()) {
        return;
      }
      const Clock::time_point now = Clock::now();
      if (any || !open || count != heard) {
        changed = now;
        heard = count;
      }
      if (any) {
        moved = now;
      } else if (now - moved < look_again) {
        SpinThenFutex::pause();
      } else {
        bell_->wait(count, nap(now, open ? now + until_next_look(now - changed)
                                         : Clock::time_point::max()));
      }
    }
  }

  // Returns after how long to look at fences that have been open for `age`: so late that the look
  // adds little to it.
  static Clock::duration until_next_look(Clock::duration age) noexcept {
    return std::clamp<Clock::duration>(age / 64, look_again, look_seldom);
  }
  // Returns how long nothing is to be looked at, fences until then; less than 0 if there is nothing
  // to wait for but the bell.
  std::chrono::nanoseconds nap(Clock::time_point now, Clock::time_point due) const noexcept {
    for (const DeviceStep* step : steps_) {
      due = std::min(due, step->due());
    }
    return due == Clock::time_point::max() ? std::chrono::nanoseconds{-1}
                                           : std::max(due - now, Clock::duration::zero());
  }
  bool over() const noexcept {
    if (steps_.front()->flow() > Flow::ended) {
      return true;
    }
    for (const DeviceStep* step : steps_) {
      if (!step->done()) {
        return false;
      }
    }
    for (const auto& end : ends_) {
      if (end && !end->consumer.finished()) {
        return false;
      }
    }
    return true;
  }

  static constexpr std::chrono::microseconds look_again{20};
  static constexpr std::chrono::milliseconds look_seldom{10};

  D& device_;
  RunControl& control_;
  const Shared<Doorbell> bell_ = new_shared<Doorbell>();
  Vector<DeviceStep*> steps_;
  // Of last stages' batches: one for each branch, and null where they are not on the device.
  Vector<Shared<DeviceLink<D>>> ends_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void DeviceStep::begin() noexcept {
  doing_ = Activity::starved;
  meter(0).start();
}

PENSTOCK_INLINE bool DeviceStep::take_turn() {
  // The activity seen last has gone on since.
  meter(0).went_by(doing_, doing_);
  bool any = false;
  attempt(0, [&] {
    any = step();
    doing_ = doing();
  });
  meter(0).now_in(doing_);
  return any;
}

PENSTOCK_INLINE void DeviceStep::give_up() noexcept {
  attempt(0, [&] { abandon(); });
}
#endif

} // namespace penstock::detail
