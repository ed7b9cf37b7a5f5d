// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/splitmix.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/io/posix.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace penstock::detail {

/// What a cache knows a version of a file by: two have the same only if they have the same bytes.
struct CacheKey {
  std::uint64_t name{};
  std::uint64_t version{};
  bool known{}; ///< False: there is nothing to know the version by, so no block is kept.
  bool operator==(const CacheKey&) const = default;

  static CacheKey of(std::string_view path, const FileStatus& status) {
    CacheKey key{.name = path.size(), .version = ~std::uint64_t{0}};
    const auto take = [&key](std::uint64_t word) {
      key.name = splitmix(key.name ^ word, 1);
      key.version = splitmix(key.version ^ word, 2);
    };
    for (; !path.empty(); path.remove_prefix(std::min(path.size(), sizeof(std::uint64_t)))) {
      std::uint64_t word = 0;
      std::memcpy(&word, path.data(), std::min(path.size(), sizeof word));
      take(word);
    }
    for (const std::uint64_t word : {status.size, status.device, status.inode, status.modified}) {
      take(word);
    }
    key.known = status.inode != 0 || status.modified != 0;
    return key;
  }
};

/// What a cache's file says of a place for a block. It lies in the file itself, which all processes
/// map, so that it outlives each of them.
struct CachePlace {
  using Number = StdAtomics::Atomic<std::uint64_t>;

  /// Odd while the block is written, and stays so if the writer dies; 0 if there never was one. It
  /// only grows, so that who sees the same even number before and after a read has read the block.
  Number turn;
  Number name;
  Number version;
  Number block; ///< Its number in the object.
  Number bytes;
  Number sum;  ///< CRC-32C of the key and the bytes.
  Number used; ///< What the file's clock said at the last use.
  Number unused;
};
static_assert(sizeof(CachePlace) == 64 && CachePlace::Number::is_always_lock_free);

/// The shape of a cache's file, and its first bytes.
struct CacheShape {
  std::uint64_t magic = 0x3145'4843'4143'5350; // "PSCACHE1"
  std::uint64_t block_bytes{};
  std::uint64_t places{};
  std::uint64_t ways{}; ///< Places that a block may have.
  bool operator==(const CacheShape&) const = default;

  std::uint64_t sets() const noexcept { return places / ways; }
  std::uint64_t first_block() const noexcept {
    return (page + places * sizeof(CachePlace) + page - 1) / page * page;
  }
  std::uint64_t bytes() const noexcept { return first_block() + places * block_bytes; }

  static constexpr std::uint64_t page = 4096; // the shape's own, before the places
  static constexpr std::uint64_t clock_at = 64;
  static constexpr std::uint64_t most_ways = 16;
  static constexpr std::uint64_t most_places = std::uint64_t{1} << 28;
  static constexpr std::size_t least_block = page;
  static constexpr std::size_t most_block = std::size_t{1}
                                            << 20; // what bounce_buffer() has room for

  /// Returns the largest one that fits. Throws OptionError.
  static CacheShape of(std::uint64_t bytes, std::size_t block_bytes) {
    if (block_bytes < least_block || block_bytes > most_block ||
        (block_bytes & (block_bytes - 1)) != 0) {
      throw_error<OptionError>({"penstock: CachedIo: .block_bytes is ", block_bytes,
                                ": give a power of two from ", least_block, " to ", most_block,
                                "."});
    }
    CacheShape shape{.block_bytes = block_bytes, .places = 0, .ways = 1};
    const std::uint64_t room = bytes - std::min(bytes, 2 * page);
    shape.places = room / (block_bytes + sizeof(CachePlace));
    if (shape.places == 0 || shape.places > most_places) {
      throw_error<OptionError>({"penstock: CachedIo: .bytes is ", bytes, ": give at least ",
                                2 * page + block_bytes + sizeof(CachePlace), " and at most ",
                                most_places * block_bytes, " for blocks of ", block_bytes,
                                " bytes."});
    }
    shape.ways = std::min(shape.places, most_ways);
    shape.places -= shape.places % shape.ways;
    return shape;
  }
};

} // namespace penstock::detail
