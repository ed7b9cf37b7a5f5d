// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace penstock_bench {

#if defined(__CUDACC__)
using Gpu = penstock::CudaDevice;
#else
using Gpu = penstock::HostDevice; // each pretends to have a bus of its own
#endif
using GpuStream = penstock::Stream<Gpu>;
using OwnStream = Gpu::stream_type;

/// The first GPUs of the machine, each with its number.
class Devices {
 public:
  explicit Devices(std::size_t count) {
    for (std::size_t i = 0; i != count; ++i) {
      devices_.push_back(make(i));
    }
  }

  /// Returns how many the process can have.
  static std::size_t count() {
#if defined(__CUDACC__)
    return static_cast<std::size_t>(Gpu::count());
#else
    return 2;
#endif
  }
  static std::unique_ptr<Gpu> make([[maybe_unused]] std::size_t number) {
#if defined(__CUDACC__)
    return std::make_unique<Gpu>(static_cast<int>(number));
#else
    return std::make_unique<Gpu>(penstock::HostOptions{.to_device_bytes_per_s = 1e9});
#endif
  }
  std::size_t size() const { return devices_.size(); }
  Gpu& operator[](std::size_t number) const { return *devices_[number]; }
  std::vector<Gpu*> first(std::size_t count) const {
    std::vector<Gpu*> some;
    for (std::size_t i = 0; i != count; ++i) {
      some.push_back(devices_[i].get());
    }
    return some;
  }

 private:
  std::vector<std::unique_ptr<Gpu>> devices_;
};

/// Memory of a device, or page-locked for it.
/// @{
class OnDevice {
 public:
  OnDevice(Gpu& device, std::size_t bytes)
      : device_{device}, bytes_{bytes}, at_{static_cast<std::uint8_t*>(device.allocate(bytes))} {}
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { device_.deallocate(at_, bytes_); }
  std::uint8_t* get() const { return at_; }

 private:
  Gpu& device_;
  std::size_t bytes_;
  std::uint8_t* at_;
};
class PinnedMemory {
 public:
  PinnedMemory(Gpu& device, std::size_t bytes)
      : device_{device}, bytes_{bytes},
        at_{static_cast<std::uint8_t*>(device.allocate_pinned(bytes))} {}
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() { device_.deallocate_pinned(at_, bytes_); }
  std::uint8_t* get() const { return at_; }

 private:
  Gpu& device_;
  std::size_t bytes_;
  std::uint8_t* at_;
};
/// @}

/// Adds every lanes-th word to one sum. Not inside the class that uses it: a kernel's arguments are
/// of public types.
struct AddLane {
  const std::uint64_t* words;
  std::size_t count;
  std::size_t lanes;
  std::uint64_t* sums;
  PENSTOCK_HD void operator()(std::size_t lane) const {
    for (std::size_t i = lane; i < count; i += lanes) {
      sums[lane] += words[i];
    }
  }
};

/// Adds up what comes to a device, to be compared with what was read. Work of one stream at a time.
class Sum {
 public:
  explicit Sum(Gpu& device) : device_{device}, sums_{device, lanes} {}

  /// Enqueues the addition of `bytes` bytes, a multiple of 8, on a thread with the device attached.
  void add(const void* at, std::size_t bytes, GpuStream stream) {
    penstock::for_each(
        stream, lanes,
        AddLane{static_cast<const std::uint64_t*>(at), bytes / 8, lanes, sums_.data()});
  }
  /// Blocks until all of it is done, and returns the sum of all words.
  std::uint64_t get() {
    OwnStream stream = device_.stream();
    const std::vector<std::uint64_t> sums = sums_.read(stream);
    return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
  }

 private:
  static constexpr std::size_t lanes = 4096;

  Gpu& device_;
  penstock::DeviceArray<std::uint64_t, Gpu> sums_;
};

} // namespace penstock_bench
