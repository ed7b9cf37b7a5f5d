// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/stage_report.hpp>

#include <cstddef>

namespace penstock::detail {

/// Reports a ring of so many slots in this memory as the one that a stage fills.
[[gnu::cold]] inline void report_ring(const RingMemory& memory, std::size_t slots,
                                      StageReport& stage) noexcept {
  stage.depth = slots;
  stage.slot_bytes = memory.layout().bytes();
  stage.ring_bytes = memory.bytes();
  stage.ring_memory = memory.kind();
}

} // namespace penstock::detail
