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
/// them meet in any() and in_turn().
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
  /// Returns whether f(lane) holds for any lane; the same for all.
  template <class F> PENSTOCK_HD static bool any(F f) {
    bool found = false;
    for (unsigned lane = 0; lane != warp_lanes; ++lane) {
      found |= f(lane);
    }
    return found;
  }
  /// Calls f(lane, takes(lane), before) for each lane, with how many of the lanes before it take.
  /// Returns how many take.
  template <class Takes, class F> PENSTOCK_HD static unsigned in_turn(Takes takes, F f) {
    unsigned before = 0;
    for (unsigned lane = 0; lane != warp_lanes; ++lane) {
      const bool its = takes(lane);
      f(lane, its, before);
      before += its ? 1U : 0U;
    }
    return before;
  }
};

/// Calls f with 0 to before `count` as constants, so that a GPU keeps in registers what they are
/// the index of.
template <unsigned count, class F> PENSTOCK_HD void unrolled(F f) {
  [&]<unsigned... k>(std::integer_sequence<unsigned, k...>) {
    (f(k), ...);
  }(std::make_integer_sequence<unsigned, count>{});
}

} // namespace penstock::detail
