// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where does a loop's time go, and which page has the cure? For any program, with or without a
// pipeline. It needs CUPTI, which comes with the CUDA toolkit, and -lcupti.

#include <penstock/cuda/detail/current_device.hpp>
#include <penstock/cuda/error.hpp>
#include <penstock/diagnose/watch_log.hpp>
#include <penstock/gpu_watch_text.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

#include <cuda_runtime_api.h>

namespace penstock {

/// Watches, from construction until stop(), what all threads of the process ask of CUDA and what
/// one GPU does. `std::cout << watch.stop()` prints what held the GPU back, what it cost, and which
/// page has the cure.
///
/// If the program calls cudaProfilerStart(), only what lies between that and cudaProfilerStop()
/// counts. A Watch makes each call of CUDA slower by a microsecond or so. It sums up as it goes,
/// and takes less than 100 MB of memory, however long it lasts. Only one may be at work, and no
/// GpuActivity, GpuObserver or other profiler in the process. Calls throw CudaError, CuptiError or
/// Error. For one thread at a time.
class Watch {
 public:
  /// Watches GPU `device`, as CUDA numbers them. Waits for nothing: earlier work must be done, or
  /// it is in the recording.
  explicit Watch(int device = 0) {
    // Throws if there is none of that number. What attaching alone sets up may not stay so.
    detail::cuda_check(cudaInitDevice(device, 0, 0), "cudaInitDevice");
    const detail::AttachedDevice here{device};
    std::size_t free = 0;
    std::size_t all = 0;
    detail::cuda_check(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
    memory_ = all;
    bytes_per_s_ = memory_bytes_per_s(device);
    detail::WatchLog::only().start(static_cast<std::uint32_t>(device));
    detail::WatchLog::only().had_device_memory(all - free);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// Does what stop() does, and never throws.
  ~Watch() {
    try {
      stop();
    } catch (const std::exception&) { // nobody asked for what is lost
    }
  }

  /// Ends the watch and sums it up; a second call returns the same. Does not wait for the GPU: wait
  /// for your streams first.
  const WatchSummary& stop() {
    if (watching_) {
      watching_ = false;
      summary_ = detail::WatchLog::only().stop();
      summary_.device_memory = memory_;
      summary_.memory_bytes_per_s = bytes_per_s_;
    }
    return summary_;
  }

 private:
  /// What the memory can do by its clock and width: two transfers a cycle.
  static double memory_bytes_per_s(int device) {
    int khz = 0;
    int bits = 0;
    detail::cuda_check(cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, device),
                       "cudaDeviceGetAttribute");
    detail::cuda_check(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device),
                       "cudaDeviceGetAttribute");
    return 2e3 * khz * bits / 8;
  }

  std::uint64_t memory_{};
  double bytes_per_s_{};
  bool watching_{true};
  WatchSummary summary_;
};

/// Calls f() under a Watch of GPU `device` and returns its summary. f() must wait for the work that
/// it enqueues.
template <class F> WatchSummary watch(F&& f, int device = 0) {
  Watch watch{device};
  std::forward<F>(f)();
  return watch.stop();
}

} // namespace penstock
