// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How busy is the GPU? For any program, with or without a pipeline. It needs CUPTI, which comes
// with the CUDA toolkit, and -lcupti.

#include <penstock/cuda/device.hpp>
#include <penstock/cuda/error.hpp>
#include <penstock/diagnose/detail/activity_intervals.hpp>
#include <penstock/diagnose/detail/cupti.hpp>
#include <penstock/error.hpp>

#include <cstdint>
#include <exception>
#include <string>

#include <cuda_runtime_api.h>

namespace penstock {

/// A recording of when one GPU runs kernels and copies, whoever launches them in this process, from
/// construction until stop(). It sees each kernel of a graph. It makes launches slower, so time and
/// record in two runs; and it keeps 32 bytes for each kernel and copy.
///
/// Only one may record at a time, and no other profiler in the process. Calls throw CudaError,
/// CuptiError or Error. For one thread at a time.
class GpuActivity {
 public:
  /// Records what GPU `device`, as CUDA numbers them, begins from now on. Waits for nothing:
  /// earlier work must be done, or it is in the recording.
  explicit GpuActivity(int device = 0) {
    // Throws if there is none of that number. What attaching alone sets up may not stay so.
    detail::cuda_check(cudaInitDevice(device, 0, 0), "cudaInitDevice");
    const detail::AttachedDevice here{device};
    detail::ActivityLog::only().start(static_cast<std::uint32_t>(device));
  }
  GpuActivity(const GpuActivity&) = delete;
  GpuActivity& operator=(const GpuActivity&) = delete;
  /// Does what stop() does, and never throws.
  ~GpuActivity() {
    try {
      stop();
    } catch (const std::exception&) { // nobody asked for what is lost
    }
  }

  /// Ends the recording and sums up all of it; a second call returns the same. Does not wait for
  /// the GPU, since another thread may be capturing a graph: wait for your streams first, as run()
  /// does for its own. Work that is not done counts as dropped, or is missing.
  GpuActivitySummary stop() {
    if (recording_) {
      recording_ = false;
      CUptiResult flushed = CUPTI_SUCCESS;
      records_ = detail::ActivityLog::only().stop(flushed);
      detail::cupti_check(flushed, "cuptiActivityFlushAll");
    }
    return between(0, 1);
  }

  /// Sums up a part of the recording, from one fraction of its span to another; call stop() first.
  /// `between(0.05, 0.95)` is the steady state of a run, without its beginning and end.
  GpuActivitySummary between(double first, double last) const {
    if (recording_) {
      throw Error{"penstock: GpuActivity::between(): it is still recording: stop() it first."};
    }
    if (!(0 <= first && first < last && last <= 1)) {
      throw OptionError{"penstock: GpuActivity::between(" + std::to_string(first) + ", " +
                        std::to_string(last) +
                        "): the bounds are fractions of the recording, the first one less than "
                        "the last: 0 <= first < last <= 1."};
    }
    GpuActivitySummary sum = detail::summarize(records_.intervals, first, last);
    sum.dropped = records_.dropped;
    return sum;
  }

 private:
  bool recording_{true};
  detail::ActivityLog::Records records_;
};

} // namespace penstock
