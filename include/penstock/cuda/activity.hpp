// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How busy is the GPU? For any program, with a pipeline in it or not. It needs CUPTI, which comes
// with the CUDA toolkit, and -lcupti.

#include <penstock/cuda/activity_summary.hpp>
#include <penstock/cuda/detail/cupti.hpp>
#include <penstock/cuda/device.hpp>
#include <penstock/cuda/error.hpp>
#include <penstock/error.hpp>

#include <exception>
#include <string>

#include <cuda_runtime_api.h>

namespace penstock {

/// Records when one GPU runs kernels and copies, whoever launches them in this process, from its
/// making until stop(). Kernels of a graph are seen one by one. It makes launches slower, so time
/// and watch in two runs; and it keeps 32 bytes for each kernel and copy.
///
/// One at a time may record, and no other profiler in the process. Calls throw CudaError,
/// CuptiError or Error. Not for several threads at once.
class GpuActivity {
 public:
  /// Records what GPU `device`, as CUDA counts them, begins from now on. Waits for nothing: what
  /// was given to it before is to be done, or is in it.
  explicit GpuActivity(int device = 0) {
    const detail::AttachedDevice here{device}; // if there is one of that number
    detail::ActivityLog::only().start(device);
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

  /// Ends the recording and sums up all of it; called again it gives the same. Waits for no work of
  /// the GPU, since somebody may capture a graph meanwhile: wait for your streams first, as run()
  /// does for its own. What is not done counts as dropped, or is missing.
  GpuActivitySummary stop() {
    if (recording_) {
      recording_ = false;
      CUptiResult flushed = CUPTI_SUCCESS;
      records_ = detail::ActivityLog::only().stop(flushed);
      detail::cupti_check(flushed, "cuptiActivityFlushAll");
    }
    return between(0, 1);
  }

  /// After stop(): a part of the recording, from one fraction of its span to another. So
  /// `between(0.05, 0.95)` is the steady state of a run, without how it begins and ends.
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
