// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/measure/times.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>
#include <penstock/host/detail/machine.hpp>
#include <penstock/host/graph.hpp>
#include <penstock/host/options.hpp>
#include <penstock/host/stream.hpp>
#include <penstock/machine/detail/mapping.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <system_error>

namespace penstock {

/// What a HostDevice has done and holds.
struct HostCounts {
  /// Counted calls, failed ones included: those that fail_call() counts.
  std::uint64_t calls = 0;
  std::uint64_t copies = 0;       ///< Copies enqueued.
  std::uint64_t copied_bytes = 0; ///< Bytes of those copies.
  std::uint64_t launches = 0;     ///< Work enqueued, and graphs launched, a graph as one.
  std::uint64_t records = 0;      ///< Events recorded.
  std::uint64_t waits = 0;        ///< Times a stream was told to wait.
  std::uint64_t queries = 0;      ///< Calls of is_done().
  std::uint64_t syncs = 0;        ///< Blocking waits.
  /// Bytes ever page-locked, given back or not.
  std::uint64_t pinned_bytes = 0;
  std::size_t live_allocations = 0; ///< Pieces of device memory not given back yet.
  std::size_t live_pinned = 0;      ///< Pieces of pinned memory not given back yet.
  std::size_t live_streams = 0;     ///< Streams that exist now.
  std::size_t live_events = 0;      ///< Events that exist now.
};

/// What HostDevice::attach() returns: a guard of nothing. Its destructor keeps compilers from
/// warning of an unused variable.
struct HostAttachment {
  ~HostAttachment() {}
};

} // namespace penstock

namespace penstock::detail {

/// Which memory is page-locked. Any thread. Devices in static storage may outlive other objects, so
/// this one has nothing to destroy, and keeps what it allocates.
///
/// Nothing takes a lock: that would order threads, and hide from ThreadSanitizer what they forgot
/// to order. A piece is one word, its first page and how many it has, so nobody sees half of one.
/// Who has a pointer into a piece has been told of it after it was noted here: relaxed will do.
class PinnedPieces {
 public:
  constexpr PinnedPieces() = default;
  PinnedPieces(const PinnedPieces&) = delete;
  PinnedPieces& operator=(const PinnedPieces&) = delete;

  /// Notes a piece of whole pages; of more than 2 TiB the first. If the process has no memory left
  /// for that, the piece counts as pageable.
  void add(const void* at, std::size_t bytes) noexcept {
    for (Group* group = &first_; group != nullptr; group = made_after(*group)) {
      for (Entry& piece : group->pieces) {
        std::uint64_t none = 0;
        // An exchange takes the cache line from those that look here, also if it fails.
        if (piece.load(StdAtomics::relaxed) == 0 &&
            piece.compare_exchange_strong(none, word(at, bytes), StdAtomics::relaxed)) {
          return;
        }
      }
    }
  }
  /// Forgets a piece.
  void remove(const void* at, std::size_t bytes) noexcept {
    any([is = word(at, bytes)](Entry& piece) {
      if (piece.load(StdAtomics::relaxed) != is) {
        return false;
      }
      piece.store(0, StdAtomics::relaxed);
      return true;
    });
  }
  /// Returns whether all these bytes lie in one piece.
  bool has(const void* at, std::size_t bytes) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(at);
    return any([&](const Entry& piece) {
      const std::uint64_t is = piece.load(StdAtomics::relaxed);
      const std::uint64_t first = is >> count_bits << page_bits;
      const std::uint64_t size = is % (std::uint64_t{1} << count_bits) << page_bits;
      return begin >= first && begin - first < size && bytes <= size - (begin - first);
    });
  }

 private:
  using Entry = StdAtomics::Atomic<std::uint64_t>;
  struct Group {
    std::array<Entry, 32> pieces{};
    StdAtomics::Atomic<Group*> next{nullptr};
  };
  static constexpr unsigned page_bits = 12;
  static constexpr unsigned count_bits = 29; // an address has 47 bits, less those of a page

