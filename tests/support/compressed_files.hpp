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
/// Returns bytes of a number, the lowest first.
inline std::string little_endian(std::uint64_t number, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i != bytes; ++i) {
    text += static_cast<char>(number >> 8 * i);
  }
  return text;
}
/// Returns frames of `each` bytes of a text.
template <class Frame>
std::string in_frames(const std::string& text, std::size_t each, Frame frame) {
  std::string all;
  for (std::size_t at = 0; at < text.size(); at += each) {
    all += frame(text.substr(at, each));
  }
  return all;
}
/// A file of zstd's seekable format, and the number of its frames.
struct SeekableZstd {
  std::string frames;
  std::string entries;
  std::uint32_t count{};

  /// Adds a frame, of which the table says these sizes.
  void add(const std::string& frame, std::uint64_t bytes, bool checked) {
    frames += frame;
    entries += little_endian(frame.size(), 4) + little_endian(bytes, 4);
    entries += checked ? frame.substr(frame.size() - 4) : ""; // the frame's own is the same
    ++count;
  }
  std::string file(bool checked) const {
    return frames + "\x5e\x2a\x4d\x18" + little_endian(entries.size() + 9, 4) + entries +
           little_endian(count, 4) + (checked ? '\x80' : '\0') + "\xb1\xea\x92\x8f";
  }
};
/// Returns a text in zstd's seekable format, whose frames do not say their sizes.
inline std::string seekable_zstd(const std::string& text, std::size_t each, bool checked) {
  SeekableZstd all;
  for (std::size_t at = 0; at < text.size(); at += each) {
    const std::string some = text.substr(at, each);
    all.add(zstd_frame(some, false), some.size(), checked);
  }
  return all.file(checked);
}
/// Returns a block of BGZF: a member of gzip that says its size in a field of its own.
inline std::string bgzf_block(const std::string& text) {
  const std::string member = gzip_member(text);
  std::string block = member.substr(0, 3) + '\4' + member.substr(4, 6);
  block += std::string("\6\0BC\2\0", 6) + little_endian(member.size() + 7, 2);
  return block + member.substr(10);
}
/// Returns a text in LZ4 frames of independent blocks of 64 KiB.
inline std::string lz4_blocks(const std::string& text, bool sized, bool checked,
                              bool linked = false) {
  LZ4F_preferences_t how{};
  how.frameInfo.blockSizeID = LZ4F_max64KB;
  how.frameInfo.blockMode = linked ? LZ4F_blockLinked : LZ4F_blockIndependent;
  how.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
  how.frameInfo.blockChecksumFlag = checked ? LZ4F_blockChecksumEnabled : LZ4F_noBlockChecksum;
  how.frameInfo.contentSize = sized ? text.size() : 0;
  std::string compressed(::LZ4F_compressFrameBound(text.size(), &how), '\0');
  compressed.resize(
      ::LZ4F_compressFrame(compressed.data(), compressed.size(), text.data(), text.size(), &how));
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
