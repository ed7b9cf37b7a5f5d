// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>
#include <utility>

namespace penstock::detail {

/// The lanes of a warp.
inline constexpr unsigned warp_lanes = 32;

/// A warp on the host: one thread does the work of all lanes, in turn. Code for a warp is written
/// once, for this or for GpuLanes of cuda/unpack.cuh: it works on lanes by each(), and has all of
/// them meet in ballot().
struct HostLanes {
  /// A value that each lane has of its own.
  template <class T> class Own {
   public:
    PENSTOCK_HD T& operator[](unsigned lane) { return of_[lane]; }

   private:
    T of_[warp_lanes]{};
  };

  /// Calls f(lane) for each lane.
  template <class F> PENSTOCK_HD static void each(F f) {
    for (unsigned lane = 0; lane != warp_lanes; ++lane) {
      f(lane);
    }
  }
  /// Returns the lanes for which f(lane) holds, a bit each.
  template <class F> PENSTOCK_HD static std::uint32_t ballot(F f) {
    std::uint32_t mask = 0;
    for (unsigned lane = 0; lane != warp_lanes; ++lane) {
      mask |= static_cast<std::uint32_t>(f(lane)) << lane;
    }
    return mask;
  }
};

/// Returns how many bits are set.
PENSTOCK_HD inline unsigned bits_set(std::uint32_t mask) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__popc(mask));
#else
  return static_cast<unsigned>(__builtin_popcount(mask));
#endif
}

/// Calls f with 0 to before `count` as constants, so that a GPU keeps in registers what they are
/// the index of.
template <unsigned count, class F> PENSTOCK_HD void unrolled(F f) {
  [&]<unsigned... k>(std::integer_sequence<unsigned, k...>) {
    (f(k), ...);
  }(std::make_integer_sequence<unsigned, count>{});
}

} // namespace penstock::detail
