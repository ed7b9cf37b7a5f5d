// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#if !__has_include(<cupti.h>)
#error                                                                                             \
    "penstock/diagnose/activity.hpp needs CUPTI: install cuda-cupti-dev, or -I extras/CUPTI/include."
#include "penstock: see the error above" // no such file
#endif
#include <cupti.h>

namespace penstock {

/// A call of CUPTI failed.
class CuptiError : public DeviceError {
 public:
  /// `call` is the function's name.
  CuptiError(const std::string& what, std::string call, CUptiResult status)
      : DeviceError{what, std::move(call), static_cast<int>(status), false} {}
  /// Returns CUPTI's error.
  CUptiResult status() const noexcept { return static_cast<CUptiResult>(code()); }
};

namespace detail {

inline const char* cupti_cure(CUptiResult status) noexcept {
  switch (status) {
  case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
  case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
    return "This user may not profile: run as root (a container: --cap-add=SYS_ADMIN), or load the "
           "driver with NVreg_RestrictProfilingToAdminUsers=0.";
  case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
  case CUPTI_ERROR_HARDWARE_BUSY:
    return "Another profiler is at work in this process (Nsight, a debugger, a framework's): run "
           "without it.";
  default:
    return "libcupti.so must be the one of the CUDA that this was compiled with, the driver no "
           "older, and the GPU one that may be traced.";
  }
}

/// Checks the status of a call of CUPTI: throws CuptiError unless it is CUPTI_SUCCESS.
inline void cupti_check(CUptiResult status, const char* call) {
  if (status != CUPTI_SUCCESS) {
    const char* name = nullptr;
    if (cuptiGetResultString(status, &name) != CUPTI_SUCCESS || name == nullptr) {
      name = "an error without a name";
    }
    throw CuptiError{std::string{"penstock: "} + call + " failed: " + name + " (" +
                         std::to_string(static_cast<int>(status)) + "). " + cupti_cure(status),
                     call, status};
  }
}

} // namespace detail
} // namespace penstock

namespace penstock::detail {

/// A call of CUDA in progress, as a program made it: not one that CUDA's runtime makes of the
/// driver to do it.
struct SeenCall {
  CUpti_CallbackDomain domain{};
  CUpti_CallbackId id{};
  CudaCall kind{};
  const CUpti_CallbackData* data{}; ///< Valid until the listener returns.
};

/// Hears of the calls of CUDA that any thread makes, on that thread. It is never destroyed, since a
/// call may end after the listening has.
class CallListener {
 public:
  virtual void enter(const SeenCall& call) noexcept = 0;
  virtual void leave(const SeenCall& call) noexcept = 0;

 protected:
  ~CallListener() = default;
};

/// The process's one subscription to CUPTI's callbacks.
class CallSubscription {
  template <class T> using Atomic = StdAtomics::Atomic<T>;
  static constexpr auto relaxed = StdAtomics::relaxed;

 public:
  /// Returns it; it is never destroyed.
  static CallSubscription& only() {
    static CallSubscription& subscription = *new CallSubscription;
    return subscription;
  }

  /// Throws CuptiError if another profiler has subscribed, or this one already.
  void start(CallListener& listener) {
    cupti_check(cuptiSubscribe(&subscriber_, on_call, this), "cuptiSubscribe");
    find_names(CUPTI_CB_DOMAIN_RUNTIME_API);
    find_names(CUPTI_CB_DOMAIN_DRIVER_API);
    round_.fetch_add(1, relaxed);
    // Pairs with the load in on_call(): the listener is complete.
    listener_.store(&listener, StdAtomics::release);
    for (const CUpti_CallbackDomain domain :
         {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API}) {
      if (const CUptiResult enabled = cuptiEnableDomain(1, subscriber_, domain);
          enabled != CUPTI_SUCCESS) {
        stop();
        cupti_check(enabled, "cuptiEnableDomain");
      }
    }
  }
  void stop() noexcept {
    ignore();
    cuptiUnsubscribe(subscriber_);
  }
  /// Hears nothing from now on, and leaves CUPTI alone: in a forked child.
  void ignore() noexcept { listener_.store(nullptr, relaxed); }
  /// Returns a function's name, without its version.
  static const char* name_of(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept {
    const char* name = nullptr;
    return cuptiGetCallbackName(domain, id, &name) == CUPTI_SUCCESS && name != nullptr ? name : "";
  }

  /// While it lives, this thread's calls are not heard. Listeners are always called so: what they
  /// call, and an operator new of the program's that calls CUDA, would come back to them.
  class Deaf {
   public:
    Deaf() noexcept : before_{std::exchange(deaf, true)} {}
    Deaf(const Deaf&) = delete;
    Deaf& operator=(const Deaf&) = delete;
    ~Deaf() { deaf = before_; }

   private:
    const bool before_;
  };

  /// More than CUPTI has numbers in a domain.
  static constexpr std::size_t most_ids = 1024;

 private:
  /// How deep a thread is in calls, since it was first heard in a round of listening.
  struct Depth {
    std::uint32_t round;
    std::uint32_t calls;
  };
  inline static constinit thread_local Depth depth{};
  inline static constinit thread_local bool deaf = false;

  CallSubscription() = default;

  void find_names(CUpti_CallbackDomain domain) noexcept {
    for (std::uint32_t id = 0; id != most_ids; ++id) {
      kinds_[domain == CUPTI_CB_DOMAIN_DRIVER_API ? 1 : 0][id] = cuda_call(name_of(domain, id));
    }
  }

  static void CUPTIAPI on_call(void* self, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                               const void* data) {
    auto& here = *static_cast<CallSubscription*>(self);
    // Pairs with the store in start().
    CallListener* const listener = here.listener_.load(StdAtomics::acquire);
    if (listener == nullptr || deaf || id >= most_ids) {
      return;
    }
    const auto* const call = static_cast<const CUpti_CallbackData*>(data);
    const std::uint32_t round = here.round_.load(relaxed);
    if (depth.round != round) {
      depth = {round, 0};
    }
    const SeenCall seen{domain, id, here.kinds_[domain == CUPTI_CB_DOMAIN_DRIVER_API ? 1 : 0][id],
                        call};
    const Deaf while_it_listens;
    if (call->callbackSite == CUPTI_API_ENTER) {
      if (depth.calls++ == 0) {
        listener->enter(seen);
      }
    } else if (depth.calls != 0 && --depth.calls == 0) { // 0: it was entered before the listening
      listener->leave(seen);
    }
  }

  CUpti_SubscriberHandle subscriber_{};
  Atomic<CallListener*> listener_{nullptr};
  Atomic<std::uint32_t> round_{0};
  std::array<std::array<CudaCall, most_ids>, 2> kinds_{};
};

} // namespace penstock::detail
