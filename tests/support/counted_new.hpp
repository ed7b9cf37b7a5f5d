// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Replaces the program's operator new, so that a test can count allocations and have them refused.
// To be included by one source file of a program.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace penstock::tests::memory {

/// Allocations so far, by all threads, and their bytes, given back or not.
inline std::atomic<std::uint64_t> allocations{0}, allocated_bytes{0};

} // namespace penstock::tests::memory

// clang links the whole of ThreadSanitizer's own operator new into a program, which then cannot
// have another; but its hook can count.
#if defined(__clang__) && defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PENSTOCK_TESTS_MALLOC_HOOK
#endif
#endif

#if defined(PENSTOCK_TESTS_MALLOC_HOOK)

extern "C" void __sanitizer_malloc_hook(const volatile void*, std::size_t bytes) {
  penstock::tests::memory::allocations.fetch_add(1, std::memory_order_relaxed);
  penstock::tests::memory::allocated_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

namespace penstock::tests::memory {
inline constexpr bool can_refuse = false;
inline std::size_t refused_bytes = 0;
inline void refuse_allocation(std::uint64_t, bool = false) noexcept {}
inline bool has_refused() noexcept {
  return false;
}
} // namespace penstock::tests::memory

#else

namespace penstock::tests::memory {

inline constexpr bool can_refuse = true;
/// Requests of exactly this size are refused; 0 for none.
inline std::atomic<std::size_t> refused_bytes{0};

inline constexpr std::uint64_t never = ~std::uint64_t{0};
inline std::atomic<std::uint64_t> refused_from{never}, refused_to{never};
inline std::atomic<bool> refused{false};

/// Refuses the `k`-th allocation from now, by any thread, and with `persistent` all later ones too:
/// 1 is the next; 0 is none. To be called while no other thread allocates.
inline void refuse_allocation(std::uint64_t k, bool persistent = false) noexcept {
  refused_from = never;
  refused = refused && k == 0; // so that has_refused() still tells after the fault was taken away
  refused_to = persistent ? never : allocations + k;
  refused_from = k == 0 ? never : allocations + k;
}
/// Returns whether an allocation was refused.
inline bool has_refused() noexcept {
  return refused;
}

inline void* take(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) noexcept {
  const std::uint64_t number = allocations.fetch_add(1, std::memory_order_relaxed) + 1;
  allocated_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes != 0 && bytes == refused_bytes) {
    return nullptr;
  }
  if (number >= refused_from && number <= refused_to) {
    refused = true;
    return nullptr;
  }
  // std::aligned_alloc wants a multiple of the alignment, and not 0.
  return std::aligned_alloc(alignment, bytes / alignment * alignment + alignment);
}
inline void* take_or_throw(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
  void* const at = take(bytes, alignment);
  if (at == nullptr) {
    throw std::bad_alloc{};
  }
  return at;
}

} // namespace penstock::tests::memory

// Not inline: g++ warns of a mismatch if it sees the free() in a delete and not the allocation in
// the new.
[[gnu::noinline]] void* operator new(std::size_t n) {
  return penstock::tests::memory::take_or_throw(n);
}
[[gnu::noinline]] void* operator new(std::size_t n, std::align_val_t a) {
  return penstock::tests::memory::take_or_throw(n, static_cast<std::size_t>(a));
}
[[gnu::noinline]] void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return penstock::tests::memory::take(n);
}
[[gnu::noinline]] void* operator new(std::size_t n, std::align_val_t a,
                                     const std::nothrow_t&) noexcept {
  return penstock::tests::memory::take(n, static_cast<std::size_t>(a));
}
[[gnu::noinline]] void operator delete(void* at) noexcept {
  std::free(at);
}
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept {
  std::free(at);
}
[[gnu::noinline]] void operator delete(void* at, std::align_val_t) noexcept {
  std::free(at);
}
[[gnu::noinline]] void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
  std::free(at);
}
[[gnu::noinline]] void operator delete(void* at, const std::nothrow_t&) noexcept {
  std::free(at);
}
[[gnu::noinline]] void operator delete(void* at, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(at);
}

#endif
