// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/formats/inflate.hpp>

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>

#include <zlib.h>

namespace penstock {

/// Inflates by zlib, which the program must link (-lz): for NpzOptions::inflate. See Inflate.
inline Inflated zlib_inflate(const detail::Borrowed<std::span<const std::byte>()>& next,
                             std::span<std::byte> into) {
  constexpr int no_header = -15; // with the largest window there is
  constexpr std::size_t most_at_once = std::size_t{1} << 30;
  z_stream stream{};
  if (::inflateInit2(&stream, no_header) != Z_OK) {
    throw std::bad_alloc{};
  }
  struct Ender {
    z_stream& stream;
    ~Ender() { ::inflateEnd(&stream); }
  } const ender{stream};
  Inflated done;
  int result = Z_OK;
  bool used_up = true;
  while (result == Z_OK) {
    if (used_up) {
      const std::span<const std::byte> piece = next();
      if (piece.empty()) {
        done.end = Inflated::End::cut;
        return done;
      }
      stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(piece.data()));
      stream.avail_in = static_cast<uInt>(piece.size());
    }
    // The end may lie in further data, so one byte more has room, which must stay empty.
    Bytef beyond = 0;
    const std::span<std::byte> room = into.subspan(done.bytes);
    const auto most = static_cast<uInt>(std::clamp<std::size_t>(room.size(), 1, most_at_once));
    stream.next_out = room.empty() ? &beyond : reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = most;
    result = ::inflate(&stream, Z_NO_FLUSH);
    if (room.empty() && stream.avail_out == 0) {
      done.end = Inflated::End::longer;
      return done;
    }
    done.bytes += room.empty() ? 0 : most - stream.avail_out;
    // Without room left, more may come of what it has taken in.
    used_up = stream.avail_in == 0 && stream.avail_out != 0;
    result = result == Z_BUF_ERROR && used_up ? Z_OK : result;
  }
  if (result == Z_MEM_ERROR) {
    throw std::bad_alloc{};
  }
  done.end = result == Z_STREAM_END ? Inflated::End::whole : Inflated::End::damaged;
  done.unused = stream.avail_in;
  done.crc32 = static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(into.data()), done.bytes));
  return done;
}

} // namespace penstock
