// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace penstock {

/// What came of feeding a codec.
struct Decompressed {
  /// Where the codec stands.
  enum class State {
    more,    ///< In a frame: it takes more bytes, or has more to give.
    end,     ///< Behind the end of a frame, whose checksum fits if it has one.
    damaged, ///< At bytes that it cannot decompress: `why` says more. Only restart() helps.
  };
  std::size_t used{};   ///< How many bytes of the input it took.
  std::size_t made{};   ///< How many bytes of the output it wrote.
  State state{};        ///< Where it stands.
  const char* why = ""; ///< If it is damaged: what is wrong, as "a checksum that does not fit".
};

/// What decompresses bytes that another program compressed: Zstd, Lz4, Lz4Block and Gzip are
/// codecs. It is a description until it is fed first. A copy has the same options, and stands at
/// the beginning of a frame: each worker of a stage has one. One thread at a time.
/// - `feed(in, out)` goes on with what is behind the last byte that it used, from the first frame
///   to the next. It uses up `in`, or fills `out`, or ends a frame; it may throw std::bad_alloc.
/// - `restart()` forgets the frame that it is in.
/// - `claimed(frame)` returns how many bytes a whole frame says that it holds; none if it does not
///   say. Nobody has checked that.
/// - `name` names the format, and `streams` is false if feed() takes only whole frames, and room
///   for all that is in one.
template <class C>
concept Codec =
    std::copy_constructible<C> &&
    requires(C& codec, const C& same, std::span<const std::byte> in, std::span<std::byte> out) {
      { codec.feed(in, out) } -> std::same_as<Decompressed>;
      { codec.restart() } -> std::same_as<void>;
      { same.claimed(in) } -> std::same_as<std::optional<std::uint64_t>>;
      { C::name } -> std::convertible_to<const char*>;
      { C::streams } -> std::convertible_to<bool>;
    };

} // namespace penstock
