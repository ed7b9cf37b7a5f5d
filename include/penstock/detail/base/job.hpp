// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <concepts>
#include <utility>

namespace penstock::detail {

/// A callable of no arguments, kept to be called once or often: one type for all, since what takes
/// one, as std::thread does, is compiled anew for each. A std::function has to be copied too, and
/// takes a dozen functions for each callable, where this takes two.
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
  void (*use_)(void* callable, bool call); // or else delete
};

} // namespace penstock::detail
