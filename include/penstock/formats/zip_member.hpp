// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/formats/detail/zip_directory.hpp>
#include <penstock/formats/npz_options.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/held_bytes.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::detail {

/// A member of an archive, which is to be read: checks what its own header says, and inflates it.
class ZipMember {
 public:
  /// All must outlive this.
  ZipMember(const HeaderFile& file, const ZipEntry& entry) : file_{file}, entry_{entry} {}

  bool is_stored() const noexcept { return entry_.method == stored; }
  /// Returns where in the file its bytes begin. Allocates at most 64 KiB. Throws SourceError.
  [[gnu::cold]] std::uint64_t begin() const {
    check_method();
    constexpr std::size_t fixed_bytes = 30;
    std::array<std::byte, fixed_bytes> own;
    file_.read(entry_.offset, own);
    const std::size_t name = zip_number<std::uint16_t>(own.data() + 26);
    Vector<std::byte> rest(name + zip_number<std::uint16_t>(own.data() + 28));
    const std::uint64_t begin = entry_.offset + fixed_bytes + rest.size();
    if (zip_number<std::uint32_t>(own.data()) != 0x04034b50) {
      refuse({"has no header before it"});
    }
    if (begin > entry_.most_at || entry_.most_at - begin < entry_.packed) {
      refuse({"has ", entry_.packed, " bytes from byte ", begin,
              " on, and something else begins "
              "at byte ",
              entry_.most_at});
    }
    file_.read(entry_.offset + fixed_bytes, {rest.data(), rest.size()});
    if (std::string_view{reinterpret_cast<const char*>(rest.data()), name} != entry_.name) {
      refuse({"has another name in its own header"});
    }
    if (zip_number<std::uint16_t>(own.data() + 8) != entry_.method ||
        ((zip_number<std::uint16_t>(own.data() + 6) ^ entry_.flags) & is_encrypted) != 0) {
      refuse({"is packed in another way by what its own header says"});
    }
    check_sizes(own, std::span{rest.data(), rest.size()}.subspan(name));
    return begin;
  }

  /// Returns the bytes of one that is deflated and whose bytes begin at `begin`. Throws
  /// SourceError, what is thrown by reading, and std::bad_alloc.
  [[gnu::cold]] Shared<HeldBytes> inflated(std::uint64_t begin, Inflate inflate,
                                           const Shared<BytesLeft>& left) const {
    if (!inflate) {
      file_.refuse(entry_.offset,
                   {"has the member \"", shown(entry_.name),
                    "\" deflated, as "
                    "np.savez_compressed() writes it: include penstock/sources/zlib_inflate.hpp "
                    "and set .inflate = ps::zlib_inflate, or write it by np.savez()."});
    }
    // No deflated data is shorter by a larger factor.
    if (constexpr std::uint64_t most_factor = 1032; entry_.bytes / most_factor > entry_.packed) {
      refuse({"has ", entry_.packed, " bytes and cannot be inflated to ", entry_.bytes});
    }
    TakenBytes taken{left, entry_.bytes};
    if (!taken) {
      file_.refuse(entry_.offset,
                   {"has the member \"", shown(entry_.name), "\", which inflated has ",
                    entry_.bytes, " bytes, and of .inflated_bytes ", left->now(),
                    " are left: raise this option of ps::npz, or write it by np.savez(), which is "
                    "read without memory."});
    }
    auto held = new_shared<HeldBytes>(std::move(taken));
    std::uint64_t at = begin;
    Vector<std::byte> piece(std::size_t{std::min<std::uint64_t>(entry_.packed, most_piece)});
    const auto next = [&]() -> std::span<const std::byte> {
      const auto bytes = static_cast<std::size_t>(
          std::min<std::uint64_t>(piece.size(), begin + entry_.packed - at));
      file_.read(at, {piece.data(), bytes});
      at += bytes;
      return {piece.data(), bytes};
    };
    const Inflated done = inflate(next, held->bytes());
    check(done, begin + entry_.packed - at);
    return held;
  }

 private:
  static constexpr std::uint16_t stored = 0;
  static constexpr std::uint16_t deflated = 8;
  static constexpr std::uint16_t is_encrypted = 1 | 1 << 6 | 1 << 13;
  static constexpr std::uint16_t sizes_stand_behind = 1 << 3;
  static constexpr std::uint64_t most_piece = std::uint64_t{256} << 10;

  void check_method() const {
    if ((entry_.flags & is_encrypted) != 0) {
      file_.refuse(entry_.offset, {"has the encrypted member \"", shown(entry_.name),
                                   "\", which is not read: unpack it, and save it by np.savez()."});
    }
    if (entry_.method != stored && entry_.method != deflated) {
      const std::string_view name = entry_.method == 12   ? " (bzip2)"
                                    : entry_.method == 14 ? " (LZMA)"
                                    : entry_.method == 93 ? " (zstd)"
                                    : entry_.method == 95 ? " (xz)"
                                                          : "";
      refuse({"is packed by method ", unsigned{entry_.method}, name,
              ", and stored and deflated ones are read"});
    }
    if (is_stored() && entry_.packed != entry_.bytes) {
      refuse({"is stored, takes ", entry_.packed, " bytes, and has ", entry_.bytes});
    }
  }
  // A program that could not go back and fill them in has written zeros.
  void check_sizes(std::span<const std::byte> own, std::span<const std::byte> extra) const {
    std::uint64_t packed = zip_number<std::uint32_t>(own.data() + 18);
    std::uint64_t bytes = zip_number<std::uint32_t>(own.data() + 22);
    const auto crc = zip_number<std::uint32_t>(own.data() + 14);
    static_cast<void>(take_zip64(extra, {&bytes, &packed}));
    const bool none = (zip_number<std::uint16_t>(own.data() + 6) & sizes_stand_behind) != 0 &&
                      packed == 0 && bytes == 0 && crc == 0;
    if (!none && (packed != entry_.packed || bytes != entry_.bytes || crc != entry_.crc)) {
      refuse({"has ", bytes, " bytes, packed ", packed, ", by its own header, and ", entry_.bytes,
              ", packed ", entry_.packed, ", by the directory, or another CRC-32"});
    }
  }
  // What was not handed out is not used either.
  void check(const Inflated& done, std::uint64_t not_read) const {
    switch (done.end) {
    case Inflated::End::damaged:
      refuse({"is no deflated data behind the first ", done.bytes, " bytes"});
    case Inflated::End::longer:
      refuse({"inflates to more than the ", entry_.bytes, " bytes that the directory says"});
    case Inflated::End::cut:
      refuse({"inflates to ", done.bytes, " bytes and goes on behind its own"});
    case Inflated::End::whole:
      break;
    }
    if (done.bytes != entry_.bytes || done.unused + not_read != 0) {
      refuse({"inflates to ", done.bytes, " bytes of the ", entry_.bytes,
              " that the directory says, and leaves ", done.unused + not_read, " of its own"});
    }
    if (done.crc32 != entry_.crc) {
      refuse({"inflates to bytes of another CRC-32 than the directory says"});
    }
  }
  [[noreturn, gnu::cold]] void refuse(std::initializer_list<Piece> what) const {
    file_.refuse(entry_.offset,
                 {"has the member \"", shown(entry_.name), "\", which ", joined(what),
                  ". The archive is damaged, or was not written by NumPy: write it anew."});
  }

  const HeaderFile& file_;
  const ZipEntry& entry_;
};

} // namespace penstock::detail
