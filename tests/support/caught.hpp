// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/catch.hpp"

#include <penstock/host/device.hpp>

#include <exception>
#include <optional>
#include <string>

namespace penstock::tests {

/// Returns the E that f throws; the test case fails if f throws none.
template <class E, class F> E caught(F f) {
  try {
    f();
  } catch (const E& e) {
    return e;
  }
  FAIL("nothing was thrown");
  throw 0;
}

/// Returns the E that f throws, if it throws one.
template <class E, class F> std::optional<E> thrown_by(F f) {
  try {
    f();
  } catch (const E& e) {
    return e;
  }
  return std::nullopt;
}

/// Returns whether the text of penstock's error holds `part`.
inline bool has(const std::exception& e, const std::string& part) {
  INFO(e.what());
  CHECK(std::string{e.what()}.rfind("penstock: ", 0) == 0);
  return std::string{e.what()}.find(part) != std::string::npos;
}

/// Checks that all was given back to a device but for `pinned` pieces of pinned memory.
inline void check_nothing_lives(const HostDevice& device, std::size_t pinned = 0) {
  const HostCounts counts = device.counts();
  CHECK(counts.live_allocations == 0);
  CHECK(counts.live_pinned == pinned);
  CHECK(counts.live_streams == 0);
  CHECK(counts.live_events == 0);
}

} // namespace penstock::tests
