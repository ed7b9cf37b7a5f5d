// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>

namespace penstock {

/// How many threads a side has. With `one`, one thread at a time makes all calls of the side and of
/// its leases: this saves what several threads must do to agree on each slot.
enum class Side : bool { one, many };

/// What of a ring's sides is known when it is compiled: `one_to_one`, or that a side is
/// `with_many`. A ring of which it is known compiles in half the time; its constructor must be told
/// the same.
enum class RingKind : std::uint8_t { any, one_to_one, with_many };

/// The state that both sides of a ring see. `ended`: no ticket from the end on will be published.
/// `stopped` and `failed`: neither side is handed anything more.
enum class Flow : std::uint8_t { open, ended, stopped, failed };

/// How a slot was filled: `partial` ends a run of adjacent slots, takers pass over `none`.
enum class Fill : std::uint8_t { full = 1, partial = 2, none = 3 };

/// Whether a taker passes over empty slots, or gets them too, to keep step with another ring.
enum class Empties : bool { pass_over, give };

} // namespace penstock
