// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/codec.hpp>
#include <penstock/formats/detail/bgzf_frames.hpp>
#include <penstock/formats/detail/gzip_size.hpp>
#include <penstock/formats/frames.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>

#include <zlib.h>

// Needs zlib (Debian: zlib1g-dev), which the program must link: -lz.
namespace penstock {

/// Decompresses members of gzip, BGZF's among them; its frames are members. The size that a member
/// says is behind it, and counts only the lowest 32 bits. See Codec.
class Gzip {
 public:
  /// The format's name.
  static constexpr const char* name = "gzip";
  /// It takes members in pieces.
  static constexpr bool streams = true;

  /// Takes no memory before it is fed.
  Gzip() = default;
  /// Stands at the beginning of a member.
  /// @{
  Gzip(const Gzip&) noexcept {}
  Gzip& operator=(const Gzip&) noexcept {
    stream_.reset();
    return *this;
  }
  /// @}
  /// Move the state too; what was moved from is of no more use.
  /// @{
  Gzip(Gzip&&) = default;
  Gzip& operator=(Gzip&&) = default;
  /// @}
  ~Gzip() = default;

  /// See Codec.
  Decompressed feed(std::span<const std::byte> in, std::span<std::byte> out) {
    constexpr std::size_t most_at_once = std::size_t{1} << 30;
    if (!stream_) {
      begin();
    }
    Bytef nothing = 0; // zlib wants an address for no room
    stream_->next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
    stream_->avail_in = static_cast<uInt>(std::min(in.size(), most_at_once));
    stream_->next_out = out.empty() ? &nothing : reinterpret_cast<Bytef*>(out.data());
    stream_->avail_out = static_cast<uInt>(std::min(out.size(), most_at_once));
    const uInt had = stream_->avail_in;
    const uInt room = stream_->avail_out;
    const int result = ::inflate(stream_.get(), Z_NO_FLUSH);
    Decompressed done{had - stream_->avail_in, room - stream_->avail_out,
                      Decompressed::State::more};
    if (result == Z_MEM_ERROR) {
      throw std::bad_alloc{};
    }
    if (result == Z_STREAM_END) {
      done.state = Decompressed::State::end;
      ::inflateReset(stream_.get());
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      done.state = Decompressed::State::damaged;
      done.why = why();
    }
    return done;
  }
  /// See Codec.
  void restart() {
    if (stream_) {
      ::inflateReset(stream_.get());
    }
  }
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
  void begin() {
    constexpr int gzip_alone = 15 + 16; // with the largest window there is
    auto stream = std::make_unique<z_stream>();
    if (::inflateInit2(stream.get(), gzip_alone) != Z_OK) {
      throw std::bad_alloc{};
    }
    stream_.reset(stream.release());
  }
  const char* why() const {
    const std::string_view said = stream_->msg ? stream_->msg : "";
    return said == "incorrect data check" || said == "incorrect length check"
               ? "a checksum or a size that does not fit: copy or download it again"
           : said == "incorrect header check"
               ? "bytes that begin no gzip member: cut off what another program has left there"
               : "damaged data: copy or download it again";
  }

  struct End {
    void operator()(z_stream* stream) const noexcept {
      ::inflateEnd(stream);
      delete stream;
    }
  };
  std::unique_ptr<z_stream, End> stream_;
};

} // namespace penstock
