// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/error.hpp>
#include <penstock/formats/codec.hpp>
#include <penstock/formats/detail/xxhash.hpp>
#include <penstock/formats/detail/zstd_frames.hpp>
#include <penstock/formats/frames.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>

#include <zstd.h>
#include <zstd_errors.h>

// Needs libzstd (Debian: libzstd-dev), which the program must link: -lzstd.
namespace penstock {

/// Options of Zstd.
struct ZstdOptions {
  /// The largest window that a frame may have, as a power of two: a stream takes so much memory.
  /// `zstd --long=31` writes larger ones than 27, which is 128 MiB.
  int window_log = 27;
};

/// Decompresses zstd frames; those that are to be skipped give nothing. A frame that needs a
/// dictionary is refused. See Codec.
class Zstd {
 public:
  /// The format's name.
  static constexpr const char* name = "zstd";
  /// It takes frames in pieces.
  static constexpr bool streams = true;

  /// Takes no memory before it is fed. Throws OptionError for a window that zstd does not have.
  explicit Zstd(ZstdOptions options = {}) : options_{options} {
    const ::ZSTD_bounds can_be = ::ZSTD_dParam_getBounds(ZSTD_d_windowLogMax);
    if (options.window_log < can_be.lowerBound || options.window_log > can_be.upperBound) {
      throw OptionError{"penstock: Zstd: .window_log is " + std::to_string(options.window_log) +
                        ": give " + std::to_string(can_be.lowerBound) + " to " +
                        std::to_string(can_be.upperBound) + "."};
    }
  }
  /// Has the same options, and stands at the beginning of a frame.
  /// @{
  Zstd(const Zstd& other) : Zstd{other.options_} {}
  Zstd& operator=(const Zstd& other) {
    options_ = other.options_;
    context_.reset();
    return *this;
  }
  /// @}
  /// Move the state too; what was moved from is of no more use.
  /// @{
  Zstd(Zstd&&) = default;
  Zstd& operator=(Zstd&&) = default;
  /// @}
  ~Zstd() = default;

  /// See Codec.
  Decompressed feed(std::span<const std::byte> in, std::span<std::byte> out) {
    if (!context_) {
      context_.reset(::ZSTD_createDCtx());
      if (!context_) {
        throw std::bad_alloc{};
      }
      ::ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, options_.window_log);
    }
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t left = ::ZSTD_decompressStream(context_.get(), &to, &from);
    const bool failed = ::ZSTD_isError(left) != 0;
    return {from.pos, to.pos,
            failed      ? Decompressed::State::damaged
            : left == 0 ? Decompressed::State::end
                        : Decompressed::State::more,
            failed ? why(left) : ""};
  }
  /// See Codec.
  void restart() {
    if (context_) {
      ::ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only);
    }
  }
  /// See Codec.
  std::optional<std::uint64_t> claimed(std::span<const std::byte> frame) const {
    const unsigned long long size = ::ZSTD_getFrameContentSize(frame.data(), frame.size());
    if (size == ZSTD_CONTENTSIZE_ERROR) {
      return 0; // feed() says what is wrong
    }
    return size == ZSTD_CONTENTSIZE_UNKNOWN ? std::nullopt : std::optional<std::uint64_t>{size};
  }
  /// Finds frames by the seek table of zstd's seekable format, or else by the frames' headers, all
  /// of which must say how many bytes they hold. See FramedCodec.
  void index(const FrameFile& file, FrameIndex& into) const { detail::index_zstd(file, into); }
  /// See FramedCodec.
  Decompressed whole(const Frame& frame, std::span<const std::byte> in, std::span<std::byte> out) {
    Decompressed all = detail::feed_whole(*this, in, out);
    if (frame.kind == detail::zstd_frame_checked && all.state == Decompressed::State::end &&
        static_cast<std::uint32_t>(detail::xxhash<std::uint64_t>(out.first(all.made))) !=
            frame.checksum) {
      all.state = Decompressed::State::damaged;
      all.why = "another checksum than the seek table says: copy or download it again";
    }
    return all;
  }

 private:
  static const char* why(std::size_t result) {
    switch (::ZSTD_getErrorCode(result)) {
    case ZSTD_error_memory_allocation:
      throw std::bad_alloc{};
    case ZSTD_error_dictionary_wrong:
      return "a frame that needs a dictionary, which nobody can give here: compress it without one";
    case ZSTD_error_frameParameter_windowTooLarge:
      return "a frame whose window is larger than .window_log allows: give ps::Zstd a larger one, "
             "such as {.window_log = 31}";
    case ZSTD_error_checksum_wrong:
      return "a checksum that does not fit: copy or download it again";
    case ZSTD_error_prefix_unknown:
      return "bytes that begin no zstd frame: cut off what another program has left there";
    default:
      return "damaged data: copy or download it again";
    }
  }

  struct Free {
    void operator()(ZSTD_DCtx* context) const noexcept { ::ZSTD_freeDCtx(context); }
  };
  ZstdOptions options_;
  std::unique_ptr<ZSTD_DCtx, Free> context_;
};

} // namespace penstock
