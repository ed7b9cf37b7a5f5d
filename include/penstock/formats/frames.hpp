// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/codec.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>

namespace penstock {

/// A part of a compressed file that is decompressed by itself: a frame, a block or a member.
struct Frame {
  std::uint64_t begin{};    ///< Its first byte in the file.
  std::uint64_t at{};       ///< Its first byte of all that comes out. FrameIndex sets it.
  std::uint32_t packed{};   ///< Its bytes in the file.
  std::uint32_t bytes{};    ///< How many bytes come out of it, as the file claims.
  std::uint32_t checksum{}; ///< Of what it holds or of what comes out, as the codec has it.
  std::uint8_t kind{};      ///< As the codec has it.
};

/// A compressed file, for a codec that looks for its frames.
struct FrameFile {
  const std::string& path; ///< For messages.
  const char* codec;       ///< The codec's name, for messages.
  std::uint64_t size;      ///< The file's bytes.
  /// Fills the span from a byte of the file on; all of it must lie in the file. Blocks. Throws
  /// SourceError.
  detail::Borrowed<void(std::uint64_t, std::span<std::byte>)> read;

  /// Throws SourceError that says this of the file at that byte.
  [[noreturn, gnu::cold]] void refuse(std::uint64_t at,
                                      std::initializer_list<detail::TextPart> what) const;
};

/// Where the frames of a compressed file lie, and how much comes out of each.
class FrameIndex {
 public:
  /// Refuses frames out of which more than `most` bytes come, less than 2 GiB.
  explicit FrameIndex(std::uint64_t most) noexcept : most_{most} {}

  /// Adds a frame behind the others, unless nothing comes out of it. Throws SourceError if it does
  /// not lie in the file, is larger than allowed, or takes far more bytes than come out of it.
  void add(const FrameFile& file, std::uint64_t begin, std::uint64_t packed, std::uint64_t bytes,
           std::uint8_t kind = 0, std::uint32_t checksum = 0);
  /// Forgets the frames behind the first `count`.
  void cut(std::size_t count) noexcept {
    while (frames_.size() > count) {
      bytes_ = frames_.back().at;
      frames_.pop_back();
    }
  }

  /// Returns how many bytes come out of all frames.
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Returns the frames, in their order.
  std::span<const Frame> frames() const noexcept { return {frames_.begin(), frames_.size()}; }
  /// Returns the number of the frame that holds byte `at` of what comes out, which must be there.
  std::size_t find(std::uint64_t at) const noexcept {
    const auto behind =
        std::upper_bound(frames_.begin(), frames_.end(), at,
                         [](std::uint64_t byte, const Frame& frame) { return byte < frame.at; });
    return static_cast<std::size_t>(behind - frames_.begin()) - 1;
  }

 private:
  std::uint64_t most_;
  std::uint64_t bytes_{};
  detail::Vector<Frame> frames_;
};

/// A Codec whose files may have many frames, which it finds without decompressing them: see
/// seekable().
/// - `index(file, into)` adds the frames of a file. It throws SourceError for a file that has none
///   that can be found.
/// - `whole(frame, in, out)` decompresses one, of which `in` has all bytes and for which `out` has
///   as much room as it claims. All is well if it is at the end, and has used and made so many.
template <class C>
concept FramedCodec =
    Codec<C> &&
    requires(C& codec, const C& same, const FrameFile& file, FrameIndex& into, const Frame& frame,
             std::span<const std::byte> in, std::span<std::byte> out) {
      same.index(file, into);
      { codec.whole(frame, in, out) } -> std::same_as<Decompressed>;
    };

namespace detail {

/// Decompresses a whole frame by feed().
template <Codec C>
Decompressed feed_whole(C& codec, std::span<const std::byte> in, std::span<std::byte> out) {
  codec.restart();
  Decompressed all;
  for (;;) {
    const Decompressed got = codec.feed(in.subspan(all.used), out.subspan(all.made));
    all = {all.used + got.used, all.made + got.made, got.state, got.why};
    if (got.state != Decompressed::State::more || (got.used == 0 && got.made == 0)) {
      return all;
    }
  }
}

/// Returns the number in so many bytes, the lowest first.
inline std::uint64_t little_endian(std::span<const std::byte> from) noexcept {
  std::uint64_t number = 0;
  for (std::size_t i = from.size(); i-- != 0;) {
    number = number << 8 | std::to_integer<std::uint64_t>(from[i]);
  }
  return number;
}

/// Returns whether a frame of zstd or LZ4 that begins so is to be skipped.
inline bool is_skippable(std::uint64_t magic) noexcept {
  return (magic & 0xFFFF'FFF0) == 0x184D'2A50;
}

/// Returns the bytes of a frame at `at` that is to be skipped. Throws SourceError if it was cut.
[[gnu::cold]] std::uint64_t skippable_bytes(const FrameFile& file, std::uint64_t at);

/// Throws SourceError for a file that ends in the middle of a frame that begins at `at`.
[[noreturn, gnu::cold]] void refuse_cut(const FrameFile& file, std::uint64_t at);

} // namespace detail

inline void FrameFile::refuse(std::uint64_t at,
                              std::initializer_list<detail::TextPart> what) const {
  detail::throw_source_error(
      {"penstock: ", path, " at byte ", at, " (", codec, "): ", detail::joined(what)}, path, at);
}

inline void FrameIndex::add(const FrameFile& file, std::uint64_t begin, std::uint64_t packed,
                            std::uint64_t bytes, std::uint8_t kind, std::uint32_t checksum) {
  constexpr std::uint64_t usual_packed = std::uint64_t{64} << 10;
  if (begin > file.size || packed > file.size - begin) {
    detail::refuse_cut(file, begin);
  }
  if (bytes > most_) {
    file.refuse(begin, {"a frame says that it holds ", bytes, " bytes, and .most allows ", most_,
                        ". A frame is decompressed as a whole: write the file in smaller ones, or "
                        "give ps::SeekableOptions a larger .most. ps::interleaved reads frames of "
                        "any size."});
  }
  if (packed > 2 * bytes + usual_packed) {
    file.refuse(begin, {"a frame of ", packed, " bytes says that it holds ", bytes,
                        ": the file is damaged. Copy or download it again."});
  }
  if (bytes != 0) {
    frames_.push_back({begin, bytes_, static_cast<std::uint32_t>(packed),
                       static_cast<std::uint32_t>(bytes), checksum, kind});
    bytes_ += bytes;
  }
}

namespace detail {

inline std::uint64_t skippable_bytes(const FrameFile& file, std::uint64_t at) {
  std::byte head[8];
  if (file.size - at < sizeof head) {
    refuse_cut(file, at);
  }
  file.read(at, head);
  const std::uint64_t bytes = 8 + little_endian(std::span{head}.subspan(4));
  if (bytes > file.size - at) {
    refuse_cut(file, at);
  }
  return bytes;
}

inline void refuse_cut(const FrameFile& file, std::uint64_t at) {
  file.refuse(at, {"the file ends in the middle of the frame that begins here: it was cut. Copy or "
                   "download it again."});
}

} // namespace detail

} // namespace penstock
