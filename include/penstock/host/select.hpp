// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/host/device.hpp>
#include <penstock/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

// Work on a host stream, with the signatures that cuda/select.cuh has for a cudaStream_t: what
// algorithm.hpp says of its algorithms holds for these.
namespace penstock {

/// out[i] = in[0] + ... + in[i - 1], added up as R, and 0 for the first; both are device memory, of
/// n elements. `out` may be `in` if T is R; else they must not overlap. How sums of floating-point
/// numbers are grouped, and so rounded, is not fixed.
template <class T, class R>
void exclusive_sum(HostStream& stream, const T* in, std::size_t n, R* out, Workspace<HostDevice>&) {
  if (n == 0) {
    return;
  }
  stream.enqueue([in, n, out] {
    R sum{};
    for (std::size_t i = 0; i < n; ++i) {
      const R next = static_cast<R>(in[i]);
      out[i] = sum;
      sum = static_cast<R>(sum + next);
    }
  });
}

/// out[i] = in[0] + ... + in[i]; all else as exclusive_sum().
template <class T, class R>
void inclusive_sum(HostStream& stream, const T* in, std::size_t n, R* out, Workspace<HostDevice>&) {
  if (n == 0) {
    return;
  }
  stream.enqueue([in, n, out] {
    R sum{};
    for (std::size_t i = 0; i < n; ++i) {
      sum = static_cast<R>(sum + static_cast<R>(in[i]));
      out[i] = sum;
    }
  });
}

/// Copies those of in[0] to in[n - 1] for which `predicate` is true, in their order, to the front
/// of `out`, and writes to *count how many they are. All are device memory, and must not overlap;
/// `out` has room for n. `predicate(const T&)` is copied, and must not throw.
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

/// Writes values[0] lengths[0] times, then values[1] lengths[1] times, and so on, for `runs` runs;
/// a length may be 0 and must not be negative. Only the first `capacity` elements are written, but
/// *total becomes the sum of all lengths: more than `capacity` if some did not fit. All are device
/// memory, and must not overlap.
template <class T, class Length>
void run_length_decode(HostStream& stream, const T* values, const Length* lengths, std::size_t runs,
                       T* out, std::size_t capacity, std::uint64_t* total, Workspace<HostDevice>&) {
  static_assert(std::is_integral_v<Length>, "penstock: lengths are integers.");
  stream.enqueue([values, lengths, runs, out, capacity, total] {
    std::uint64_t end = 0;
    for (std::size_t run = 0; run < runs; ++run) {
      const std::uint64_t begin = end;
      end += static_cast<std::uint64_t>(lengths[run]);
      if (begin < capacity) {
        std::fill(out + begin, out + std::min<std::uint64_t>(end, capacity), values[run]);
      }
    }
    *total = end;
  });
}

} // namespace penstock
