// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/host/device.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace penstock::tests {

/// Kinds of calls of a device, counted apart. A run asks whether events are done as often as it has
/// time for; of all other calls two like runs make nearly as many.
enum class Calls { questions, others };

/// A HostDevice whose k-th call of a kind fails.
class FailingDevice : public HostDevice {
 public:
  using HostDevice::HostDevice;

  /// Makes the `k`-th call of this kind from now fail. This and mend() are called while nothing
  /// runs.
  void fail(Calls calls, std::uint64_t k, HostFault fault) noexcept {
    mend();
    fault_ = fault;
    Counter& counter = of(calls);
    counter.fails.store(counter.made.load(std::memory_order_relaxed) + k,
                        std::memory_order_relaxed);
  }
  void mend() noexcept {
    questions_.fails.store(0, std::memory_order_relaxed);
    others_.fails.store(0, std::memory_order_relaxed);
    fired_.store(false, std::memory_order_relaxed);
    HostDevice::fail_call(0);
  }
  bool fired() const noexcept { return fired_.load(std::memory_order_relaxed); }

  HostStream stream() {
    pass(Calls::others);
    return HostDevice::stream();
  }
  HostEvent event() {
    pass(Calls::others);
    return HostDevice::event();
  }
  void* allocate(std::size_t bytes) {
    pass(Calls::others);
    return HostDevice::allocate(bytes);
  }
  void* allocate_pinned(std::size_t bytes) {
    pass(Calls::others);
    return HostDevice::allocate_pinned(bytes);
  }
  void copy_to_device(void* to, const void* from, std::size_t bytes, HostStream& stream) {
    pass(Calls::others);
    HostDevice::copy_to_device(to, from, bytes, stream);
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes, HostStream& stream) {
    pass(Calls::others);
    HostDevice::copy_to_host(to, from, bytes, stream);
  }
  void record(HostEvent& event, HostStream& stream) {
    pass(Calls::others);
    HostDevice::record(event, stream);
  }
  void wait(HostStream& stream, const HostEvent& event) {
    pass(Calls::others);
    HostDevice::wait(stream, event);
  }
  bool is_done(const HostEvent& event) {
    pass(Calls::questions);
    return HostDevice::is_done(event);
  }
  void sync(const HostEvent& event) {
    pass(Calls::others);
    HostDevice::sync(event);
  }
  void sync(HostStream& stream) {
    pass(Calls::others);
    HostDevice::sync(stream);
  }

 private:
  // Relaxed, as the device's own counters: threads get no order that the tested code forgot.
  struct Counter {
    std::atomic<std::uint64_t> made{0}, fails{0};
  };

  Counter& of(Calls calls) noexcept { return calls == Calls::questions ? questions_ : others_; }

  void pass(Calls calls) {
    Counter& counter = of(calls);
    if (counter.made.fetch_add(1, std::memory_order_relaxed) + 1 !=
        counter.fails.load(std::memory_order_relaxed)) {
      return;
    }
    fired_.store(true, std::memory_order_relaxed);
    if (!fault_.persistent && !fault_.sticky) {
      throw DeviceError{"penstock: host: a call failed, as fail() asked.", "a call", fault_.code,
                        false};
    }
    // This very call is then the first of all that fail.
    HostDevice::fail_call(1, {.persistent = true, .sticky = fault_.sticky, .code = fault_.code});
  }

  HostFault fault_;
  Counter questions_, others_;
  std::atomic<bool> fired_{false};
};

static_assert(AnyDevice<FailingDevice>);

} // namespace penstock::tests
