// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/device/device.hpp>

namespace penstock::detail {

/// The check of a device whose calls all throw by themselves.
struct NoLaunchCheck {
  static void begin() noexcept {}
  static void check(const char*) noexcept {}
  static void forget() noexcept {}
};
template <class D> struct launch_check_of {
  using type = NoLaunchCheck;
};
template <class D>
  requires requires { typename D::launch_check_type; }
struct launch_check_of<D> {
  using type = typename D::launch_check_type;
};
/// The device's check for launches that failed without a word: begin(), check(), forget().
template <AnyDevice D> using LaunchCheck = typename launch_check_of<D>::type;

/// Calls a stage's callable; throws what the callable throws, or an error if a launch in it failed.
template <class Check, class F> void call_checked(Check& launches, F f) {
  try {
    f();
  } catch (...) {
    launches.forget();
    throw;
  }
  launches.check("the stage's callable");
}

} // namespace penstock::detail
