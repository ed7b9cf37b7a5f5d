// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/packed.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/formats/packed/detail/packed_layout.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What a packed file has.
struct PackedFile {
  std::uint64_t records{};
  std::vector<PackedColumn> columns{};
};

/// Reads the header and the index of a packed file, and checks all of them: see docs/packed.md.
/// Takes at most some 30 times the index's bytes of memory, which the file must have. Throws
/// SourceError.
class PackedFileReader {
 public:
  /// The header lies at byte `at`, and chunks and the index anywhere in the file.
  explicit PackedFileReader(const HeaderFile& file, std::uint64_t at = 0)
      : file_{file}, header_at_{at} {}

  [[gnu::cold]] PackedFile read() {
    read_header();
    for (std::size_t i = 0; i != count_; ++i) {
      made_.columns.push_back(column(i));
      at_ += packed_column_bytes;
    }
    for (PackedColumn& column : made_.columns) {
      read_tables(column);
    }
    for (PackedColumn& column : made_.columns) {
      read_chunks(column);
    }
    if (at_ != index_.size()) {
      refuse(at_, {"has ", index_.size() - at_, " bytes behind the end of its index"});
    }
    return std::move(made_);
  }

 private:
  /// Refuses the file at this byte of its index.
  [[noreturn, gnu::cold, gnu::noinline]] void refuse(std::uint64_t at,
                                                     std::initializer_list<TextPart> what) const {
    file_.refuse(index_at_ + at, {joined(what), ": write or fetch the file again."});
  }

  void read_header() {
    if (header_at_ == 0 && !file_.begins_with(packed_magic)) {
      refuse_foreign(file_);
      refuse(0, {"does not begin as a packed file does: it is of another format, or damaged"});
    }
    std::byte header[packed_header_bytes];
    file_.read(header_at_, header);
    const auto version = number_at<std::uint32_t>(header + 8, false);
    if (version != packed_version) {
      file_.refuse(header_at_ + 8,
                   {"says that it is of version ", version, ", and only version ", packed_version,
                    " is known: pack the data again, or read it by a newer "
                    "penstock."});
    }
    if (crc32c(std::span{header}.first(60)) != number_at<std::uint32_t>(header + 60, false)) {
      refuse(60, {"has a header with a wrong checksum"});
    }
    count_ = number_at<std::uint32_t>(header + 12, false);
    made_.records = number_at<std::uint64_t>(header + 16, false);
    const auto at = number_at<std::uint64_t>(header + 24, false);
    const auto bytes = number_at<std::uint64_t>(header + 32, false);
    if (count_ == 0 || count_ > packed_most_columns) {
      refuse(12, {"says that it has ", count_, " columns, where 1 to ", packed_most_columns,
                  " can be"});
    }
    if (at < header_at_ + packed_header_bytes || at % packed_alignment != 0 || at > file_.size() ||
        bytes != file_.size() - at || bytes < count_ * packed_column_bytes) {
      refuse(24, {"says that its index has ", bytes, " bytes from byte ", at,
                  " on, and the file has ", file_.size(), " bytes"});
    }
    index_.resize(bytes);
    file_.read(at, index_);
    index_at_ = at;
    if (crc32c(index_) != number_at<std::uint32_t>(header + 56, false)) {
      refuse(0, {"begins an index with a wrong checksum"});
    }
  }

  template <class T> T number(std::size_t at) const {
    return number_at<T>(index_.data() + at_ + at, false);
  }
  /// Returns whether so many bytes of the index are left.
  bool has(std::uint64_t bytes) const noexcept { return bytes <= index_.size() - at_; }

  std::string name() {
    const std::string_view text{reinterpret_cast<const char*>(index_.data() + at_),
                                packed_name_bytes};
    const std::string_view whole = text.substr(0, text.find('\0'));
    const bool good = !whole.empty() && whole.size() != text.size() && prints_whole(whole) &&
                      text.find_first_not_of('\0', whole.size()) == std::string_view::npos;
    if (!good || !names_.emplace(whole).second) {
      refuse(at_, {"begins a column whose name is no name, or another column's"});
    }
    return std::string{whole};
  }

  static bool fits(PackedCodec codec, ValueType type) noexcept {
    switch (codec) {
    case PackedCodec::raw:
    case PackedCodec::bits:
      return true;
    case PackedCodec::bytes:
      return type.bytes == 1;
    case PackedCodec::float16:
      return type.bytes == 2;
    case PackedCodec::ranked:
      return (type.kind == 'u' || type.kind == 'i') && (type.bytes == 2 || type.bytes == 4);
    case PackedCodec::classes:
      return type.bytes == 1 || fits(PackedCodec::ranked, type);
    }
    return false;
  }

