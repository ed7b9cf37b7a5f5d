// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/workspace.hpp>
#include <penstock/config.hpp>
#include <penstock/host/device.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

// Work on a host stream, with the signatures that cuda/algorithm.cuh has for a cudaStream_t: code
// for both devices calls these by their names alone. All return at once, run in the stream's order
// and throw DeviceError if the device has broken down. The memory behind pointers must outlive the
// work.
namespace penstock {

/// Calls f(i) for each i from 0 to n - 1, in no order to rely on, as on a GPU. `f` is copied, and
/// must not throw.
template <class F> void for_each(HostStream& stream, std::size_t n, F f) {
  if (n == 0) {
    return;
  }
  stream.enqueue([n, f = std::move(f)]() mutable {
    for (std::size_t i = 0; i < n; ++i) {
      f(i);
    }
  });
}

/// Sets *out to op over `init` and in[0] to in[n - 1], each made an R; `in` and `out` are device
/// memory. `op(R, R)` must be associative and commutative: a GPU groups and orders as it likes.
template <class T, class R, class Op>
void reduce(HostStream& stream, const T* in, std::size_t n, R* out, R init, Op op,
            Workspace<HostDevice>&) {
  stream.enqueue([in, n, out, init = std::move(init), op = std::move(op)]() mutable {
    R all = init; // a copy: captured work runs more than once
    for (std::size_t i = 0; i < n; ++i) {
      all = op(std::move(all), static_cast<R>(in[i]));
    }
    *out = std::move(all);
  });
}

namespace detail {

inline constexpr std::size_t byte_values = 256;
/// How many tables have partial counts of the byte values, for bytes at different places:
/// neighbours are often equal, and counting both in one table would make each addition wait for the
/// last.
inline constexpr std::size_t histogram_tables = 4;

void count_bytes(const std::uint8_t* in, std::size_t n, std::uint64_t* counts,
                 std::uint64_t* tables) noexcept;

#if PENSTOCK_BODIES
PENSTOCK_INLINE void count_bytes(const std::uint8_t* in, std::size_t n, std::uint64_t* counts,
                                 std::uint64_t* tables) noexcept {
  std::array<std::uint64_t*, histogram_tables> table;
  for (std::size_t k = 0; k < histogram_tables; ++k) {
    table[k] = tables + k * byte_values;
    std::fill_n(table[k], byte_values, 0);
  }
  std::size_t i = 0;
  for (std::uint64_t word; n - i >= sizeof word; i += sizeof word) {
    std::memcpy(&word, in + i, sizeof word);
    for (std::size_t k = 0; k < sizeof word; ++k) {
      ++table[k % histogram_tables][(word >> (8 * k)) & 0xFF];
    }
  }
  for (; i < n; ++i) {
    ++table[0][in[i]];
  }
  for (std::size_t value = 0; value < byte_values; ++value) {
    for (std::size_t k = 0; k < histogram_tables; ++k) {
      counts[value] += table[k][value];
    }
  }
}
#endif

} // namespace detail

/// Adds to counts[v] how often each byte value v occurs in in[0] to in[n - 1]; both are device
/// memory, `counts` 256 numbers. Throws Error if the workspace has less than the 8 KiB it needs.
void histogram(HostStream& stream, const std::uint8_t* in, std::size_t n, std::uint64_t* counts,
               Workspace<HostDevice>& workspace);

#if PENSTOCK_BODIES
PENSTOCK_INLINE void histogram(HostStream& stream, const std::uint8_t* in, std::size_t n,
                               std::uint64_t* counts, Workspace<HostDevice>& workspace) {
  using namespace detail;
  workspace.require(histogram_tables * byte_values * sizeof(std::uint64_t), "histogram");
  stream.enqueue([in, n, counts, tables = static_cast<std::uint64_t*>(workspace.data())] {
    count_bytes(in, n, counts, tables);
  });
}
#endif

} // namespace penstock

// Work on a host stream, with the signatures that cuda/algorithm.cuh has for a cudaStream_t. What
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
