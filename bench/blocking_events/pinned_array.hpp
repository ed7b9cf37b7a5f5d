// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/device/device.hpp>

#include <cstddef>
#include <span>

namespace penstock_bench {

/// `size` zeroed Ts in page-locked memory, for the ways by hand. Must not outlive the device.
template <class T, penstock::AnyDevice D> class PinnedArray {
 public:
  PinnedArray(D& device, std::size_t size)
      : device_{device}, size_{size}, bytes_{(size * sizeof(T) + 4095) / 4096 * 4096},
        data_{static_cast<T*>(device.allocate_pinned(bytes_))} {}
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  ~PinnedArray() { device_.deallocate_pinned(data_, bytes_); }

  T* data() const noexcept { return data_; }
  std::span<T> span() const noexcept { return {data_, size_}; }

 private:
  D& device_;
  std::size_t size_;
  std::size_t bytes_;
  T* data_;
};

} // namespace penstock_bench
