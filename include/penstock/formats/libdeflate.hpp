// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/codec.hpp>
#include <penstock/formats/detail/bgzf_frames.hpp>
#include <penstock/formats/detail/gzip_size.hpp>
#include <penstock/formats/frames.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>

#include <libdeflate.h>

// Needs libdeflate (Debian: libdeflate-dev), which the program must link: -ldeflate.
namespace penstock {

/// Decompresses whole members of gzip by libdeflate, which is faster than zlib: for records, see
/// decompressed(). Gzip takes files. See Codec.
class GzipRecord {
 public:
  /// The format's name.
  static constexpr const char* name = "gzip";
  /// It takes whole members.
  static constexpr bool streams = false;

  /// Takes no memory before it is fed.
  GzipRecord() = default;
  /// Needs nothing of the other.
  /// @{
  GzipRecord(const GzipRecord&) noexcept {}
  GzipRecord& operator=(const GzipRecord&) noexcept { return *this; }
  /// @}
  /// Move the memory too.
  /// @{
  GzipRecord(GzipRecord&&) = default;
  GzipRecord& operator=(GzipRecord&&) = default;
  /// @}
  ~GzipRecord() = default;

  /// See Codec.
  Decompressed feed(std::span<const std::byte> in, std::span<std::byte> out) {
    if (!decompressor_) {
      decompressor_.reset(::libdeflate_alloc_decompressor());
      if (!decompressor_) {
        throw std::bad_alloc{};
      }
    }
    std::byte nothing{}; // for no room, which has no address
    std::size_t used = 0;
    std::size_t made = 0;
    const ::libdeflate_result result = ::libdeflate_gzip_decompress_ex(
        decompressor_.get(), in.data(), in.size(), out.empty() ? &nothing : out.data(), out.size(),
        &used, &made);
    if (result == LIBDEFLATE_SUCCESS) {
      return {used, made, Decompressed::State::end};
    }
    return {0, 0, Decompressed::State::damaged,
            result == LIBDEFLATE_INSUFFICIENT_SPACE
                ? "more bytes than there is room for, or it was cut: copy or download it again"
                : "damaged data, or it was cut: copy or download it again"};
  }
  /// See Codec.
  void restart() {}
  /// See Codec.
  std::optional<std::uint64_t> claimed(std::span<const std::byte> frame) const {
    return detail::gzip_size(frame);
  }
  /// Finds the blocks of BGZF. See FramedCodec.
  void index(const FrameFile& file, FrameIndex& into) const { detail::index_bgzf(file, into); }
  /// See FramedCodec.
  Decompressed whole(const Frame&, std::span<const std::byte> in, std::span<std::byte> out) {
    return detail::feed_whole(*this, in, out);
  }

 private:
  struct Free {
    void operator()(::libdeflate_decompressor* it) const noexcept {
      ::libdeflate_free_decompressor(it);
    }
  };
  std::unique_ptr<::libdeflate_decompressor, Free> decompressor_;
};

} // namespace penstock
