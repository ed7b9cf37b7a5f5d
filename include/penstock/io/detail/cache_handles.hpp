// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/io/detail/cache_shape.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

namespace penstock::detail {

/// A file that is open through a cache.
struct CacheHandle {
  int below = -1; ///< Its number in the Io below.
  std::uint64_t bytes{};
  CacheKey key{};
};

/// The files that are open through a cache, each by its number. Any thread may call; a file's user
/// had its number from add(), so that at() needs no lock.
class CacheHandles {
 public:
  /// Returns the number of one more; -1 and errno if there are too many, or no memory is left.
  int add(const CacheHandle& handle) {
    const std::scoped_lock lock{mutex_};
    int number = free_;
    if (number >= 0) {
      free_ = of(number).below;
    } else {
      if (made_ == most) {
        errno = EMFILE;
        return -1;
      }
      Owned<Chunk>& chunk = chunks_[static_cast<std::size_t>(made_) / chunk_size];
      if (!chunk) {
        chunk = Owned<Chunk>{new (std::nothrow) Chunk};
      }
      if (!chunk) {
        errno = ENOMEM;
        return -1;
      }
      number = made_++;
    }
    of(number) = handle;
    return number;
  }
  /// Gives a number back. Returns the file's number below.
  int remove(int number) noexcept {
    const std::scoped_lock lock{mutex_};
    const int below = std::exchange(of(number).below, free_);
    free_ = number;
    return below;
  }
  const CacheHandle& at(int number) const noexcept {
    const auto i = static_cast<std::size_t>(number);
    return (*chunks_[i / chunk_size])[i % chunk_size];
  }

 private:
  static constexpr std::size_t chunk_size = 1024;
  static constexpr int most = 1 << 22;
  using Chunk = std::array<CacheHandle, chunk_size>;

  CacheHandle& of(int number) noexcept { return const_cast<CacheHandle&>(at(number)); }

  std::mutex mutex_;
  std::array<Owned<Chunk>, most / chunk_size> chunks_;
  int free_ = -1; // the first number that is free: its `below` is the next
  int made_{};
};

/// Passes on that files take nothing of the system's, where the Io below says so.
template <class Io> struct MostOpen {};
template <class Io>
  requires requires { Io::most_open; }
struct MostOpen<Io> {
  static constexpr std::size_t most_open = Io::most_open;
};

} // namespace penstock::detail
