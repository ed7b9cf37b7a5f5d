// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstddef>
#include <new>
#include <span>

namespace penstock::detail {

/// The bytes of thread_buffer().
inline constexpr std::size_t thread_buffer_bytes = std::size_t{256} << 10;

/// Returns memory for a piece of a file, aligned for direct reads. Each thread has its own, from
/// its first use to its end.
inline std::span<std::byte> thread_buffer() {
  constexpr std::align_val_t alignment{page};
  struct Buffer {
    ~Buffer() { ::operator delete(at, alignment); }
    void* const at = ::operator new(thread_buffer_bytes, alignment);
  };
  thread_local const Buffer buffer;
  return {static_cast<std::byte*>(buffer.at), thread_buffer_bytes};
}

} // namespace penstock::detail
