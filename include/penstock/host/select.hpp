// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/workspace.hpp>
#include <penstock/host/device.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

// Work on a host stream, with the signatures that cuda/select.cuh has for a cudaStream_t. What
// host/algorithm.hpp says of its algorithms holds for these too.
namespace penstock {

/// Copies those of in[0] to in[n - 1] for which `predicate` is true, in their order, to the front
/// of `out`, and writes their number to *count. All are device memory, and must not overlap; `out`
/// has room for n. `predicate(const T&)` is copied, and must not throw.
template <class T, class Predicate>
void select(HostStream& stream, const T* in, std::size_t n, Predicate predicate, T* out,
            std::uint64_t* count, Workspace<HostDevice>&) {
  stream.enqueue([in, n, predicate = std::move(predicate), out, count] {
    std::uint64_t selected = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (predicate(in[i])) {
        out[selected++] = in[i];
      }
    }
    *count = selected;
  });
}

} // namespace penstock
