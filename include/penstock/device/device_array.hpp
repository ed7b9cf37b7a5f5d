// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/device/device.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock {

/// An array in a device's memory: for results that kernels gather and the host reads at the end.
/// Movable; it must not outlive the device. All work that uses it must be done before it dies.
template <class T, AnyDevice D> class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>,
                "penstock: an array is copied byte by byte, so T must be trivially copyable.");
  static_assert(!std::is_same_v<T, bool>,
                "penstock: std::vector<bool> packs its elements: take std::uint8_t.");

 public:
  /// Makes `n` elements of zero bytes. Blocks until they are zero: any stream may use them then.
  /// Throws OptionError if n * sizeof(T) is more than memory can be, else what the device throws.
  DeviceArray(D& device, std::size_t n)
      : device_{&device}, size_{n}, allocation_{detail::Allocation::in<Device>(
                                        &device, detail::checked_bytes(n, sizeof(T), "an array"))} {
    Transfer transfer{device, allocation_.bytes()};
    std::memset(transfer.host.data(), 0, transfer.host.bytes());
    transfer.pieces(allocation_.bytes(), [&](std::size_t offset, std::size_t bytes) {
      transfer.at_work = true;
      device.copy_to_device(allocation_.data() + offset, transfer.host.data(), bytes,
                            transfer.stream);
    });
    transfer.sync();
  }

  /// Returns the device memory, aligned to 256 bytes; null if size() is 0.
  T* data() const noexcept { return reinterpret_cast<T*>(allocation_.data()); }
  /// Returns the number of elements.
  std::size_t size() const noexcept { return size_; }

  /// Returns the elements as they are when all work queued on `stream` so far is done; blocks until
  /// then. It allocates and makes a stream of its own: do not call it in the middle of a run.
  /// Throws DeviceError, also for a stream that captures a graph.
  std::vector<T> read(Stream<D> stream) const {
    std::vector<T> elements(size_);
    Transfer transfer{*device_, allocation_.bytes()};
    auto queued = device_->event();
    detail::check_not_capturing(*device_, stream);
    device_->record(queued, stream);
    device_->wait(transfer.stream, queued);
    auto* to = reinterpret_cast<std::byte*>(elements.data());
    transfer.pieces(allocation_.bytes(), [&](std::size_t offset, std::size_t bytes) {
      transfer.at_work = true;
      device_->copy_to_host(transfer.host.data(), allocation_.data() + offset, bytes,
                            transfer.stream);
      transfer.sync();
      std::memcpy(to + offset, transfer.host.data(), bytes);
    });
    return elements;
  }

 private:
  // Copies through page-locked memory of bounded size, which outlives a copy still running if a
  // call fails.
  struct Transfer {
    static constexpr std::size_t most_bytes = std::size_t{4} << 20;

    Transfer(D& on, std::size_t bytes)
        : device{on},
          host{detail::Allocation::in<Pinned>(&on, std::clamp(bytes, detail::page, most_bytes))},
          stream{on.stream()} {}
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;
    ~Transfer() {
      detail::wait_at_last([this] { sync(); });
    }

    void sync() {
      if (at_work) {
        device.sync(stream);
        at_work = false;
      }
    }

    template <class F> void pieces(std::size_t bytes, F f) {
      for (std::size_t offset = 0; offset < bytes; offset += host.bytes()) {
        f(offset, std::min(host.bytes(), bytes - offset));
      }
    }

    D& device;
    detail::Allocation host;
    typename D::stream_type stream;
    bool at_work{}; // until a thread has waited for the stream
  };

  D* device_;
  std::size_t size_;
  detail::Allocation allocation_;
};

/// Makes `n` elements of T, as DeviceArray's constructor does; the device's type is deduced.
template <class T, AnyDevice D> DeviceArray<T, D> device_array(D& device, std::size_t n) {
  return DeviceArray<T, D>{device, n};
}

} // namespace penstock
