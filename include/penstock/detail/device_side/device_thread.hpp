// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/device_side/device_step.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/parking.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include <sys/prctl.h>

namespace penstock::detail {

/// What the one thread does that enqueues a pipeline's copies and kernels and asks fences. It looks
/// at everything in turn and waits for nothing but its bell, which every ring that it touches
/// rings; while a fence is open it looks again after a short while by itself.
template <AnyDevice D> class DeviceThread {
 public:
  using Bell = typename DeviceLink<D>::Bell;

  const std::shared_ptr<Bell>& bell() const noexcept { return bell_; }
  /// Before the first run: the stage that takes from the one added last. `gives`: the ring that it
  /// fills, if that is on the device.
  void add(DeviceStep& step, std::shared_ptr<DeviceLink<D>> gives = {}) {
    steps_.push_back(&step);
    end_ = std::move(gives);
  }

  /// Before a run, with all at rest.
  void reset() noexcept {
    if (end_) {
      end_->drained.store(false, StdAtomics::relaxed);
      end_->consuming.clear();
    }
    consuming_ = Spent::starved;
  }

  /// A run.
  void serve() {
    // The kernel rounds short sleeps up by 50 us unless told that it matters.
    prctl(PR_SET_TIMERSLACK, 1UL);
    for (DeviceStep* step : steps_) {
      step->begin();
    }
    if (end_) {
      end_->consuming.start();
    }
    look_on();
  }
  /// After it, however it ended.
  void rest() noexcept {
    for (DeviceStep* step : steps_) {
      step->rest();
    }
    if (end_) {
      end_->consuming.spent(consuming_, Spent::resting);
    }
  }
  /// And then, unless the device was lost, which answers no more. Blocks until nothing that was
  /// enqueued touches memory.
  void abandon() noexcept {
    // Each may hold places of the one before it.
    std::for_each(steps_.rbegin(), steps_.rend(), [](DeviceStep* step) { step->give_up(); });
  }

 private:
  using Clock = Meter::Clock;

  void look_on() {
    Clock::time_point moved = Clock::now();
    for (;;) {
      // Before anything is looked at: what changes after it was looked at rings once more.
      const std::uint32_t count = bell_->count();
      bool any = false;
      for (DeviceStep* step : steps_) {
        any = step->take_turn() || any;
      }
      bool open = end_ && watch_consumer();
      for (const DeviceStep* step : steps_) {
        open = step->open() || open;
      }
      // After all turns, since in one of them another's fence may have been found reached.
      if (over()) {
        return;
      }
      if (any) {
        moved = Clock::now();
      } else if (Clock::now() - moved < look_again) {
        SpinThenFutex::pause();
      } else {
        bell_->wait(count, open ? look_again : std::chrono::nanoseconds{-1});
      }
    }
  }

  bool over() const noexcept {
    const auto done = [](const DeviceStep* step) { return step->done(); };
    return steps_.front()->flow() > Flow::ended ||
           (std::all_of(steps_.begin(), steps_.end(), done) &&
            (!end_ || end_->drained.load(StdAtomics::acquire))); // pairs with the consumer's
  }

  // Looks at what the consumer does; true while it does anything.
  bool watch_consumer() {
    end_->consuming.spent(consuming_, consuming_);
    const std::uint64_t oldest = end_->uses.oldest_open();
    const bool calling = end_->calling.load(StdAtomics::relaxed);
    const bool works =
        oldest != 0 && end_->ready(end_->used_ticket(oldest).load(StdAtomics::relaxed)).reached();
    consuming_ = works || calling ? Spent::busy : Spent::starved;
    end_->consuming.begins(consuming_);
    return oldest != 0 || calling;
  }

  static constexpr std::chrono::microseconds look_again{20};

  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::vector<DeviceStep*> steps_;
  std::shared_ptr<DeviceLink<D>> end_; // of the last stage's batches, if they are on the device
  Spent consuming_{};
};

} // namespace penstock::detail
