// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/codec.hpp>
#include <penstock/formats/detail/lz4_frames.hpp>
#include <penstock/formats/detail/xxhash.hpp>
#include <penstock/formats/frames.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <lz4.h>
#include <lz4frame.h>

// Needs liblz4 (Debian: liblz4-dev), which the program must link: -llz4.
namespace penstock {

namespace detail {

/// Decompresses one block. Returns a negative number if it is none, or if more comes out of it than
/// there is room for.
inline int lz4_decompress(std::span<const std::byte> block, std::span<std::byte> out) noexcept {
  constexpr std::size_t most = std::numeric_limits<int>::max();
  char nothing = 0; // for no room, which has no address
  return block.size() > most
             ? -1
             : ::LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()),
                                     out.empty() ? &nothing : reinterpret_cast<char*>(out.data()),
                                     static_cast<int>(block.size()),
                                     static_cast<int>(std::min(out.size(), most)));
}

} // namespace detail

/// Decompresses LZ4 frames; those that are to be skipped give nothing. A frame that needs a
/// dictionary is refused, and so is one of `lz4 -l`. See Codec.
class Lz4 {
 public:
  /// The format's name.
  static constexpr const char* name = "lz4";
  /// It takes frames in pieces.
  static constexpr bool streams = true;

  /// Takes no memory before it is fed.
  Lz4() = default;
  /// Stands at the beginning of a frame.
  /// @{
  Lz4(const Lz4&) noexcept {}
  Lz4& operator=(const Lz4&) noexcept {
    context_.reset();
    head_bytes_ = 0;
    return *this;
  }
  /// @}
  /// Move the state too; what was moved from is of no more use.
  /// @{
  Lz4(Lz4&&) = default;
  Lz4& operator=(Lz4&&) = default;
  /// @}
  ~Lz4() = default;

  /// See Codec.
  Decompressed feed(std::span<const std::byte> in, std::span<std::byte> out) {
    if (!context_) {
      begin();
    }
    // The library passes over a dictionary's number, and gives wrong bytes for it.
    const std::size_t more = std::min(head_.size() - head_bytes_, in.size());
    std::copy_n(in.begin(), more, head_.begin() + static_cast<std::ptrdiff_t>(head_bytes_));
    head_bytes_ += more;
    if (const char* const refused = refusal()) {
      return {0, 0, Decompressed::State::damaged, refused};
    }
    std::size_t made = out.size();
    std::size_t used = in.size();
    const std::size_t left =
        ::LZ4F_decompress(context_.get(), out.data(), &made, in.data(), &used, nullptr);
    if (::LZ4F_isError(left) != 0) {
      return {0, 0, Decompressed::State::damaged, why(left)};
    }
    if (left == 0) {
      head_bytes_ = 0;
      return {used, made, Decompressed::State::end};
    }
    return {used, made, Decompressed::State::more};
  }
  /// See Codec.
  void restart() {
    head_bytes_ = 0;
    if (context_) {
      ::LZ4F_resetDecompressionContext(context_.get());
    }
  }
  /// See Codec.
  std::optional<std::uint64_t> claimed(std::span<const std::byte> frame) const {
    constexpr std::size_t size_at = 6;
    if (frame.size() < size_at + 8 || detail::little_endian(frame.first(4)) != detail::lz4_magic) {
      return 0; // it holds nothing, or feed() says what is wrong
    }
    const bool says = (frame[4] & std::byte{8}) != std::byte{};
    return says ? std::optional{detail::little_endian(frame.subspan(size_at, 8))} : std::nullopt;
  }
  /// Finds blocks where those of a frame are independent, and else frames, all of which must say
  /// how many bytes they hold. See FramedCodec.
  void index(const FrameFile& file, FrameIndex& into) const {
    std::vector<std::byte> room;
    detail::index_lz4(file, into, [&](std::span<const std::byte> block, std::uint64_t most) {
      room.resize(most); // a block has 4 MiB at most
      return std::int64_t{detail::lz4_decompress(block, room)};
    });
  }
  /// See FramedCodec. The checksum of a frame is not compared where blocks come alone, and those of
  /// blocks are.
  Decompressed whole(const Frame& frame, std::span<const std::byte> in, std::span<std::byte> out) {
    if (frame.kind == detail::lz4_whole_frame) {
      return detail::feed_whole(*this, in, out);
    }
    if ((frame.kind & detail::lz4_checked) != 0 &&
        detail::xxhash<std::uint32_t>(in) != frame.checksum) {
      return {0, 0, Decompressed::State::damaged,
              "a checksum that does not fit: copy or download it again"};
    }
    if ((frame.kind & detail::lz4_stored_block) != 0) {
      std::copy(in.begin(), in.end(), out.begin());
      return {in.size(), in.size(), Decompressed::State::end};
    }
    const int made = detail::lz4_decompress(in, out);
    if (made < 0) {
      return {0, 0, Decompressed::State::damaged, "damaged data: copy or download it again"};
    }
    return {in.size(), static_cast<std::size_t>(made), Decompressed::State::end};
  }

