// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

namespace penstock {

struct Report;

/// Looks at a run more closely than a Report does by itself, since looking costs:
/// `pipeline.run({.observe = &observer})`. HostObserver (host_observer.hpp) tells which processor
/// time was taken away, and GpuObserver (cuda/gpu_observer.hpp) what the GPU did. It must outlive
/// the run, and observes one run at a time.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  /// Called on the thread that runs the pipeline, before the run begins; what it throws ends the
  /// run before anything is read.
  virtual void begin() = 0;
  /// Called on that thread when the run has ended, however it did, to add to its Report; also if
  /// the run could not begin after begin(), with an empty one. A FanOut's run may end on another
  /// thread, and a run that not all loops joined ends when the FanOut dies. Must not throw.
  virtual void end(Report& report) noexcept = 0;
};

} // namespace penstock