  static std::uint64_t word(const void* at, std::size_t bytes) noexcept {
    const std::uint64_t first = reinterpret_cast<std::uintptr_t>(at) >> page_bits;
    constexpr std::uint64_t most = (std::uint64_t{1} << count_bits) - 1;
    return first << count_bits | std::min<std::uint64_t>(bytes >> page_bits, most);
  }
  // Returns null if there is no memory for another group.
  static Group* made_after(Group& group) noexcept {
    Group* next = group.next.load(StdAtomics::acquire); // pairs with the exchange below
    if (next == nullptr) {
      auto* const made = new (std::nothrow) Group;
      if (made != nullptr && group.next.compare_exchange_strong(
                                 next, made, StdAtomics::release,
                                 StdAtomics::acquire)) { // pair with each other, and with any()
        return made;
      }
      delete made;
    }
    return next;
  }
  // Returns whether f(piece) returned true for any piece; asks no more then.
  template <class F> bool any(F f) noexcept {
    for (Group* group = &first_; group != nullptr;) {
      for (Entry& piece : group->pieces) {
        if (f(piece)) {
          return true;
        }
      }
      group = group->next.load(StdAtomics::acquire); // pairs with made_after()
    }
    return false;
  }

  Group first_;
};

/// What all HostDevices of the process have page-locked: each of them may copy it as such, as a GPU
/// may what another one's context has. One object also for libraries that hide their symbols.
[[gnu::visibility("default")]] inline constinit PinnedPieces pinned_pieces{};

} // namespace penstock::detail

namespace penstock {

/// A device that needs no GPU: its streams are threads, its memory is host memory. Its streams and
/// events keep CUDA's order and no other, and it can be late and fail on purpose. It does not
/// notice a missing wait itself: ThreadSanitizer does. Host code can read its device memory, as it
/// could not read a GPU's.
///
/// It must outlive its streams, events and memory. Any thread may call, one thread a stream at a
/// time. Calls throw DeviceError; only those that make something allocate.
class HostDevice {
 public:
  using stream_type = HostStream;      ///< What stream() makes.
  using event_type = HostEvent;        ///< What event() makes.
  using graph_type = HostGraph;        ///< What capture() makes.
  using stream_argument = HostStream&; ///< How calls and callables take a stream.

  /// Is as fast as it can be. Starts no thread.
  HostDevice() = default;
  /// Behaves as the options say. Starts no thread. Throws OptionError.
  template <std::same_as<HostOptions> Options = HostOptions>
  explicit HostDevice(const Options& options)
      : context_{detail::Owned<detail::Machine>{new detail::PretendedMachine<Options>{options}}} {}
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;
  [[gnu::cold]] ~HostDevice() {
    assert((!context_.queues.is_here() || detail::was_left_at_exit() ||
            (counts().live_streams == 0 && counts().live_events == 0)) &&
           "penstock: a HostDevice must outlive its streams and events");
  }

  std::string name() const { return "host"; } ///< For the Report.
  /// Returns HostOptions::memory_bytes; 0 if the device does not say.
  std::uint64_t memory_bytes() const noexcept { return context_.memory_bytes(); }
  /// No-op: host memory is reachable from every thread.
  [[nodiscard]] HostAttachment attach() noexcept { return {}; }

  /// Makes a stream, and starts its thread.
  HostStream stream() {
    context_.gate.pass("stream");
    try {
      return HostStream{context_};
    } catch (const std::system_error&) {
      fail("stream", {}, "no thread could be started; raise the limit on them (ulimit -u)");
    }
  }
  /// Makes an event, not recorded yet.
  HostEvent event() {
    context_.gate.pass("event");
    return HostEvent{context_};
  }

