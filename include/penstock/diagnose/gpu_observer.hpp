// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What does a run ask of the GPU, and what does the GPU do? It needs CUPTI, which comes with the
// CUDA toolkit, and -lcupti.

#include <penstock/detail/measure/calls_here.hpp>
#include <penstock/diagnose/activity.hpp>
#include <penstock/diagnose/copied_memory.hpp>
#include <penstock/diagnose/detail/cupti_calls.hpp>
#include <penstock/diagnose/host_observer.hpp>
#include <penstock/run/report.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>

namespace penstock {

namespace detail {

/// Notes the calls that callables make, where calls_here says.
class CallsOfCallables final : public CallListener {
  using Clock = std::chrono::steady_clock;

 public:
  static CallsOfCallables& only() {
    static CallsOfCallables& listener = *new CallsOfCallables;
    return listener;
  }

  void enter(const SeenCall& call) noexcept override {
    CallCounts* const counts = counts_here();
    if (counts == nullptr) {
      return;
    }
    now = {counts, call.kind == CudaCall::copy ? pageable_bytes(call) : 0, {}};
    now.begin = Clock::now();
  }
  void leave(const SeenCall& call) noexcept override {
    CallCounts* const counts = now.counts;
    now.counts = nullptr;
    if (counts == nullptr || counts != calls_here || call.kind == CudaCall::other) {
      return;
    }
    const auto ns = (Clock::now() - now.begin) / std::chrono::nanoseconds{1};
    counts->add(kind_of(call.kind), static_cast<std::uint64_t>(ns), now.pageable_bytes);
  }

 private:
  struct Now {
    CallCounts* counts;
    std::uint64_t pageable_bytes;
    Clock::time_point begin;
  };
  inline static constinit thread_local Now now{};

  CallsOfCallables() = default;

  static CallKind kind_of(CudaCall kind) noexcept {
    switch (kind) {
    case CudaCall::launch:
      return CallKind::launch;
    case CudaCall::wait:
      return CallKind::wait;
    case CudaCall::copy:
      return now.pageable_bytes != 0 ? CallKind::pageable_copy : CallKind::copy;
    default:
      return CallKind::allocation;
    }
  }
};

} // namespace detail

/// Observes runs with CUPTI: `pipeline.run({.observe = &observer})`. The Report then says what
/// callables asked of CUDA (StageReport::calls), what the GPU did (Report::gpu), and what
/// HostObserver tells.
///
/// A call counts once, whatever CUDA's runtime calls for it; a call that is captured into a graph
/// counts when it is captured. Batches of copies count as copies of page-locked memory. It makes
/// calls and launches slower: time in one run, and observe in another. It keeps 32 bytes for each
/// kernel and copy of the run. Only one may be at work, and no GpuActivity, Watch or other profiler
/// in the process.
class GpuObserver : public HostObserver {
 public:
  /// Observes GPU `device`, as CUDA numbers them; calls count whatever their device.
  explicit GpuObserver(int device = 0) : device_{device} {}

  /// Throws CudaError, CuptiError, Error or std::bad_alloc if it cannot look on, and then holds
  /// nothing of CUPTI's.
  void begin() override {
    detail::CallSubscription::only().start(detail::CallsOfCallables::only());
    try {
      activity_.emplace(device_);
      HostObserver::begin();
    } catch (...) {
      activity_.reset();
      detail::CallSubscription::only().stop();
      throw;
    }
  }
  void end(Report& report) noexcept override {
    HostObserver::end(report);
    detail::CallSubscription::only().stop();
    try {
      report.gpu = activity_->stop();
    } catch (const std::exception&) { // the Report says so by having none
    }
    activity_.reset();
  }

 private:
  int device_;
  std::optional<GpuActivity> activity_;
};

} // namespace penstock
