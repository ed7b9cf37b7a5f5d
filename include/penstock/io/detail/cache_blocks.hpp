// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/io/detail/cache_file.hpp>
#include <penstock/io/detail/cache_shape.hpp>
#include <penstock/io/direct.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string>

#include <unistd.h>

namespace penstock::detail {

/// A block of an object: which one, and how many bytes it has.
struct CacheBlock {
  CacheKey key;
  std::uint64_t number{};
  std::size_t bytes{};
};

/// The blocks in a cache's file. Any number of threads and processes; a forked child's only read.
template <class Calls> class CacheBlocks {
 public:
  /// Throws OptionError.
  CacheBlocks(const Calls& calls, const std::string& folder, const CacheShape& shape)
      : file_{calls, folder, shape}, checked_(file_.usable() ? shape.places : 0) {
    error_.store(file_.error(), StdAtomics::relaxed);
  }

  std::size_t block_bytes() const noexcept {
    return static_cast<std::size_t>(file_.shape().block_bytes);
  }
  std::uint64_t damaged() const noexcept { return damaged_.load(StdAtomics::relaxed); }
  std::uint64_t evicted() const noexcept { return evicted_.load(StdAtomics::relaxed); }
  /// Returns an errno: why no more blocks are written.
  int error() const noexcept { return error_.load(StdAtomics::relaxed); }
  /// Returns whether it is of use to this process.
  bool usable() const noexcept { return file_.usable(); }

  /// What is missing is fetched by one thread, while others that want it wait.
  std::mutex& fetching(const CacheBlock& block) noexcept {
    return fetching_[set_of(block) % most_fetching].mutex;
  }
  /// Returns whether this process is the one that made this, and not its child.
  bool is_here() const noexcept { return ::getpid() == pid_; }

  /// Fills `into` with bytes of a block from `offset` on. Returns false if the block is not there;
  /// then `into` has any bytes. Blocks for the disk.
  bool read(const CacheBlock& block, std::size_t offset, std::span<std::byte> into) {
    const std::uint64_t first = set_of(block) * file_.shape().ways;
    for (std::uint64_t i = first; i != first + file_.shape().ways; ++i) {
      CachePlace& place = file_.place(i);
      const std::uint64_t turn = place.turn.load(StdAtomics::acquire); // pairs with its stores
      if (turn % 2 != 0 || !is_of(place, block)) {
        continue;
      }
      return checked_[i].load(StdAtomics::relaxed) == turn
                 ? read(i, turn, offset, into)
                 : read_checked(i, turn, block, offset, into);
    }
    return false;
  }

  /// Keeps a block, in the place of the one in its set that was used the longest ago. Does nothing
  /// if another process writes into the set just now, or the disk has failed. Blocks for the disk.
  /// To be called by who has the block's mutex.
  void keep(const CacheBlock& block, std::span<const std::byte> bytes) {
    const std::uint64_t set = set_of(block);
    if (error() != 0) {
      return;
    }
    const typename CacheFile<Calls>::SetLock lock{file_, set};
    if (!lock) {
      return;
    }
    const std::uint64_t i = place_for(block, set);
    CachePlace& place = file_.place(i);
    const std::uint64_t before = place.turn.load(StdAtomics::relaxed);
    const std::uint64_t writing = before + 1 + before % 2; // an odd one that never was
    // Each store pairs with the loads of is_of(): who sees one of them sees the turn before it too.
    place.turn.store(writing, StdAtomics::release);
    place.name.store(block.key.name, StdAtomics::release);
    place.version.store(block.key.version, StdAtomics::release);
    place.block.store(block.number, StdAtomics::release);
    place.bytes.store(block.bytes, StdAtomics::release);
    if (const int error = file_.write(i, bytes); error != 0) {
      error_.store(error, StdAtomics::relaxed);
      return;
    }
    place.sum.store(sum_of(block, bytes), StdAtomics::relaxed);
    place.used.store(1 + file_.clock().fetch_add(1, StdAtomics::relaxed), StdAtomics::relaxed);
    place.turn.store(writing + 1, StdAtomics::release); // pairs with the loads of read()
    checked_[i].store(writing + 1, StdAtomics::relaxed);
    evicted_.fetch_add(before != 0 && before % 2 == 0 ? 1 : 0, StdAtomics::relaxed);
  }

 private:
  static constexpr std::size_t most_fetching = 256;

  struct alignas(cache_line) Fetching {
    std::mutex mutex;
  };

  // Blocks side by side lie in sets side by side, so that an object fills all of them alike.
  std::uint64_t set_of(const CacheBlock& block) const noexcept {
    return (block.key.name + block.number) % file_.shape().sets();
  }

  static std::uint32_t sum_of(const CacheBlock& block, std::span<const std::byte> bytes) {
    const std::uint64_t key[] = {block.key.name, block.key.version, block.number, block.bytes};
    return crc32c(bytes, crc32c(std::as_bytes(std::span{key})));
  }

  static bool is_of(const CachePlace& place, const CacheBlock& block) noexcept {
    // Each pairs with its store in keep().
    return place.name.load(StdAtomics::acquire) == block.key.name &&
           place.block.load(StdAtomics::acquire) == block.number &&
           place.version.load(StdAtomics::acquire) == block.key.version &&
           place.bytes.load(StdAtomics::acquire) == block.bytes;
  }

  // The kernel takes and gives back each page of a file by fully ordered atomics, so that the bytes
  // of a read are those of a time before the load behind it, and those of a write come behind the
  // stores before it, on any processor.
  bool read(std::uint64_t i, std::uint64_t turn, std::size_t offset,
            std::span<std::byte> into) const {
    CachePlace& place = file_.place(i);
    const bool all = file_.read(i, offset, into) && place.turn.load(StdAtomics::relaxed) == turn;
    const std::uint64_t now = file_.clock().load(StdAtomics::relaxed);
    if (all && place.used.load(StdAtomics::relaxed) != now) {
      place.used.store(now, StdAtomics::relaxed);
    }
    return all;
  }

  // Each process trusts a block once it has seen its sum, since a power failure may have lost what
  // was written.
  [[gnu::cold]] bool read_checked(std::uint64_t i, std::uint64_t turn, const CacheBlock& block,
                                  std::size_t offset, std::span<std::byte> into) {
    const bool whole = into.size() == block.bytes;
    const std::span<std::byte> bytes = whole ? into : bounce_buffer().first(block.bytes);
    const std::uint64_t sum = file_.place(i).sum.load(StdAtomics::relaxed);
    if (!read(i, turn, 0, bytes)) {
      return false;
    }
    if (sum_of(block, bytes) != sum) {
      damaged_.fetch_add(1, StdAtomics::relaxed);
      // Odd: it is no block any more. Who writes it just now has done the same, or more.
      std::uint64_t expected = turn;
      file_.place(i).turn.compare_exchange_strong(expected, turn + 1, StdAtomics::relaxed);
      return false;
    }
    checked_[i].store(turn, StdAtomics::relaxed);
    if (!whole) {
      std::memcpy(into.data(), bytes.data() + offset, into.size());
    }
    return true;
  }

  std::uint64_t place_for(const CacheBlock& block, std::uint64_t set) const {
    const std::uint64_t first = set * file_.shape().ways;
    std::uint64_t best = first;
    std::uint64_t oldest = ~std::uint64_t{0};
    for (std::uint64_t i = first; i != first + file_.shape().ways; ++i) {
      const CachePlace& place = file_.place(i);
      const std::uint64_t turn = place.turn.load(StdAtomics::relaxed);
      if (turn != 0 && is_of(place, block)) {
        return i;
      }
      const bool empty = turn == 0 || turn % 2 != 0;
      const std::uint64_t used = empty ? 0 : place.used.load(StdAtomics::relaxed);
      best = used < oldest ? i : best;
      oldest = std::min(oldest, used);
    }
    return best;
  }

  CacheFile<Calls> file_;
  Vector<StdAtomics::Atomic<std::uint64_t>> checked_; // the turn whose sum was right
  std::array<Fetching, most_fetching> fetching_;
  const int pid_ = ::getpid();
  StdAtomics::Atomic<std::uint64_t> damaged_{0};
  StdAtomics::Atomic<std::uint64_t> evicted_{0};
  StdAtomics::Atomic<int> error_{0};
};

} // namespace penstock::detail