  /// Returns `bytes` of memory aligned to 256 and filled with 0xCD, since a GPU's is not zero
  /// either; null for 0 bytes.
  void* allocate(std::size_t bytes);
  /// Gives memory back; no queued work may use it any more. Ignores null.
  void deallocate(void* at, std::size_t bytes) noexcept {
    if (at != nullptr) {
      const detail::NotedCall noted{detail::CallKind::allocation};
      rest();
      ::operator delete(at, alignment);
      allocated_bytes_.fetch_sub(bytes, StdAtomics::relaxed);
      live_allocations_.fetch_sub(1, StdAtomics::relaxed);
    }
  }
  /// Returns `bytes` of zeroed host memory, a multiple of 4096; blocks until its pages are there.
  /// It is pinned memory for every HostDevice.
  void* allocate_pinned(std::size_t bytes) {
    const detail::NotedCall noted{detail::CallKind::allocation};
    context_.gate.pass("allocate_pinned", bytes);
    try {
      void* const at = detail::map_pages(bytes);
      detail::pinned_pieces.add(at, bytes);
      live_pinned_.fetch_add(1, StdAtomics::relaxed);
      pinned_bytes_.fetch_add(bytes, StdAtomics::relaxed);
      return at;
    } catch (const Error& e) {
      context_.gate.fail("allocate_pinned", Gate::out_of_memory, e.what());
    }
  }
  /// Gives pinned memory back; no queued work may use it any more. Ignores null.
  void deallocate_pinned(void* at, std::size_t bytes) noexcept {
    if (at != nullptr) {
      const detail::NotedCall noted{detail::CallKind::allocation};
      rest();
      detail::pinned_pieces.remove(at, bytes);
      detail::unmap_pages(at, bytes);
      live_pinned_.fetch_sub(1, StdAtomics::relaxed);
    }
  }

  /// Copies `bytes` from pinned memory to the device's when the stream gets there; returns at once.
  /// From pageable memory too; with HostOptions::to_device_bytes_per_s that is slower, and blocks
  /// until it is done.
  void copy_to_device(void* to, const void* from, std::size_t bytes, HostStream& stream) {
    copy("copy_to_device", detail::Way::to_device, to, from, bytes, stream);
  }
  /// Enqueues a copy from the device's memory to pinned memory; returns at once. To pageable memory
  /// too, likewise.
  void copy_to_host(void* to, const void* from, std::size_t bytes, HostStream& stream) {
    copy("copy_to_host", detail::Way::to_host, to, from, bytes, stream);
  }

  /// Do what the members of HostEvent and HostStream do.
  /// @{
  void record(HostEvent& event, HostStream& stream) { event.record(stream); }
  void wait(HostStream& stream, const HostEvent& event) { stream.wait(event); }
  bool is_done(const HostEvent& event) { return event.is_done(); }
  void sync(const HostEvent& event) { event.sync(); }
  void sync(HostStream& stream) { stream.sync(); }
  /// @}

  /// Captures what `f()` enqueues on `lanes`, as HostGraph::capture() does.
  template <class F> HostGraph capture(std::span<HostStream> lanes, F f) {
    context_.gate.pass("capture");
    return HostGraph::capture(lanes, std::move(f));
  }

  /// Makes the `k`-th counted call from now fail: 1 is the next; 0 takes the fault away. Counted
  /// are stream, event, allocate, allocate_pinned, copy_to_device, copy_to_host, record, wait,
  /// is_done, sync, capture and a graph's launch, however they are called. For one thread at a
  /// time. If others make calls meanwhile, a later call may fail instead, but one does.
  void fail_call(std::uint64_t k, HostFault fault = {}) noexcept {
    context_.gate.arm(k, fault.persistent, fault.sticky, fault.code);
  }
  /// Returns whether a call has failed since fail_call(), because of it.
  bool fault_fired() const noexcept { return context_.gate.fired(); }
  /// Returns the latched error code and clears it, as cudaGetLastError does; a sticky one stays. An
  /// error that was thrown is no longer latched.
  int last_error() noexcept { return context_.gate.last_error(); }

  /// Returns the counts. Each is exact; together they are of one moment only when no call runs.
  HostCounts counts() const noexcept;

 private:
  using Gate = detail::CallGate;
  static constexpr std::align_val_t alignment{256};

  [[noreturn]] void fail(const char* call, std::optional<std::size_t> bytes, const char* why) {
    context_.gate.fail(call, Gate::out_of_memory,
                       Gate::text(call, bytes, Gate::out_of_memory, why));
  }

