// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace penstock::tests {

/// A call of NVTX, as the tool in nvtx_injection.cpp saw it.
struct NvtxCall {
  enum What : std::uint8_t { domain_create, push, pop };

  What what{};
  /// A domain's or a range's name.
  std::array<char, 32> text{};
  std::uint64_t payload{};
  /// The number of its domain, from 1 on: 0 is the default one.
  std::uint64_t domain{};
  std::thread::id thread;
};

/// All calls since the program began; calls for which there is no room are counted and not kept.
struct NvtxCalls {
  std::array<NvtxCall, 1024> calls;
  std::atomic<std::size_t> count{0};
  std::atomic<std::size_t> domains{0};
  /// How many calls were not as NVTX demands.
  std::atomic<std::size_t> wrong{0};
};

/// The function that the tool exports to the test, as "nvtx_calls".
using NvtxCallsFunction = NvtxCalls*();

} // namespace penstock::tests
