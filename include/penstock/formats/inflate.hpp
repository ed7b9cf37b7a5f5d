// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

/// What came of inflating.
struct Inflated {
  /// How it ended.
  enum class End {
    whole,   ///< At the end that the data marks.
    damaged, ///< At data that is no deflated data.
    longer,  ///< At the end of `into`: more would come.
    cut,     ///< At the end of the pieces: the data goes on.
  };
  End end{};             ///< How it ended.
  std::uint64_t bytes{}; ///< How many bytes of `into` were filled.
  std::size_t unused{};  ///< How many bytes of the last piece were not used.
  std::uint32_t crc32{}; ///< The CRC-32 of what was filled, as ZIP has it, if it is whole.
};

/// Inflates data that was deflated (RFC 1951), without a header of zlib's or gzip's, into exactly
/// `into`. `next()` returns the next piece of the data, good until the next call, of at most 1 MiB;
/// an empty one is behind the last. Several threads call it at once, for data of their own. It may
/// throw std::bad_alloc, and throws what `next()` throws. zlib_inflate() is one.
using Inflate = Inflated (*)(const detail::Borrowed<std::span<const std::byte>()>& next,
                             std::span<std::byte> into);

} // namespace penstock
