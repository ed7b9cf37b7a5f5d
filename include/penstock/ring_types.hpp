// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>

namespace penstock {

/// How many threads a side has. All calls of `one` are made by one thread at a time, those of its
/// leases too: this saves what several threads need to agree, for each slot.
enum class Side : bool { one, many };

/// What a ring's two sides see. `ended`: no more will be published than what there is. `stopped`
/// and `failed`: nothing more is handed out to either side.
enum class Flow : std::uint8_t { open, ended, stopped, failed };

/// How a slot was filled: `partial` ends a run of adjacent slots, `none` is passed over by takers.
enum class Fill : std::uint8_t { full = 1, partial = 2, none = 3 };

/// Whether a taker passes over empty slots, or is given them too, to keep step with another ring.
enum class Empties : bool { pass_over, give };

} // namespace penstock