 private:
  void begin() {
    LZ4F_dctx* context = nullptr;
    if (::LZ4F_isError(::LZ4F_createDecompressionContext(&context, LZ4F_VERSION)) != 0) {
      throw std::bad_alloc{};
    }
    context_.reset(context);
  }
  const char* refusal() const {
    if (head_bytes_ < 4) {
      return nullptr;
    }
    const std::uint64_t magic = detail::little_endian(std::span{head_}.first(4));
    if (magic == detail::lz4_legacy_magic) {
      return "a frame of the kind that lz4 -l writes: compress it without -l";
    }
    if (magic == detail::lz4_magic && head_bytes_ == head_.size() &&
        (head_[4] & std::byte{1}) != std::byte{}) {
      return "a frame that needs a dictionary, which nobody can give here: compress it without one";
    }
    return nullptr;
  }
  static const char* why(std::size_t result) {
    const std::string_view said = ::LZ4F_getErrorName(result);
    if (said == "ERROR_allocation_failed") {
      throw std::bad_alloc{};
    }
    return said.find("hecksum") != std::string_view::npos
               ? "a checksum that does not fit: copy or download it again"
           : said == "ERROR_frameType_unknown"
               ? "bytes that begin no LZ4 frame: cut off what another program has left there"
               : "damaged data: copy or download it again";
  }

  struct Free {
    void operator()(LZ4F_dctx* context) const noexcept { ::LZ4F_freeDecompressionContext(context); }
  };
  std::unique_ptr<LZ4F_dctx, Free> context_;
  std::array<std::byte, 5> head_{}; // of the frame
  std::size_t head_bytes_{};
};

/// Options of Lz4Block.
struct Lz4BlockOptions {
  /// Whether four bytes before a block say how many come out of it, the lowest first, as
  /// `lz4.block.compress()` of Python writes them. Without them, say .most: see decompressed().
  bool sized = false;
};

/// Decompresses single LZ4 blocks, which nothing marks and no checksum guards: for records. See
/// Codec.
class Lz4Block {
 public:
  /// The format's name.
  static constexpr const char* name = "lz4 block";
  /// It takes whole blocks.
  static constexpr bool streams = false;

  /// Takes no memory.
  explicit Lz4Block(Lz4BlockOptions options = {}) : options_{options} {}

  /// See Codec.
  Decompressed feed(std::span<const std::byte> in, std::span<std::byte> out) {
    const std::size_t before = options_.sized ? 4 : 0;
    const int made = in.size() < before ? -1 : detail::lz4_decompress(in.subspan(before), out);
    if (made < 0) {
      return {0, 0, Decompressed::State::damaged,
              "no LZ4 block, or one out of which more comes than there is room for"};
    }
    return {in.size(), static_cast<std::size_t>(made), Decompressed::State::end};
  }
  /// See Codec.
  void restart() {}
  /// See Codec.
  std::optional<std::uint64_t> claimed(std::span<const std::byte> frame) const {
    return !options_.sized || frame.size() < 4
               ? std::nullopt
               : std::optional{detail::little_endian(frame.first(4))};
  }

 private:
  Lz4BlockOptions options_;
};

} // namespace penstock