  PackedColumn column(std::size_t i) {
    PackedColumn column{name()};
    column.type = {static_cast<char>(number<std::uint8_t>(64)), number<std::uint8_t>(65)};
    column.code.codec = PackedCodec{number<std::uint8_t>(66)};
    const std::size_t extents = number<std::uint8_t>(67);
    column.chunk_values = number<std::uint32_t>(68);
    const auto ranks = number<std::uint32_t>(72);
    if (!is_packed_type(column.type) || !fits(column.code.codec, column.type)) {
      refuse(at_ + 64, {"says that column ", i, " has a type or a codec that there is none of"});
    }
    if (column.chunk_values == 0 || column.chunk_values % packed_block != 0 ||
        column.chunk_values > packed_chunk_bytes / column.type.bytes) {
      refuse(at_ + 68, {"says that chunks have ", column.chunk_values, " values"});
    }
    ranks_ += ranks;
    if (ranks > packed_most_ranks || 4 * ranks_ > index_.size() ||
        (ranks != 0) != has_ranks(column.code.codec)) {
      refuse(at_ + 72, {"says that there are ", ranks, " ranks"});
    }
    const bool has_classes = column.code.codec == PackedCodec::classes;
    const auto classes = number<std::uint32_t>(76);
    if (has_classes ? classes == 0 || classes > packed_most_classes : classes != 0) {
      refuse(at_ + 76, {"says that there are ", classes, " classes"});
    }
    // read_tables() fills these
    column.code.frequencies.resize(has_classes                          ? classes
                                   : has_frequencies(column.code.codec) ? 1U
                                                                        : 0U);
    column.code.symbols.resize(has_classes ? rans_symbols : 0);
    column.code.ranked.resize(ranks);
    std::uint64_t bytes = column.type.bytes;
    bool good = extents <= packed_most_extents;
    for (std::size_t k = 0; good && k != packed_most_extents; ++k) {
      const auto extent = number<std::uint64_t>(80 + 8 * k);
      if (k >= extents) {
        good = extent == 0;
        continue;
      }
      column.extents.push_back(extent);
      good = extent != 0 && !__builtin_mul_overflow(bytes, extent, &bytes);
    }
    good = good && !__builtin_mul_overflow(bytes, made_.records, &bytes) &&
           bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max());
    if (!good) {
      refuse(at_ + 80, {"has extents that cannot be, for ", made_.records, " records"});
    }
    return column;
  }

  void read_tables(PackedColumn& column) {
    const std::size_t ranks = column.code.ranked.size();
    if (!has(column.code.table_bytes())) {
      refuse(at_, {"ends, and tables should follow"});
    }
    for (RansFrequencies& table : column.code.frequencies) {
      for (std::size_t i = 0; i != table.of.size(); ++i) {
        table.of[i] = number<std::uint16_t>(2 * i);
      }
      if (!table.fit()) {
        refuse(at_, {"begins frequencies that do not add up to ", rans_entries});
      }
      at_ += sizeof table.of;
    }
    for (std::uint32_t& symbol : column.code.symbols) {
      symbol = number<std::uint32_t>(0);
      const auto its = PackedSymbol::of(symbol);
      const unsigned most_bits = column.type.bytes == 1 ? 0 : packed_most_following;
      if (its.bits > most_bits || its.rank + (std::uint64_t{1} << its.bits) > ranks ||
          its.its_class >= column.code.frequencies.size()) {
        refuse(at_, {"has a symbol that cannot stand for values"});
      }
      at_ += 4;
    }
    const std::uint32_t most = column.type.bytes == 1   ? 0xFFU
                               : column.type.bytes == 2 ? 0xFFFFU
                                                        : packed_most_ranks - 1;
    for (std::size_t rank = 0; rank != ranks; ++rank, at_ += 4) {
      column.code.ranked[rank] = number<std::uint32_t>(0);
      if (column.code.ranked[rank] > most) {
        refuse(at_, {"has a value that no rank can stand for"});
      }
    }
  }

  void read_chunks(PackedColumn& column) {
    const std::uint64_t values = column.record_values() * made_.records;
    const std::uint64_t chunks =
        values / column.chunk_values + (values % column.chunk_values != 0 ? 1 : 0);
    if (chunks > (index_.size() - at_) / packed_chunk_entry_bytes) {
      refuse(at_, {"should have ", chunks, " chunks of column ", column.name,
                   ", and its index ends before"});
    }
    column.chunks.reserve(chunks);
    for (std::uint64_t i = 0; i != chunks; ++i, at_ += packed_chunk_entry_bytes) {
      const auto codec = number<std::uint32_t>(12);
      const PackedPlace chunk{number<std::uint64_t>(0), number<std::uint32_t>(8),
                              static_cast<PackedCodec>(codec), number<std::uint32_t>(16),
                              number<std::uint32_t>(20)};
      const std::uint64_t here =
          std::min<std::uint64_t>(column.chunk_values, values - i * column.chunk_values);
      const bool raw = codec == static_cast<std::uint32_t>(PackedCodec::raw);
      if ((!raw && codec != static_cast<std::uint32_t>(column.code.codec)) ||
          chunk.at % packed_alignment != 0 || chunk.at < packed_header_bytes ||
          chunk.at > index_at_ || chunk.bytes > index_at_ - chunk.at ||
          (raw ? chunk.bytes != here * column.type.bytes
               : chunk.bytes >= here * column.type.bytes)) {
        refuse(at_, {"says what cannot be of chunk ", i, " of column ", column.name});
      }
      column.chunks.push_back(chunk);
    }
  }

  const HeaderFile& file_;
  std::uint64_t header_at_;
  PackedFile made_;
  std::set<std::string> names_;
  std::size_t count_ = 0;
  std::uint64_t index_at_ = 0;
  std::vector<std::byte> index_;
  std::size_t at_ = 0;      // of the index
  std::uint64_t ranks_ = 0; // of the columns so far
};

} // namespace penstock::detail
