// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/diagnose/detail/activity_records.hpp>
#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/diagnose/detail/cupti_calls.hpp>
#include <penstock/diagnose/detail/watch_timeline.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/machine/usable.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include <cupti.h>
#include <sys/resource.h>

namespace penstock::detail {

/// What the process has used so far.
struct ProcessUse {
  double cpu_s{};             ///< Processor seconds, in the system too.
  std::uint64_t peak_bytes{}; ///< Most memory it had at once.
  unsigned processors{};      ///< Processors that it may use.

  static ProcessUse now() noexcept {
    ProcessUse use;
    rusage used{};
    if (getrusage(RUSAGE_SELF, &used) == 0) {
      const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
      };
      use.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
      use.peak_bytes = static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
    }
    use.processors = usable_processors();
    return use;
  }
};

/// What a watch counts from its beginning on, or from the first cudaProfilerStart(). A copy can be
/// summed up while the watch goes on.
class WatchSums {
 public:
  void add(const SeenCall& call, double seconds) noexcept {
    WatchedCalls& function = functions_[number(call.domain)][call.id];
    ++function.calls;
    function.seconds += seconds;
    loop_.add(call.kind, seconds);
  }
  /// Fills in all that is counted here, and what CUPTI's records say. `use`: what the process has
  /// used by now.
  void finish(WatchSummary& sum, const ProcessUse& use, ActivityRecords& records) {
    sum.gpu.dropped = records.dropped;
    timeline.finish(sum);
    sum.loop = loop_.later();
    for (const CUpti_CallbackDomain domain :
         {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API}) {
      for (std::uint32_t id = 0; id != CallSubscription::most_ids; ++id) {
        if (const WatchedCalls& calls = functions_[number(domain)][id]; calls.calls != 0) {
          add_function(sum, CallSubscription::name_of(domain, id), calls);
        }
      }
    }
    for (auto& [name, kernel] : records.kernels) {
      kernel.sum.sizes = kernel.sizes.size();
      sum.kernels.push_back(std::move(kernel.sum));
    }
    // Not stable_sort: clang++ warns of what g++ 12's library does in it.
    std::ranges::sort(sum.functions, [](const auto& a, const auto& b) {
      return std::tie(b.calls.seconds, a.name) < std::tie(a.calls.seconds, b.name);
    });
    std::ranges::sort(sum.kernels, [](const auto& a, const auto& b) {
      return std::tie(b.seconds, a.name) < std::tie(a.seconds, b.name);
    });
    sum.device_memory = records.device_memory;
    sum.memory_bytes_per_s = records.memory_bytes_per_s;
    sum.host_peak_bytes = use.peak_bytes;
    sum.cpu_s = use.cpu_s - before_.cpu_s;
    sum.processors = use.processors;
  }

  WatchTimeline timeline; ///< What happened when.

 private:
  static std::size_t number(CUpti_CallbackDomain domain) noexcept {
    return domain == CUPTI_CB_DOMAIN_DRIVER_API ? 1 : 0;
  }
  static void add_function(WatchSummary& sum, const char* name, const WatchedCalls& calls) {
    const std::string plain{plain_name(name)};
    const auto same = std::ranges::find(sum.functions, plain, &WatchedFunction::name);
    WatchedFunction& function = same != sum.functions.end()
                                    ? *same
                                    : sum.functions.emplace_back(WatchedFunction{plain, {}});
    const auto add = [&](WatchedCalls& to) {
      to.calls += calls.calls;
      to.seconds += calls.seconds;
    };
    add(function.calls);
    switch (cuda_call(name)) {
    case CudaCall::launch:
      return add(sum.launches);
    case CudaCall::wait:
      return add(sum.waits);
    case CudaCall::page_lock:
      add(sum.page_locks);
      return add(sum.allocations);
    case CudaCall::allocation:
      return add(sum.allocations);
    case CudaCall::release:
      return add(sum.releases);
    case CudaCall::copy:
      return add(sum.copies);
    case CudaCall::other:
      return;
    }
  }

  std::array<std::array<WatchedCalls, CallSubscription::most_ids>, 2> functions_{};
  LoopCalls loop_;
  ProcessUse before_{ProcessUse::now()};
};

} // namespace penstock::detail
