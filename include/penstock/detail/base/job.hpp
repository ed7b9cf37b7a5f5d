// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <concepts>
#include <utility>

namespace penstock::detail {

/// What a thread runs: a callable without arguments, of one type for all, since std::thread is
/// compiled anew for each type. A std::function must be copyable too, and compiles a dozen
/// functions for each callable; this compiles two.
class Job {
 public:
  template <class F>
    requires(!std::same_as<F, Job>)
  Job(F f)
      : callable_{new F{std::move(f)}}, use_{[](void* callable, bool call) {
          F* const kept = static_cast<F*>(callable);
          if (call) {
            (*kept)();
          } else {
            delete kept;
          }
        }} {}
  Job(Job&& other) noexcept
      : callable_{std::exchange(other.callable_, nullptr)}, use_{other.use_} {}
  Job& operator=(Job&&) = delete;
  ~Job() {
    if (callable_) {
      use_(callable_, false);
    }
  }

  void operator()() const { use_(callable_, true); }

 private:
  void* callable_;
  void (*use_)(void* callable, bool call); // else it deletes it
};

} // namespace penstock::detail
