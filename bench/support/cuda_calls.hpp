// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/diagnose/detail/cupti.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <cupti.h>

namespace penstock_bench {

/// Counts and times the calls of CUDA's runtime by all threads of the process while it lives, by
/// CUPTI's callbacks, which make calls slower. One at a time.
class CudaCalls {
 public:
  /// The number and time of some calls.
  struct Sum {
    std::uint64_t calls{};
    double us{};
  };

  CudaCalls() {
    penstock::detail::cupti_check(cuptiSubscribe(&subscriber_, on_call, this), "cuptiSubscribe");
    const CUptiResult enabled = cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API);
    if (enabled != CUPTI_SUCCESS) {
      cuptiUnsubscribe(subscriber_);
      penstock::detail::cupti_check(enabled, "cuptiEnableDomain");
    }
  }
  CudaCalls(const CudaCalls&) = delete;
  CudaCalls& operator=(const CudaCalls&) = delete;
  ~CudaCalls() { cuptiUnsubscribe(subscriber_); }

  /// Returns the sum of the calls for whose name, such as cudaEventQuery_v3020, `fits` returns
  /// true.
  template <class Fits> Sum of(Fits fits) const {
    Sum sum;
    for (std::uint32_t id = 0; id < calls_.size(); ++id) {
      const char* name = nullptr;
      if (calls_[id].count.load(Atomics::relaxed) != 0 &&
          cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, id, &name) == CUPTI_SUCCESS &&
          fits(std::string_view{name})) {
        sum.calls += calls_[id].count.load(Atomics::relaxed);
        sum.us += static_cast<double>(calls_[id].ns.load(Atomics::relaxed)) / 1e3;
      }
    }
    return sum;
  }

 private:
  using Atomics = penstock::StdAtomics;

  struct Call {
    Atomics::Atomic<std::uint64_t> count{0};
    Atomics::Atomic<std::uint64_t> ns{0};
  };

  static std::uint64_t now() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                      std::chrono::nanoseconds{1});
  }
  static void CUPTIAPI on_call(void* self, CUpti_CallbackDomain, CUpti_CallbackId id,
                               const void* data) {
    const std::uint64_t at = now();
    const auto* const call = static_cast<const CUpti_CallbackData*>(data);
    auto& calls = static_cast<CudaCalls*>(self)->calls_;
    if (call->callbackSite == CUPTI_API_EXIT && id < calls.size()) {
      calls[id].count.fetch_add(1, Atomics::relaxed);
      calls[id].ns.fetch_add(at - *call->correlationData, Atomics::relaxed);
    } else {
      *call->correlationData = now(); // leaves out the time of this callback
    }
  }

  CUpti_SubscriberHandle subscriber_{};
  std::array<Call, 1024> calls_; // by the callback's number
};

} // namespace penstock_bench
