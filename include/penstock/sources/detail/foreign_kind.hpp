// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace penstock::detail {

/// Bytes with which a file of some kind begins, zeros among them.
struct Magic {
  template <std::size_t Size>
  constexpr Magic(const char (&text)[Size]) : bytes{text, Size - 1} {} // NOLINT: as a text
  std::string_view bytes;
};

/// A kind of files that has a reader of its own. It shows in the first bytes, and in those from
/// byte `then_at` on: all in all so many that no other file begins so by chance.
struct ForeignKind {
  Magic first;
  std::size_t then_at;
  Magic then;
  const char* is;
  const char* cure;
};

/// So many first bytes of a file tell of which kind it is.
inline constexpr std::size_t foreign_bytes = 264;

/// Kinds that are compressed as a whole. The cure is what unpacks them.
inline constexpr ForeignKind packed_kinds[]{
    {"\x1f\x8b\x08", 0, "", "gzip", "gunzip"},
    {"\x28\xb5\x2f\xfd", 0, "", "zstd", "zstd -d"},
    {"\x04\x22\x4d\x18", 0, "", "lz4", "lz4 -d"},
    {"\x02\x21\x4c\x18", 0, "", "lz4", "lz4 -d"},
    {"", 1, "\x2a\x4d\x18", "zstd or lz4", "zstd -d or lz4 -d"},
    {"\xfd\x37zXZ\0", 0, "", "xz", "xz -d"},
    {"BZh", 4, "1AY&SY", "bzip2", "bzip2 -d"},
    {"BZh", 4, "\x17\x72\x45\x38\x50\x90", "bzip2", "bzip2 -d"},
    {"LZIP\1", 0, "", "lzip", "lzip -d"},
    {"\x89LZO\0\r\n\x1a\n", 0, "", "lzop", "lzop -d"},
    {"\x1f\x9d\x90", 0, "", "compress", "uncompress"},
    {"\xff\x06\0\0sNaPpY", 0, "", "snappy", "snzip -d"},
};
/// Others.
inline constexpr ForeignKind other_kinds[]{
    {"PK\3\4", 0, "", "a ZIP archive", "read one of NumPy's by ps::npz, and unpack others"},
    {"PK\5\6", 0, "", "a ZIP archive without members", "write or fetch it again"},
    {"7z\xbc\xaf\x27\x1c", 0, "", "a 7z archive", "unpack it first"},
    {"Rar!\x1a\7", 0, "", "a RAR archive", "unpack it first"},
    {"", 257, "ustar\0", "a tar archive", "read it by ps::tar"},
    {"", 257, "ustar  ", "a tar archive", "read it by ps::tar"},
    {"\x93NUMPY", 0, "", "a .npy file", "read it by ps::npy"},
    {"MMIDIDX\0\0", 0, "", "an index of Megatron's",
     "name the file of tokens beside it, which ends in .bin"},
    {"TNTIDX\0\0", 0, "", "an index of an early Megatron", "build the data set again"},
    {"\x89PSPK\r\n\x1a", 0, "", "a packed file", "read it by ps::unpacked"},
    {"GGUF", 5, "\0\0\0", "a GGUF file", "convert it to safetensors, and read that"},
    {"PAR1\x15", 0, "", "a Parquet file", "write its columns as .npy files"},
    {"ARROW1\0\0", 0, "", "an Arrow file", "write its columns as .npy files"},
    {"FEA1", 5, "\0\0\0", "a Feather file", "write its columns as .npy files"},
    {"\x89HDF\r\n\x1a\n", 0, "", "an HDF5 file", "write its data sets as .npy files"},
    {"CDF\1", 4, "\0\0", "a NetCDF file", "write its variables as .npy files"},
    {"SQLite format 3\0", 0, "", "a database of SQLite's", "write its tables as files"},
    {"Obj\1", 6, "avro.", "an Avro file", "write its records as lines or .npy files"},
    {"\x80\4\x95", 8, "\0\0\0", "a pickle of Python's", "save what is in it as .npy files"},
    {"\x80\5\x95", 8, "\0\0\0", "a pickle of Python's", "save what is in it as .npy files"},
    {"\x80\2\x8a\x0a\x6c\xfc\x9c\x46", 0, "", "a file of torch.save()", "save it as safetensors"},
    {"\x89PNG\r\n\x1a\n", 0, "", "a PNG picture", "read it by ps::files and ps::png"},
    {"version https://git-lfs", 0, "", "a pointer of Git LFS's, and no data",
     "fetch these by git lfs pull"},
    {"%PDF-", 0, "", "a PDF file", "write what is in it as text"},
    {"\xff\xd8\xff", 6, "JFIF\0", "a JPEG picture", "read it by ps::files and ps::jpeg"},
    {"\xff\xd8\xff", 6, "Exif\0", "a JPEG picture", "read it by ps::files and ps::jpeg"},
    {"GIF89a", 0, "", "a GIF picture", "write it as PNG"},
    {"GIF87a", 0, "", "a GIF picture", "write it as PNG"},
    {"RIFF", 8, "WAVEfmt ", "a WAV file", "write its samples as .npy files"},
    {"MATLAB 5.0 MAT-file", 0, "", "a file of MATLAB's", "write its arrays as .npy files"},
    {"\x7f"
     "ELF",
     4, "\1\1\1", "a program", "name the file of data"},
    {"\x7f"
     "ELF",
     4, "\2\1\1", "a program", "name the file of data"},
};

