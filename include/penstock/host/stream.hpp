// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/measure/times.hpp>
#include <penstock/host/detail/call_gate.hpp>
#include <penstock/host/detail/context.hpp>
#include <penstock/host/detail/machine.hpp>
#include <penstock/host/detail/queue.hpp>
#include <penstock/host/event.hpp>
#include <penstock/host/graph.hpp>

#include <concepts>
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
    static_assert(std::invocable<F&>, "penstock: a stream's work is called without arguments.");
    context().gate.check("enqueue");
    if (state_->capture.work) {
      put(Kernel<F>{std::move(f)});
    } else {
      launch(Kernel<F>{std::move(f)});
    }
  }

  /// Makes later work wait for what `event` marks now; for nothing if it was never recorded.
  /// Returns at once. Throws while the stream is captured, since nothing runs then.
  void wait(const HostEvent& event);
  /// Blocks until all work enqueued before is done. Throws while the stream is captured.
  void sync();
  /// Returns whether all work enqueued before is done. Never blocks. Throws while the stream is
  /// captured.
  bool is_done() const;

 private:
  friend class HostDevice;
  friend class HostEvent;
  friend class HostGraph;

  struct State {
    explicit State(detail::HostContext& c);
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State();
    detail::HostContext& context;
    detail::HostQueue& queue;
    detail::Capture capture; // set while the stream is captured
  };

  explicit HostStream(detail::HostContext& c) : state_{new State{c}} {}
  detail::HostContext& context() const noexcept { return state_->context; }
  detail::HostQueue& queue() const noexcept { return state_->queue; }
  // As large as the callable, which may fill its place in the queue.
  template <class F> struct Kernel {
    F work;
    void operator()(detail::Pace& pace) { pace.run_kernel(work); }
  };
  template <class F> void launch(F f) {
    const detail::NotedCall noted{detail::CallKind::launch};
    detail::Machine* const machine = context().machine.get();
    const auto begun = machine ? machine->begin_launch() : detail::Pace::Clock::time_point{};
    context().launches.fetch_add(1, StdAtomics::relaxed);
    const bool at_once = queue().push(std::move(f));
    if (machine) {
      machine->end_launch(begun, at_once);
    }
  }
  template <class F> void put(F f) {
    if (const detail::Capture& capture = state_->capture; capture.work) {
      capture.work->add(capture.lane, std::move(f));
    } else {
      queue().push(std::move(f));
    }
  }
  // Blocks until all work enqueued is done; while the stream is captured, that is none.
  void finish(const char* call);
  // Passes a counted call that cannot be made while the stream is captured.
  detail::HostContext& passed(const char* call) const;

  detail::Owned<State> state_;
};

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
  const detail::CallsCountIn nowhere{nullptr}; // nothing is launched or copied here
  f();
  return HostGraph{std::move(work)};
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE void HostStream::sync() {
  const detail::NotedCall noted{detail::CallKind::wait};
  passed("sync").syncs.fetch_add(1, StdAtomics::relaxed);
  finish("sync");
}

PENSTOCK_INLINE bool HostStream::is_done() const {
  detail::HostContext& c = passed("is_done");
  c.queries.fetch_add(1, StdAtomics::relaxed);
  return queue().is_reached(queue().end());
}

PENSTOCK_INLINE HostStream::State::State(detail::HostContext& c)
    : context{c}, queue{c.queues.start(c.gate, c.machine.get())} {
  c.live_streams.fetch_add(1, StdAtomics::relaxed);
}

PENSTOCK_INLINE HostStream::State::~State() {
  context.queues.finish(queue);
  context.live_streams.fetch_sub(1, StdAtomics::relaxed);
}

PENSTOCK_INLINE void HostStream::finish(const char* call) {
  if (!state_->capture.work) {
    queue().await(queue().end());
    context().gate.check(call);
  }
}

PENSTOCK_INLINE detail::HostContext& HostStream::passed(const char* call) const {
  detail::CallGate& gate = context().gate;
  gate.pass(call);
  if (state_->capture.work) {
    gate.fail(call, detail::CallGate::captured,
              detail::CallGate::text(call, {}, detail::CallGate::captured,
                                     "the stream is being captured, so nothing runs"));
  }
  return context();
}

PENSTOCK_INLINE void HostEvent::record(HostStream& stream) {
  detail::HostContext& c = stream.passed("record");
  c.records.fetch_add(1, StdAtomics::relaxed);
  const Point point{&stream.queue(), stream.queue().end()};
  const std::lock_guard lock{state_->mutex};
  state_->latest = point;
}

PENSTOCK_INLINE void HostStream::wait(const HostEvent& event) {
  detail::HostContext& c = passed("wait");
  c.waits.fetch_add(1, StdAtomics::relaxed);
  const HostEvent::Point point = event.latest();
  if (!point.is_reached()) {
    queue().push([point](detail::Pace& pace) { pace.not_before(point.await()); });
  }
}

PENSTOCK_INLINE void HostGraph::launch(HostStream& stream) const {
  stream.passed("launch");
  stream.launch([work = work_](detail::Pace& pace) { work->run(pace); });
}
#endif

} // namespace penstock
