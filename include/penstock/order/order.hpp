// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <concepts>
#include <cstdint>

namespace penstock {

/// What size() of a source returns if nobody knows before its end is reached.
inline constexpr std::uint64_t unknown_size = ~std::uint64_t{0};

/// A number that makes things random in a way that can be repeated, or none. A type of its own,
/// since a bool is no seed: `.shuffle = true` does not compile.
class Seed {
 public:
  Seed() = default; ///< None.
  /// Is this number, as 64 bits.
  template <std::integral T> constexpr Seed(T value) noexcept
      : value_{static_cast<std::uint64_t>(value)}, given_{true} {}
  Seed(bool) = delete; // a bool is no seed: write a number, .shuffle = 1337

  /// Returns whether there is one.
  constexpr explicit operator bool() const noexcept { return given_; }
  /// Returns the number; 0 if there is none.
  constexpr std::uint64_t value() const noexcept { return value_; }
  /// Compares both.
  constexpr bool operator==(const Seed&) const = default;

 private:
  std::uint64_t value_{};
  bool given_{};
};

/// Which of several processes this is, one a GPU, that share the records of an epoch. By hand
/// `{.rank = 2, .world = 8}`; ps::ranks() asks what started them.
struct Ranks {
  std::uint32_t rank = 0;        ///< This one's number, from 0.
  std::uint32_t world = 1;       ///< How many there are.
  std::uint32_t local_rank = 0;  ///< Its number on this host: the GPU to take.
  std::uint32_t local_world = 1; ///< How many there are on this host.

  /// Compares all four.
  bool operator==(const Ranks&) const = default;
};

/// What becomes of an epoch's last records, if they are not as many for each rank.
enum class Uneven : std::uint8_t {
  drop,   ///< Fewer than there are ranks are left out: all ranks have equally many.
  repeat, ///< Records of the epoch's beginning come again: all ranks have equally many.
  keep    ///< Each comes once: some ranks have one more than others.
};

/// Which records a run reads, and in which order: `ps::Reader{source, {.order = {.shuffle = 1337,
/// .ranks = ps::ranks()}}}`. Without it the source's records come as they lie, all of them. Which
/// record is delivered at which step is a function of the seed, the epoch and the step alone,
/// whatever the number of workers, and costs no memory. Two epochs differ.
///
/// The source must have random access and know its size.
struct Order {
  /// Shuffles each epoch by a Permutation of all records; without a seed they come as they lie.
  Seed shuffle = {};
  /// How many records stay together, as they lie in the source, where only reads in runs are cheap:
  /// then blocks are shuffled. Ranks, too, take a block in turn. 0: 1 if records are shuffled one
  /// by one; else a read's worth, about 1 MiB.
  std::uint64_t block = 0;
  /// How many blocks are mixed at a time, record by record; 1: none, each comes as it lies.
  std::uint64_t window = 1;
  /// This process's share.
  Ranks ranks = {};
  /// What becomes of records that are not as many for each rank.
  Uneven uneven = Uneven::drop;
  /// How many records an epoch has, over all ranks; 0: as many as the source has. With fewer an
  /// epoch is a sample, another each time if it is shuffled.
  std::uint64_t records = 0;

  /// Returns how much more the batches' shares of a class vary than if each batch were drawn at
  /// random, at worst: for `of` records that lie sorted by class, in batches of `batch` records. 1
  /// is a full shuffle; 2 makes the noise of a gradient as large as batches half as big do. From
  /// chi-square's mean over batches, (B-1)(b-1)/(Sb-1) (1-S/N) with B records a batch, S blocks of
  /// b records at a time, of N. Without a shuffle `batch`.
  constexpr double batch_variance(std::uint64_t batch, std::uint64_t of) const noexcept {
    if (!shuffle || batch == 0) {
      return static_cast<double>(batch);
    }
    const double together = block == 0 ? 1 : static_cast<double>(block);
    const double at_a_time = together * static_cast<double>(window == 0 ? 1 : window);
    const double in_all = static_cast<double>(of);
    if (together == 1 || at_a_time >= in_all) {
      return 1;
    }
    return 1 + (static_cast<double>(batch) - 1) * (together - 1) / (at_a_time - 1) *
                   (1 - at_a_time / in_all);
  }
};

} // namespace penstock
