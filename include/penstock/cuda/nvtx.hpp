// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Include this anywhere in a program, and Nsight Systems and other tools that know NVTX show what
// its pipelines do: one range for each thing that a stage does, on the thread that does it, in the
// domain "penstock". The range's name is the stage's, so that tools can sum up by stage; its
// payload is the number of the first record. Waiting has no range. Without a tool a range costs
// some nanoseconds. It needs CUDA's headers alone: no library and no GPU.

#include <penstock/atomics.hpp>
#include <penstock/detail/measure/trace.hpp>

#include <cstdint>

#include <nvtx3/nvToolsExt.h>

namespace penstock::detail {

/// Returns the domain. The first range makes it, not the program's start: the first call of NVTX
/// loads the tool.
inline nvtxDomainHandle_t nvtx_domain() noexcept {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("penstock");
  return domain;
}

inline void nvtx_begin(const char* stage, std::uint64_t record) noexcept {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = stage;
  range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  range.payload.ullValue = record;
  nvtxDomainRangePushEx(nvtx_domain(), &range);
}
inline void nvtx_end() noexcept {
  nvtxDomainRangePop(nvtx_domain());
}

inline constexpr TraceHooks nvtx_hooks{nvtx_begin, nvtx_end};

/// Registers the hooks before main() begins, once however many files include this.
inline const bool nvtx_registered = [] {
  trace_hooks.store(&nvtx_hooks, StdAtomics::relaxed);
  return true;
}();

} // namespace penstock::detail
