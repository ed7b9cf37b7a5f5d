// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::tests {

/// Of so many threads that have woken others one is held up for up to 200 microseconds, as any
/// scheduler may do: orders that are rare become common. 0: none.
extern std::atomic<std::uint64_t> late_one_in;

} // namespace penstock::tests
