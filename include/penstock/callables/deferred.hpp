// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/device/device.hpp>
#include <penstock/device/fence.hpp>
#include <penstock/error.hpp>
#include <penstock/lease.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace penstock {

/// Options of a Deferred.
struct DeferredOptions {
  /// How many values it has room for. If a pipeline gives one value a batch, take its
  /// batches_a_run().
  std::size_t results = 1024;
};

template <class T, AnyDevice D> class Deferred;

/// A value on its way to the host: what Deferred::put() returns. It is a view of the Deferred,
/// which must outlive it, and is valid until that is cleared. Trivially copyable. Any thread.
template <class T, AnyDevice D> class Result {
 public:
  /// Makes one of no value: assign another before you ask it.
  Result() = default;
  /// For Deferred.
  Result(Deferred<T, D>& owner, std::size_t at) : owner_{&owner}, at_{at} {}

  /// Returns whether get() would not block. Asks the device, but never waits for it.
  bool ready() const { return owner_->ready(at_); }
  /// Blocks until the value has arrived, and returns it. Throws Error if there was no room for it,
  /// DeviceError if the device was lost.
  T get() const { return owner_->get(at_); }

 private:
  Deferred<T, D>* owner_{};
  std::size_t at_{};
};

/// Values that a device computes, such as a loss for each batch, and that the host reads later,
/// when they have arrived: put() enqueues a copy and waits for nothing. They lie in one array of
/// pinned memory, in the order in which you put them.
///
/// One thread at a time may put and clear; any thread may read what was put before. It must not
/// outlive the device. Memory and events are made once.
template <class T, AnyDevice D> class Deferred {
  static_assert(std::is_trivially_copyable_v<T>,
                "penstock: a deferred value is copied byte by byte, so it must be trivially "
                "copyable.");

 public:
  /// Pins the memory, which blocks. Throws OptionError for 0 results, DeviceError with the byte
  /// count.
  explicit Deferred(D& device, DeferredOptions options = {})
      : device_{device}, most_{checked(options.results)},
        allocation_{detail::Allocation::in<Pinned>(
            &device, detail::checked_bytes(most_, sizeof(T), "Deferred"))},
        line_{device, events} {}
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
  /// Waits for the values that are on their way.
  ~Deferred() {
    if (allocation_.is_here()) {
      detail::wait_at_last([this] { line_.sync(); });
    }
  }

  /// Enqueues a copy of `*value`, in device memory, as it will be when `stream` reaches the copy:
  /// two device calls, a copy and a record. If there is no room it enqueues nothing and counts the
  /// value as dropped(), and the run goes on. Throws DeviceError, also for a stream that captures a
  /// graph.
  Result<T, D> put(const T* value, Stream<D> stream) {
    const std::size_t at = size_.load(StdAtomics::relaxed);
    const std::size_t lost = dropped_.load(StdAtomics::relaxed);
    if (at == most_) {
      dropped_.store(lost + 1, StdAtomics::relaxed);
      return {*this, most_ + lost};
    }
    detail::check_not_capturing(device_, stream);
    // Events of several streams need one order: a stream first waits for the one used before it.
    if (const auto handle = detail::StreamHandle::of(stream); handle != last_) {
      line_.wait(stream, line_.was_recorded());
      last_ = handle;
    }
    device_.copy_to_host(data() + at, value, sizeof(T), stream);
    try {
      line_.record(stream);
    } catch (...) {
      settle(stream); // else nobody would know when the copy is over
      throw;
    }
    size_.store(at + 1, StdAtomics::release); // pairs with size()
    return {*this, at};
  }

  /// Returns how many values were put and had room, since the last clear().
  std::size_t size() const noexcept { return size_.load(StdAtomics::acquire); } // pairs with put()
  /// Returns how many values had no room, since the last clear().
  std::size_t dropped() const noexcept { return dropped_.load(StdAtomics::relaxed); }
  /// Returns value number `i`, less than size().
  Result<T, D> operator[](std::size_t i) { return {*this, i}; }
  /// Forgets all values, which makes room again. Blocks until none is on its way.
  void clear() {
    line_.sync();
    before_ = line_.was_recorded();
    size_.store(0, StdAtomics::relaxed);
    dropped_.store(0, StdAtomics::relaxed);
  }

 private:
  friend Result<T, D>;
  // If an older value's event is in use again, a newer value's event answers for it.
  static constexpr std::size_t events = 64;

  static std::size_t checked(std::size_t results) {
    if (results == 0) {
      throw OptionError{"penstock: Deferred: results is 0: give it as many as a run has batches."};
    }
    return results;
  }
  void settle(Stream<D> stream) noexcept {
    try {
      device_.sync(stream);
    } catch (...) {
    }
  }
  T* data() const noexcept { return reinterpret_cast<T*>(allocation_.data()); }
  bool ready(std::size_t at) {
    check(at);
    return line_.reached(before_ + at + 1);
  }
  T get(std::size_t at) {
    check(at);
    line_.sync(before_ + at + 1);
    return data()[at];
  }
  void check(std::size_t at) const {
    if (at >= size()) {
      detail::throw_error<Error>(
          {"penstock: Deferred: value number ", at, " was asked for, and of ", size() + dropped(),
           " values only ", most_,
           " had room: make it with deferred<T>(device, {.results = n}), or clear() it between "
           "runs."});
    }
  }

  D& device_;
  const std::size_t most_;
  detail::Allocation allocation_;
  Timeline<D> line_;
  detail::StreamHandle last_;
  std::uint64_t before_{}; // serials of forgotten values
  StdAtomics::Atomic<std::size_t> size_{0};
  StdAtomics::Atomic<std::size_t> dropped_{0};
};

/// Makes a `Deferred<T>` of a device whose type is deduced:
/// `auto losses = ps::deferred<float>(gpu)`.
template <class T, AnyDevice D> Deferred<T, D> deferred(D& device, DeferredOptions options = {}) {
  return Deferred<T, D>{device, options};
}

} // namespace penstock
