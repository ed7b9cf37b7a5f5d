// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// How long a worker's units took: counts of nanoseconds, by their first three binary digits. Only
/// its own thread adds. Of very many short ones it looks at some, and counts each for several: to
/// count costs as much as a tenth of the shortest.
class UnitTimes {
  template <class T> using Atomic = StdAtomics::Atomic<T>;
  static constexpr auto relaxed = StdAtomics::relaxed;
  static constexpr std::size_t octaves = 42; // up to an hour
  static constexpr std::size_t kinds = 4 * octaves;

 public:
  void clear() noexcept {
    short_ = 0;
    for (Atomic<std::uint32_t>& count : counts_) {
      count.store(0, relaxed);
    }
  }
  void add(std::uint64_t ns) noexcept {
    if (ns >= short_ns) {
      count(ns, 1);
    } else if (const std::uint64_t number = short_++; number < all_looked_at) {
      count(ns, 1);
    } else if (number % one_of == 0) {
      count(ns, one_of);
    }
  }

  /// The units of several workers.
  class Sum {
   public:
    /// Returns how many units those are.
    std::uint64_t add(const UnitTimes& times) noexcept {
      const std::uint64_t before = all_;
      for (std::size_t kind = 0; kind != kinds; ++kind) {
        const std::uint64_t count = times.counts_[kind].load(relaxed);
        counts_[kind] += count;
        all_ += count;
      }
      return all_ - before;
    }
    /// Returns the seconds that this share of all units took at most, to within an eighth of them;
    /// 0 if there are none.
    double at_most(double share) const noexcept {
      const auto wanted = static_cast<std::uint64_t>(static_cast<double>(all_) * share);
      std::uint64_t before = 0;
      for (std::size_t kind = 0; kind != kinds; ++kind) {
        before += counts_[kind];
        if (before > wanted || (before == all_ && before != 0)) {
          return middle_of(kind) / 1e9;
        }
      }
      return 0;
    }

   private:
    std::array<std::uint64_t, kinds> counts_{};
    std::uint64_t all_{};
  };

 private:
  static constexpr std::uint64_t short_ns = 4096;
  static constexpr std::uint64_t all_looked_at = 1024;
  static constexpr std::uint32_t one_of = 32;

  [[gnu::noinline]] void count(std::uint64_t ns, std::uint32_t times) noexcept {
    Atomic<std::uint32_t>& count = counts_[kind_of(ns)];
    count.store(count.load(relaxed) + times, relaxed);
  }
  // Times of fewer than three digits count as if they had them.
  static std::size_t kind_of(std::uint64_t ns) noexcept {
    const std::uint64_t at_least = std::max<std::uint64_t>(ns, 4);
    const auto digits = 64 - static_cast<std::size_t>(std::countl_zero(at_least));
    return std::min(4 * (digits - 3) + (at_least >> (digits - 3)) - 4, kinds - 1);
  }
  static double middle_of(std::size_t kind) noexcept {
    const auto from = static_cast<double>((4 + kind % 4) << (kind / 4));
    const auto width = static_cast<double>(std::uint64_t{1} << (kind / 4));
    return from + width / 2;
  }

  std::uint64_t short_{};
  std::array<Atomic<std::uint32_t>, kinds> counts_{};
};

} // namespace penstock::detail
