// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>
#include <type_traits>

namespace penstock {

/// Ordinary host memory.
struct Pageable {
  Pageable() = delete;
};
/// Host memory that is page-locked for a device, which copies from it at full speed and
/// asynchronously.
struct Pinned {
  Pinned() = delete;
};
/// A device's own memory: only work on one of its streams may touch it.
struct Device {
  Device() = delete;
};

/// Where a batch lies: Pageable, Pinned or Device. Part of its type, never an object.
template <class S>
concept Space =
    std::is_same_v<S, Pageable> || std::is_same_v<S, Pinned> || std::is_same_v<S, Device>;

/// Memory that host code can read and write.
template <class S>
concept HostSpace = Space<S> && !std::is_same_v<S, Device>;

/// A Space as a value.
enum class MemoryKind : std::uint8_t { pageable, pinned, device };

namespace detail {
template <Space S>
inline constexpr MemoryKind kind_of = std::is_same_v<S, Pageable> ? MemoryKind::pageable
                                      : std::is_same_v<S, Pinned> ? MemoryKind::pinned
                                                                  : MemoryKind::device;
} // namespace detail

} // namespace penstock
