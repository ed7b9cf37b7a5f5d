// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

namespace penstock {

/// One of several copies that go together.
struct CopyPiece {
  void* to{};          ///< The device's memory.
  const void* from{};  ///< Pinned host memory.
  std::size_t bytes{}; ///< How many bytes.
};

/// The owner of streams, events and memory: HostDevice or CudaDevice. Work on a stream runs in
/// order, asynchronously; an event marks a point of a stream. Any thread may make any call, one
/// thread a stream at a time. Calls throw DeviceError; `deallocate` and destructors never do.
///
/// - `stream()`, `event()` make one; both are movable owners and live at most as long as the
///   device.
/// - `allocate(n)` / `deallocate(p, n)`: device memory. `allocate_pinned(n)` /
///   `deallocate_pinned(p, n)`: host memory page-locked for this device, `n` a multiple of the
///   page.
/// - `copy_to_device(dst, src, n, stream)`, `copy_to_host(dst, src, n, stream)`: the host side is
///   pinned; they return at once.
/// - `record(event, stream)`; `wait(stream, event)`: later work on the stream waits for what the
///   event marks *now*, and for nothing if it was never recorded; `is_done(event)`; `sync(event)`,
///   `sync(stream)` block the caller.
/// - optional: `copy_to_device(pieces, stream)`, of a std::span of CopyPiece: several copies by one
///   call.
/// - optional: `memory_bytes()`: the bytes of device memory that there are in all, or 0.
/// - optional: `graph_type` and `capture(lanes, f)`, which returns what `f()` enqueues on the
///   streams of a std::span, as a movable owner with `launch(stream)`; work of one stream runs in
///   order, that of two perhaps side by side.
/// - optional: `processors_near()`, the detail::ProcessorSet on which threads that fill its pinned
///   memory should run, an empty one if that does not matter; and `devices_near()`, how many
///   devices have those processors near them.
/// - optional: `identity()`, a std::uintptr_t other than 0 that all objects of one and the same
///   device share; without it each object is a device of its own.
/// - `attach()`: makes this the calling thread's device until the object that it returns dies.
///   Optional: `attach_own_thread()`, which does so for threads that penstock has started.
/// - optional: `check_not_capturing(stream)`, which throws if an event recorded on the stream would
///   not mark what has run; and `launch_check_type`, whose begin(), check() and forget() find calls
///   in a callable that failed unseen.
template <class D>
concept AnyDevice =
    requires(D& d, typename D::event_type& e, typename D::stream_type& owned,
             typename D::stream_argument s, void* to, const void* from, std::size_t n) {
      { d.name() } -> std::convertible_to<std::string>;
      { d.attach() };
      { d.stream() } -> std::same_as<typename D::stream_type>;
      { d.event() } -> std::same_as<typename D::event_type>;
      { d.allocate(n) } -> std::same_as<void*>;
      { d.deallocate(to, n) } noexcept;
      { d.allocate_pinned(n) } -> std::same_as<void*>;
      { d.deallocate_pinned(to, n) } noexcept;
      { d.copy_to_device(to, from, n, s) };
      { d.copy_to_host(to, from, n, s) };
      { d.record(e, s) };
      { d.wait(s, e) };
      { d.is_done(e) } -> std::same_as<bool>;
      { d.sync(e) };
      { d.sync(s) };
      requires std::is_convertible_v<typename D::stream_type&, typename D::stream_argument>;
    };

namespace detail {
/// Throws if an event recorded on `stream` now would not mark work that runs.
template <AnyDevice D> void check_not_capturing(D& device, typename D::stream_argument stream) {
  if constexpr (requires { device.check_not_capturing(stream); }) {
    device.check_not_capturing(stream);
  }
}
/// Makes `device` the calling thread's, which is a thread that penstock has started.
template <AnyDevice D> auto attach_own_thread(D& device) {
  if constexpr (requires { device.attach_own_thread(); }) {
    return device.attach_own_thread();
  } else {
    return device.attach();
  }
}
/// Returns the bytes of a device's memory; 0 if it does not say.
template <AnyDevice D> std::uint64_t memory_of(D& device) {
  if constexpr (requires { device.memory_bytes(); }) {
    return device.memory_bytes();
  } else {
    return 0;
  }
}
/// Whether work on a device's streams can be captured, to be launched by one call.
template <class D>
concept Captures = requires(const typename D::graph_type& graph, typename D::stream_argument s) {
  graph.launch(s);
};
} // namespace detail

/// The type by which a callable of a pipeline on device D takes its stream: cudaStream_t, or
/// HostStream&. Also for `decltype(device)`.
template <class D> using Stream = typename std::remove_cvref_t<D>::stream_argument;

} // namespace penstock