  // Takes memory of the device, if so much is left.
  bool take(std::size_t bytes) noexcept {
    const std::uint64_t limit = memory_bytes();
    std::uint64_t held = allocated_bytes_.load(StdAtomics::relaxed);
    do {
      if (limit != 0 && (held > limit || bytes > limit - held)) {
        return false;
      }
    } while (!allocated_bytes_.compare_exchange_weak(held, held + bytes, StdAtomics::relaxed));
    return true;
  }

  void copy(const char* call, detail::Way way, void* to, const void* from, std::size_t bytes,
            HostStream& stream);
  // Returns false, without a look, if nobody wants to know.
  bool is_pageable(detail::Way way, const void* host, std::size_t bytes) noexcept {
    return bytes != 0 && (detail::calls_here != nullptr || context_.has_bus(way)) &&
           !detail::pinned_pieces.has(host, bytes);
  }
  // After a trap no thread waits for a GPU's work, and memory is freed at once: none may run here.
  void rest() noexcept {
    if (context_.gate.is_broken()) {
      context_.queues.await_rest();
    }
  }

  detail::HostContext context_;
  StdAtomics::Atomic<std::uint64_t> copies_{0}, copied_bytes_{0}, pinned_bytes_{0};
  StdAtomics::Atomic<std::uint64_t> allocated_bytes_{0};
  StdAtomics::Atomic<std::size_t> live_allocations_{0}, live_pinned_{0};
};

static_assert(AnyDevice<HostDevice>);

#if PENSTOCK_BODIES
PENSTOCK_INLINE void* HostDevice::allocate(std::size_t bytes) {
  const detail::NotedCall noted{detail::CallKind::allocation};
  context_.gate.pass("allocate", bytes);
  if (bytes == 0) {
    return nullptr;
  }
  constexpr const char* why = "out of memory; take a smaller batch, copy or depth";
  constexpr std::size_t most = std::numeric_limits<std::ptrdiff_t>::max();
  if (bytes > most || !take(bytes)) {
    fail("allocate", bytes, why);
  }
  void* const at = ::operator new(bytes, alignment, std::nothrow);
  if (at == nullptr) {
    allocated_bytes_.fetch_sub(bytes, StdAtomics::relaxed);
    fail("allocate", bytes, why);
  }
  live_allocations_.fetch_add(1, StdAtomics::relaxed);
  return std::memset(at, 0xCD, bytes);
}

PENSTOCK_INLINE HostCounts HostDevice::counts() const noexcept {
  const auto now = [](const auto& count) { return count.load(StdAtomics::relaxed); };
  return {.calls = context_.gate.calls(),
          .copies = now(copies_),
          .copied_bytes = now(copied_bytes_),
          .launches = now(context_.launches),
          .records = now(context_.records),
          .waits = now(context_.waits),
          .queries = now(context_.queries),
          .syncs = now(context_.syncs),
          .pinned_bytes = now(pinned_bytes_),
          .live_allocations = now(live_allocations_),
          .live_pinned = now(live_pinned_),
          .live_streams = now(context_.live_streams),
          .live_events = now(context_.live_events)};
}

PENSTOCK_INLINE void HostDevice::copy(const char* call, detail::Way way, void* to, const void* from,
                                      std::size_t bytes, HostStream& stream) {
  using detail::CallKind;
  const bool pageable = is_pageable(way, way == detail::Way::to_device ? from : to, bytes);
  const detail::NotedCall noted{pageable ? CallKind::pageable_copy : CallKind::copy, bytes};
  context_.gate.pass(call, bytes);
  const std::uint64_t number = copies_.fetch_add(1, StdAtomics::relaxed);
  copied_bytes_.fetch_add(bytes, StdAtomics::relaxed);
  const detail::Cost cost = context_.copy(way, number, bytes, pageable);
  stream.put([to, from, bytes, cost](detail::Pace& pace) {
    pace.run(cost, [=] {
      if (bytes != 0) {
        std::memcpy(to, from, bytes);
      }
    });
  });
  if (pageable && context_.has_bus(way)) {
    stream.finish(call);
  }
}
#endif

} // namespace penstock
