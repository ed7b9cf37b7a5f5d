// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/shared.hpp>
#include <penstock/host/detail/call_gate.hpp>
#include <penstock/host/detail/context.hpp>
#include <penstock/host/detail/queue.hpp>
#include <penstock/host/event.hpp>
#include <penstock/host/graph.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <utility>

namespace penstock {

class HostDevice;

/// A stream of the host device: a thread that runs queued work in order. HostDevice::stream() makes
/// it, and the device must outlive it; names and semantics are those of CCCL's `cuda::stream`.
///
/// It is an owner, and moves; one moved from may only be assigned to or destroyed. Destruction
/// blocks until all queued work is done. Any thread may call, one at a time. Calls throw
/// DeviceError.
class HostStream {
 public:
  /// The most bytes that a callable given to enqueue() may have.
  static constexpr std::size_t work_bytes = detail::HostQueue::work_bytes;
  /// How many pieces of work it holds, the running one included, before enqueue() blocks.
  static constexpr std::size_t capacity = detail::HostQueue::capacity;

  /// Runs `f()` later on the stream's thread, after all work enqueued before; returns at once,
  /// unless `capacity` pieces are waiting. `f` is kept in the queue itself: nothing is allocated.
  /// If `f` throws, the device breaks down as a GPU does by a trap: nothing runs on it any more,
  /// and every later call throws. `f` must not call the device, its streams or its events.
  template <class F> void enqueue(F f) {
    context().gate.check("enqueue");
    put(std::move(f));
  }

  /// Makes later work wait for what `event` marks now; for nothing if it was never recorded.
  /// Returns at once. Throws while the stream is captured, since nothing runs then.
  void wait(const HostEvent& event);
  /// Blocks until all work enqueued before is done. Throws while the stream is captured.
  void sync() {
    detail::HostContext& c = passed("sync");
    c.syncs.fetch_add(1, StdAtomics::relaxed);
    queue().await(queue().end());
    c.gate.check("sync");
  }
  /// Returns whether all work enqueued before is done. Never blocks. Throws while the stream is
  /// captured.
  bool is_done() const {
    detail::HostContext& c = passed("is_done");
    c.queries.fetch_add(1, StdAtomics::relaxed);
    return queue().is_reached(queue().end());
  }

 private:
  friend class HostDevice;
  friend class HostEvent;
  friend class HostGraph;

  struct State {
    explicit State(detail::HostContext& c) : context{c}, queue{c.queues.start(c.gate)} {
      c.live_streams.fetch_add(1, StdAtomics::relaxed);
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
      context.queues.finish(queue);
      context.live_streams.fetch_sub(1, StdAtomics::relaxed);
    }
    detail::HostContext& context;
    detail::HostQueue& queue;
    detail::Capture capture; // set while the stream is captured
  };

  explicit HostStream(detail::HostContext& c) : state_{new State{c}} {}
  detail::HostContext& context() const noexcept { return state_->context; }
  detail::HostQueue& queue() const noexcept { return state_->queue; }
  template <class F> void put(F f) {
    if (const detail::Capture& capture = state_->capture; capture.work) {
      capture.work->add(capture.lane, std::move(f));
    } else {
      queue().push(std::move(f));
    }
  }
  // Passes a counted call that cannot be made while the stream is captured.
  detail::HostContext& passed(const char* call) const {
    detail::CallGate& gate = context().gate;
    gate.pass(call);
    if (state_->capture.work) {
      gate.fail(call, detail::CallGate::captured,
                detail::CallGate::text(call, {}, detail::CallGate::captured,
                                       "the stream is being captured, so nothing runs"));
    }
    return context();
  }

  detail::Owned<State> state_;
};

inline void HostEvent::record(HostStream& stream) {
  detail::HostContext& c = stream.passed("record");
  c.records.fetch_add(1, StdAtomics::relaxed);
  const Point point{&stream.queue(), stream.queue().end()};
  const std::lock_guard lock{state_->mutex};
  state_->latest = point;
}

inline void HostStream::wait(const HostEvent& event) {
  detail::HostContext& c = passed("wait");
  c.waits.fetch_add(1, StdAtomics::relaxed);
  const HostEvent::Point point = event.latest();
  if (!point.is_reached()) {
    queue().push([point] { point.await(); });
  }
}

template <class F> HostGraph HostGraph::capture(std::span<HostStream> lanes, F f) {
  auto work = detail::new_shared<detail::CapturedWork>(lanes.size());
  struct Captured {
    ~Captured() {
      for (HostStream& lane : lanes) {
        lane.state_->capture = {};
      }
    }
    std::span<HostStream> lanes;
  } const captured{lanes};
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    lanes[lane].state_->capture = {work.get(), lane};
  }
  f();
  return HostGraph{std::move(work)};
}

inline void HostGraph::launch(HostStream& stream) const {
  stream.passed("launch");
  stream.queue().push([work = work_] { work->run(); });
}

} // namespace penstock
