// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ways to copy bytes that are read once into memory that a GPU reads next. Which of them leaves
// that memory in the processor's cache?

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace penstock_bench {

inline constexpr std::size_t cache_line = 64;

/// What the C library does, which may depend on the size.
inline void copy_plain(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

/// Asks for each line `ahead` bytes early, and for no place in the caches beyond the first: what is
/// read passes them by. Copies a page at a time, so that the C library's threshold for stores past
/// the caches is out of reach.
inline void copy_prefetched(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  constexpr std::size_t piece = 1024;
  constexpr std::size_t ahead = 4096;
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t size = std::min(piece, bytes - at);
    for (std::size_t line = at + ahead; line < std::min(at + ahead + size, bytes);
         line += cache_line) {
      __builtin_prefetch(from + line, 0, 0);
    }
    std::memcpy(to + at, from + at, size);
  }
}

/// Stores past the caches, to have its cost beside the others'.
inline void copy_streamed(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  std::size_t at = 0;
#if defined(__SSE2__)
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128i) == 0) {
    for (; at + cache_line <= bytes; at += cache_line) {
      __m128i line[4];
      std::memcpy(line, from + at, sizeof line);
      for (std::size_t k = 0; k != 4; ++k) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + k, line[k]);
      }
    }
    _mm_sfence();
  }
#endif
  std::memcpy(to + at, from + at, bytes - at);
}

using CopyBytes = void (*)(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes);
struct NamedCopy {
  const char* name;
  CopyBytes copy;
};
inline constexpr NamedCopy byte_copies[] = {
    {"memcpy", copy_plain}, {"prefetchnta", copy_prefetched}, {"streamed", copy_streamed}};

} // namespace penstock_bench
