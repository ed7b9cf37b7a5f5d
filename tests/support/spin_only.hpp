// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/parking.hpp>

namespace penstock::tests {

/// Waiters spin and never sleep, so that rings publish by a plain store.
struct SpinOnly : SpinThenFutex {
  static constexpr bool sleeps = false;
};

} // namespace penstock::tests
