// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/memory.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>

#include <cstddef>

namespace penstock {

/// Scratch memory on a device for algorithms such as reduce() and sort(), made once so that they
/// allocate nothing. A Scratch's frame lends one too.
///
/// Work on a stream uses it when it runs. So only one stream at a time may use it, and it must
/// outlive that work; calls on the same stream take turns. Movable; it must not outlive the device.
template <AnyDevice D> class Workspace {
 public:
  /// Its size if you name none.
  static constexpr std::size_t usual_bytes = std::size_t{1} << 20;

  /// Allocates `bytes`. May block, as the device's allocate() may. Throws DeviceError with the byte
  /// count.
  explicit Workspace(D& device, std::size_t bytes = usual_bytes)
      : allocation_{detail::Allocation::in<Device>(&device, bytes)}, data_{allocation_.data()},
        size_{bytes} {}
  /// Wraps device memory that somebody else owns, aligned to 256 bytes, and does not give it back:
  /// a Scratch's frame lends it.
  Workspace(void* data, std::size_t bytes) noexcept : data_{data}, size_{bytes} {}

  /// Returns the device memory, aligned to 256 bytes.
  void* data() const noexcept { return data_; }
  /// Returns the size in bytes.
  std::size_t size() const noexcept { return size_; }

  /// Throws Error, with both sizes, if `bytes` are more than size(); `what` names the function that
  /// needs them.
  void require(std::size_t bytes, const char* what) const {
    if (bytes > size()) {
      detail::throw_error<Error>({"penstock: ", what, " needs a workspace of ", bytes,
                                  " bytes and was given ", size(),
                                  ": make it with Workspace{device, ", bytes, "}, or by workspace(",
                                  bytes, ") of a Scratch's frame."});
    }
  }

 private:
  detail::Allocation allocation_; // empty if somebody else owns the memory
  void* data_;
  std::size_t size_;
};

} // namespace penstock
