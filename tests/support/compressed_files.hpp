// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

#include <lz4.h>
#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

namespace penstock::tests {

/// Returns a zstd frame of a text, with a checksum, and with its size if `sized`.
inline std::string zstd_frame(const std::string& text, bool sized = true) {
  ZSTD_CCtx* const context = ::ZSTD_createCCtx();
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, sized ? 1 : 0);
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string compressed(::ZSTD_compressBound(text.size()), '\0');
  compressed.resize(
      ::ZSTD_compress2(context, compressed.data(), compressed.size(), text.data(), text.size()));
  ::ZSTD_freeCCtx(context);
  return compressed;
}
/// Returns an LZ4 frame of a text, with a checksum, and with its size if `sized`.
inline std::string lz4_frame(const std::string& text, bool sized = true) {
  LZ4F_preferences_t how{};
  how.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
  how.frameInfo.contentSize = sized ? text.size() : 0;
  std::string compressed(::LZ4F_compressFrameBound(text.size(), &how), '\0');
  compressed.resize(
      ::LZ4F_compressFrame(compressed.data(), compressed.size(), text.data(), text.size(), &how));
  return compressed;
}
/// Returns an LZ4 block of a text.
inline std::string lz4_block(const std::string& text) {
  const int size = static_cast<int>(text.size());
  std::string compressed(static_cast<std::size_t>(::LZ4_compressBound(size)), '\0');
  compressed.resize(static_cast<std::size_t>(::LZ4_compress_default(
      text.data(), compressed.data(), size, static_cast<int>(compressed.size()))));
  return compressed;
}
/// Returns a gzip member of a text.
inline std::string gzip_member(const std::string& text) {
  z_stream stream{};
  REQUIRE(::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string compressed(::deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  compressed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return compressed;
}
/// Returns a frame of zstd or LZ4 that is to be skipped.
inline std::string skippable_frame() {
  return std::string("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
}
/// Returns `count` lines, of which each says its number.
inline std::string numbered_lines(std::size_t count, const std::string& name = {}) {
  std::string text;
  for (std::size_t i = 0; i != count; ++i) {
    text += name + " line " + std::to_string(i) + std::string(i % 37, '.') + '\n';
  }
  return text;
}

} // namespace penstock::tests
