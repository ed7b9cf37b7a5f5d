// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/formats/array_options.hpp>
#include <penstock/formats/detail/array_columns.hpp>
#include <penstock/formats/detail/array_files.hpp>
#include <penstock/formats/detail/array_header.hpp>
#include <penstock/formats/detail/npy_header.hpp>
#include <penstock/formats/detail/zip_directory.hpp>
#include <penstock/formats/npz_options.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/held_bytes.hpp>
#include <penstock/sources/detail/paths.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
                    "np.savez_compressed() writes it: include penstock/formats/zlib_inflate.hpp "
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
  [[noreturn, gnu::cold]] void refuse(std::initializer_list<TextPart> what) const {
    file_.refuse(entry_.offset,
                 {"has the member \"", shown(entry_.name), "\", which ", joined(what),
                  ". The archive is damaged, or was not written by NumPy: write it anew."});
  }

  const HeaderFile& file_;
  const ZipEntry& entry_;
};

/// The array of one name in .npz files, which are ZIP archives of .npy files.
class NpzFormat {
 public:
  static constexpr const char* call = "npz";
  static constexpr std::string_view suffix = ".npy";
  static constexpr bool all_columns_a_file = true;

  /// `left` is for all arrays of a source.
  NpzFormat(std::string_view name, Inflate inflate, Shared<BytesLeft> left)
      : member_{joined({name, suffix})}, inflate_{inflate}, left_{std::move(left)} {}

  /// Returns what is in a file. Throws SourceError, and std::bad_alloc.
  [[gnu::cold]] CheckedArray array(const HeaderFile& file, const WantedArray& wanted) const {
    const ZipDirectory directory{file};
    const ZipEntry& entry = directory.find(member_);
    const ZipMember member{file, entry};
    const std::uint64_t begin = member.begin();
    if (member.is_stored()) {
      const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
        file.read(begin + at, into);
      };
      CheckedArray array =
          checked({file.path(), {member_, begin, true}, entry.bytes, read}, wanted);
      array.offset += begin;
      return array;
    }
    Shared<HeldBytes> held = member.inflated(begin, inflate_, left_);
    const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
      std::copy_n(held->bytes().data() + at, into.size(), into.data());
    };
    CheckedArray array = checked({file.path(), {member_, begin, false}, entry.bytes, read}, wanted);
    array.in_memory = std::move(held);
    return array;
  }
  /// Returns what messages call the array in the file.
  std::string named(const std::string& path) const { return joined({member_, " in ", path}); }

 private:
  static CheckedArray checked(const HeaderFile& file, const WantedArray& wanted) {
    return checked_array(file, npy_header(file), wanted);
  }

  std::string member_;
  Inflate inflate_;
  Shared<BytesLeft> left_;
};

} // namespace penstock::detail

namespace penstock {

/// A source of the records of arrays in .npz files, as NumPy's np.savez() and np.savez_compressed()
/// write them. Made by npz(). Copies share what open() has opened. Io makes the system calls: see
/// PosixIo.
template <class T, class Io = PosixIo>
using Npz = typename detail::arrays_of<T, detail::NpzFormat, Io>::type;

/// Makes a source of one array of a .npz file, by the name that it was saved with: `npz<float>(
/// "x.npz", "price")`; or of several files, a list of paths or a directory, whose arrays of that
/// name follow each other along their first axis. A record, the types and what is refused are those
/// of npy(). What np.savez() wrote is read in place, from any number of threads at once, and its
/// CRC-32 is not looked at. What np.savez_compressed() wrote needs NpzOptions::inflate: open()
/// inflates the array into memory, within NpzOptions::inflated_bytes, and compares its CRC-32.
/// Refused when it is opened, by name: an archive that is damaged, split, or has something before
/// or behind it; members that overlap, or of one name; and an array that is encrypted, packed in
/// another way, or of other sizes than the archive says. It touches no file before open(), which
/// prepare() calls. The files must stay as they are while they are read.
template <class T, class Io = PosixIo>
  requires(!detail::HasColumns<T>)
Npz<T, Io> npz(detail::Paths files, std::string_view name, NpzOptions options = {}, Io io = {}) {
  return Npz<T, Io>{
      std::move(files).take(),
      {.direct = options.direct},
      std::move(io),
      {},
      {name, options.inflate, detail::new_shared<detail::BytesLeft>(options.inflated_bytes)}};
}
/// Makes a source of columns, each the array of the column's name: `npz<Sample>("x.npz")`. An
/// array's type is that of its column, and its shape, behind the first axis, the column's extents,
/// one of which may be `dynamic`. All columns have equally many records.
template <detail::HasColumns Schema, class Io = PosixIo>
Npz<Schema, Io> npz(detail::Paths files, NpzOptions options = {}, Io io = {}) {
  const std::vector<std::string> paths = std::move(files).take();
  const auto left = detail::new_shared<detail::BytesLeft>(options.inflated_bytes);
  return [&]<class... Fields>(Columns<Fields...>*) {
    const auto same = [&]<class>() { return paths; };
    return Npz<Schema, Io> {
      {same.template operator()<Fields>()...},
      {.direct = options.direct},
      std::move(io),
      {detail::NpzFormat{Fields::name::text, options.inflate, left}...}
    };
  }(static_cast<typename detail::columns_of<Schema>::type*>(nullptr));
}
/// Returns the arrays of a .npz file, in its order; other members are left out. Reads the end of
/// the file alone. Blocks; any thread. Throws SourceError.
template <class Io = PosixIo> std::vector<NpzArray> npz_arrays(std::string path, Io io = {}) {
  const File<Io> file{io, std::move(path)};
  const auto read = [&](std::uint64_t at, std::span<std::byte> into) { read_full(file, at, into); };
  const detail::HeaderFile whole{file.path(), file.size(), read};
  const detail::ZipDirectory directory{whole};
  std::vector<NpzArray> arrays;
  for (const detail::ZipEntry& entry : directory.entries()) {
    if (entry.name.ends_with(detail::NpzFormat::suffix)) {
      const std::size_t length = entry.name.size() - detail::NpzFormat::suffix.size();
      arrays.push_back({std::string{entry.name.substr(0, length)}, entry.bytes, entry.method == 8});
    }
  }
  return arrays;
}
/// Refuses an array without a name.
template <class T>
  requires(!detail::HasColumns<T>)
Npz<T> npz(detail::Paths files) {
  constexpr bool named = !sizeof(T);
  static_assert(named, "penstock: npz<T>(files, name) reads one array of an archive: give the name "
                       "that it was saved with, such as \"arr_0\".");
  return npz<T>(std::move(files), {});
}

} // namespace penstock
