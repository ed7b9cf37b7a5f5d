// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/machine/usable.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace doctor {

inline constexpr std::size_t mib = std::size_t{1} << 20;
inline constexpr std::size_t gib = std::size_t{1} << 30;
inline constexpr std::size_t least_memory = 256 * mib;

/// Returns the bytes of memory that are free for this process; 2 GiB if the system does not say.
inline std::size_t free_memory() {
  const std::uint64_t usable = penstock::usable_memory();
  return usable == 0 ? 2 * gib : usable;
}

/// Throws if there is too little memory for the buffers below and a pipeline's rings.
inline void check_memory() {
  if (const std::size_t free = free_memory(); free < least_memory) {
    throw std::runtime_error{"only " + std::to_string(free / mib) +
                             " MiB of memory are free, and " + std::to_string(least_memory / mib) +
                             " are needed: end other programs, or raise this one's limit (a "
                             "container's)"};
  }
}

/// Returns `wanted` bytes, or the `part`-th part of the memory that is free if that is less, in
/// whole MiB, at least one.
inline std::size_t affordable(std::size_t wanted, std::size_t part) {
  return std::max(std::min(wanted, free_memory() / part) / mib * mib, mib);
}

/// Returns the bytes of the last-level cache; 64 MiB if the system does not say. sysconf() may add
/// up several, of which a thread has one.
inline std::size_t last_level_cache() {
  std::size_t kib = 0;
  for (const char level : {'3', '2'}) {
    std::ifstream size{std::string{"/sys/devices/system/cpu/cpu0/cache/index"} + level + "/size"};
    if (size >> kib && kib != 0) {
      return kib << 10U;
    }
  }
  return 64 * mib;
}

/// How many threads show what several can do: all processors that this process may use, up to 16.
inline unsigned several_threads() {
  return std::min(penstock::usable_processors(), 16U);
}

struct Free {
  void operator()(std::byte* at) const { std::free(at); }
};
/// Pageable memory, at a multiple of 2 MiB.
using Bytes = std::unique_ptr<std::byte[], Free>;

/// Returns memory that nobody has touched, in huge pages where the system has them, as a pipeline's
/// own memory is too.
inline Bytes make_bytes(std::size_t bytes) {
  constexpr std::size_t huge_page = 2 * mib;
  const std::size_t room = (bytes + huge_page - 1) / huge_page * huge_page;
  Bytes made{static_cast<std::byte*>(std::aligned_alloc(huge_page, room))};
  if (!made) {
    throw std::bad_alloc{};
  }
  ::madvise(made.get(), room, MADV_HUGEPAGE);
  return made;
}

} // namespace doctor
