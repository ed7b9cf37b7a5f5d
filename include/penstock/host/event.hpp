// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/measure/times.hpp>
#include <penstock/host/detail/context.hpp>
#include <penstock/host/detail/machine.hpp>
#include <penstock/host/detail/queue.hpp>

#include <cstdint>
#include <mutex>

namespace penstock {

class HostDevice;
class HostStream;

/// A point of a stream. HostDevice::event() makes it, and the device must outlive it; names and
/// semantics are those of CCCL's `cuda::event`.
///
/// Each record() is a new generation: a wait for an earlier one goes on waiting for that. It is an
/// owner, and moves; one moved from may only be assigned to or destroyed. You may record it again
/// or destroy it while streams wait for it. Any thread may call. Calls throw DeviceError.
class HostEvent {
 public:
  /// Marks the point after everything enqueued on `stream` so far. Never blocks.
  void record(HostStream& stream);
  /// Returns whether the latest point recorded was reached; true if there is none. Never blocks.
  bool is_done() const;
  /// Blocks until the latest point recorded at the call is reached.
  void sync() const;

 private:
  friend class HostDevice;
  friend class HostStream;

  struct Point {
    const detail::HostQueue* queue{nullptr};
    std::uint64_t number{0};

    bool is_reached() const { return queue == nullptr || queue->is_reached(number); }
    // Returns what HostQueue::await() does.
    detail::Pace::Clock::time_point await() const;
  };
  // Apart from the event, which can then move though its mutex cannot.
  struct State {
    explicit State(detail::HostContext& c);
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() { context.live_events.fetch_sub(1, StdAtomics::relaxed); }

    detail::HostContext& context;
    std::mutex mutex;
    Point latest;
  };

  explicit HostEvent(detail::HostContext& c) : state_{new State{c}} {}
  Point latest() const;

  detail::Owned<State> state_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE bool HostEvent::is_done() const {
  detail::HostContext& c = state_->context;
  c.gate.pass("is_done");
  c.queries.fetch_add(1, StdAtomics::relaxed);
  if (!latest().is_reached()) {
    return false;
  }
  // The device may have broken down meanwhile. Its points are then reached whatever became of the
  // work, but a GPU's events would not say that.
  c.gate.check("is_done");
  return true;
}

PENSTOCK_INLINE void HostEvent::sync() const {
  detail::HostContext& c = state_->context;
  const detail::NotedCall noted{detail::CallKind::wait};
  c.gate.pass("sync");
  c.syncs.fetch_add(1, StdAtomics::relaxed);
  latest().await();
  c.gate.check("sync");
}

PENSTOCK_INLINE detail::Pace::Clock::time_point HostEvent::Point::await() const {
  return queue != nullptr ? queue->await(number) : detail::Pace::Clock::time_point{};
}

PENSTOCK_INLINE HostEvent::State::State(detail::HostContext& c) : context{c} {
  c.live_events.fetch_add(1, StdAtomics::relaxed);
}

PENSTOCK_INLINE HostEvent::Point HostEvent::latest() const {
  const std::lock_guard lock{state_->mutex};
  return state_->latest;
}
#endif

} // namespace penstock