inline bool is_kind(const ForeignKind& kind, std::string_view first) noexcept {
  return first.starts_with(kind.first.bytes) && first.size() >= kind.then_at &&
         first.substr(kind.then_at).starts_with(kind.then.bytes);
}

/// Returns whether a file of `size` bytes begins with a safetensors header's length and a '{'.
inline bool is_safetensors(std::string_view first, std::uint64_t size) noexcept {
  constexpr std::uint64_t most_header = 100'000'000;
  if (first.size() < 10 || first[8] != '{') {
    return false;
  }
  const auto* const bytes = reinterpret_cast<const std::byte*>(first.data());
  const auto length = number_at<std::uint64_t>(bytes, false);
  const bool member = std::string_view{"\"} \t\r\n"}.find(first[9]) != std::string_view::npos;
  return length >= 2 && length <= most_header && length <= size - 8 && member;
}

/// Returns how a file is compressed as a whole that begins so; null if it is not.
inline const ForeignKind* packed_kind(std::string_view first) noexcept {
  const auto* const found =
      std::find_if(std::begin(packed_kinds), std::end(packed_kinds), [&](const ForeignKind& kind) {
        const auto byte = [&](std::size_t at) {
          return at < first.size() ? static_cast<unsigned char>(first[at]) : 0xFFU;
        };
        const bool gzip = kind.first.bytes.starts_with("\x1f\x8b");
        const bool frame = kind.first.bytes.empty(); // of what is passed over
        return is_kind(kind, first) && !(gzip && (byte(3) & 0xE0U) != 0) &&
               !(frame && (byte(0) & 0xF0U) != 0x50);
      });
  return found == std::end(packed_kinds) ? nullptr : found;
}

/// Returns of which kind a file of `size` bytes is whose first foreign_bytes, or all, these are,
/// and what helps: "is …: …". Nothing of a kind that has no magic, such as text or numbers. Without
/// `others` it tells only how a file is compressed as a whole.
[[gnu::cold]] inline std::string foreign_kind(std::span<const std::byte> bytes, std::uint64_t size,
                                              bool others = true) {
  const std::string_view first{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  if (const ForeignKind* const packed = packed_kind(first)) {
    const std::string_view by = packed->is;
    const bool streams = by == "gzip" || by == "zstd" || by == "lz4";
    return joined({"is compressed by ", by, ": unpack it first, by ", packed->cure,
                   streams ? ", or read its records as they are by ps::interleaved."
                           : ", or read it whole by ps::files, and unpack it in a Decoder."});
  }
  if (!others) {
    return {};
  }
  const auto* const found =
      std::find_if(std::begin(other_kinds), std::end(other_kinds),
                   [&](const ForeignKind& kind) { return is_kind(kind, first); });
  if (found != std::end(other_kinds)) {
    return joined({"is ", found->is, ": ", found->cure, "."});
  }
  if (is_safetensors(first, size)) {
    return "is a safetensors file: read it by ps::safetensors.";
  }
  // llm.c's, as its train_gpt2.py and dev/data write them: a magic of the year 2024, and a version.
  constexpr std::uint32_t tokens[]{20240520, 20240801};
  constexpr std::uint32_t no_tokens[]{20240326, 20240327, 20240328, 20240522, 20240803};
  const std::uint32_t version =
      bytes.size() < 8 ? 0 : number_at<std::uint32_t>(bytes.data() + 4, false);
  if (version != 0 && version < 16) {
    const auto magic = number_at<std::uint32_t>(bytes.data(), false);
    if (std::find(std::begin(tokens), std::end(tokens), magic) != std::end(tokens)) {
      return "has llm.c's header of tokens: read it by ps::tokens.";
    }
    if (std::find(std::begin(no_tokens), std::end(no_tokens), magic) != std::end(no_tokens)) {
      return joined({"begins with llm.c's number ", magic,
                     ", as models, tokenizers and evaluations do: name a file of tokens."});
    }
  }
  if (bytes.size() >= 12 && number_at<std::uint64_t>(bytes.data(), false) <= size - 12) {
    const std::uint32_t crc = crc32c(bytes.first(8));
    if (number_at<std::uint32_t>(bytes.data() + 8, false) ==
        (crc >> 15 | crc << 17) + 0xA282'EAD8U) {
      return "is a TFRecord file: read it by ps::tfrecord.";
    }
  }
  return {};
}

/// Returns whether a file's name says that it is compressed as a whole.
[[gnu::cold]] inline bool is_named_packed(std::string_view path) noexcept {
  constexpr std::string_view endings[]{".gz", ".zst", ".lz4", ".xz", ".bz2", ".zip"};
  return std::any_of(std::begin(endings), std::end(endings),
                     [&](std::string_view ending) { return path.ends_with(ending); });
}

/// Throws SourceError if a file is of a kind that has a reader of its own: see foreign_kind().
/// `but` says what helps if it is none all the same.
[[gnu::cold]] inline void refuse_foreign(const HeaderFile& file, std::string_view but = {},
                                         bool others = true) {
  std::byte first[foreign_bytes];
  const std::span some =
      std::span{first}.first(std::size_t{std::min<std::uint64_t>(file.size(), foreign_bytes)});
  file.read(0, some);
  if (const std::string kind = foreign_kind(some, file.size(), others); !kind.empty()) {
    file.refuse(0, {kind, but});
  }
}

} // namespace penstock::detail
