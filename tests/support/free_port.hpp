// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/ranks/meeting_place.hpp>
#include <penstock/detail/ranks/socket.hpp>
#include <penstock/error.hpp>

#include <cstdint>

#include <unistd.h>

namespace penstock::tests {

/// Returns a port at which nobody listens, another one at each call. Programs begin at different
/// ones, below those that connections get.
inline std::uint16_t free_port() {
  static std::uint32_t next = static_cast<std::uint32_t>(::getpid()) * 64;
  for (;;) {
    detail::MeetingPlace place;
    place.port = static_cast<std::uint16_t>(10'000 + next++ % 20'000);
    place.here = true;
    try {
      detail::listen_at(place);
      return place.port;
    } catch (const Error&) {
      continue;
    }
  }
}

} // namespace penstock::tests
