// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/packed.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/array_header.hpp>
#include <penstock/formats/packed/detail/packed_layout.hpp>
#include <penstock/formats/packed/detail/packed_reader.hpp>
#include <penstock/formats/packed/detail/packed_tensors.hpp>
#include <penstock/host/unpack.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/file.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

/// A column that a schema wants of packed files; without a name, the only one, and then rows of
/// std::byte are those of any values.
struct WantedColumn {
  std::string_view name;
  ValueType type;
  std::vector<std::size_t> extents; // some may be dynamic
};

/// Returns of a file the columns that are wanted, in their order. Throws SourceError.
[[gnu::cold]] inline PackedFile wanted_of(const HeaderFile& file, PackedFile has,
                                          std::span<const WantedColumn> wanted) {
  PackedFile made{has.records, {}};
  for (const WantedColumn& want : wanted) {
    const auto its =
        std::find_if(has.columns.begin(), has.columns.end(), [&](const PackedColumn& column) {
          return want.name.empty() || column.name == want.name;
        });
    if (its == has.columns.end() || (want.name.empty() && has.columns.size() != 1)) {
      std::string names;
      for (const PackedColumn& column : has.columns) {
        names += (names.empty() ? "" : ", ") + column.name;
      }
      file.refuse(0, {"begins a packed file of the columns ", names, ", and ",
                      want.name.empty() ? "one alone" : want.name,
                      " is wanted: name columns that it has in a schema."});
    }
    const bool bytes = want.type == value_type_of<std::byte>();
    const bool rows = bytes && want.name.empty();
    const bool fits = std::equal(
        its->extents.begin(), its->extents.end(), want.extents.begin(), want.extents.end(),
        [](std::uint64_t is, std::size_t asked) { return asked == dynamic || asked == is; });
    if (!rows && ((its->type != want.type && !(bytes && its->type.bytes == 1)) || !fits)) {
      file.refuse(0, {"begins a packed file whose column ", its->name, " has ", name_of(its->type),
                      " of shape ", shape_of(its->extents), " a record, and ", name_of(want.type),
                      " of shape ", shape_of(want.extents),
                      " are wanted: give the type and the extents that the file has."});
    }
    made.columns.push_back(std::move(*its));
  }
  return made;
}

/// Packed files, one after the other, opened, and the columns of them that are wanted.
template <class Io> class PackedFiles {
 public:
  /// A wanted column of a file.
  struct Column {
    PackedColumn packed; // without its tables
    CodeTables tables;
  };
  /// A file that has records, or a tensor of one.
  struct Part {
    std::string path;
    std::uint64_t first_byte; // of the file, counted over all
    std::uint64_t first;      // number of its first record
    std::uint64_t records;
    std::vector<Column> columns; // those wanted
  };

  /// Opens the files, many side by side. Throws SourceError.
  PackedFiles(RecordFiles<Io> files, const PrepareOptions& preparing,
              std::span<const WantedColumn> wanted)
      : files_{std::move(files)} {
    files_.open(
        preparing, DirectReads::none, 0,
        [&](const File<Io>& file, std::size_t) {
          const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
            read_full(file, at, into);
          };
          const HeaderFile header{file.path(), file.size(), read};
          std::vector<PackedFile> all;
          if (std::optional<PackedTensors> tensors = read_packed_tensors(file, header)) {
            all = std::move(tensors->columns);
          } else {
            all.push_back(PackedFileReader{header}.read());
          }
          for (PackedFile& its : all) {
            its = wanted_of(header, std::move(its), wanted);
          }
          return all;
        },
        [&](std::vector<PackedFile>& all, const File<Io>& file, std::uint64_t before) {
          for (PackedFile& its : all) {
            add(std::move(its), file, before, wanted);
          }
          return RecordsAt{0, file.size()};
        });
  }

  const RecordFiles<Io>& files() const noexcept { return files_; }
  const std::vector<Part>& parts() const noexcept { return parts_; }
  /// Calls f(part, record, count) for each file that has some of the records.
  template <class F> void each_part(std::uint64_t at, std::uint64_t count, F f) const {
    auto part = std::upper_bound(
        parts_.begin(), parts_.end(), at,
        [](std::uint64_t record, const Part& its) { return record < its.first + its.records; });
    for (; count != 0; ++part) {
      const std::uint64_t here = std::min(part->first + part->records - at, count);
      f(*part, at - part->first, here);
      at += here;
      count -= here;
    }
  }
  std::uint64_t size() const noexcept {
    return parts_.empty() ? 0 : parts_.back().first + parts_.back().records;
  }
  /// Returns the dynamic extents of the wanted columns, in order.
  const std::vector<std::size_t>& extents() const noexcept { return extents_; }
  /// Returns the bytes of a record, where the wanted column has no name.
  std::size_t record_bytes() const noexcept { return record_bytes_; }

  /// Unpacks a wanted column of records that there are, from number `first` on. Each thread keeps
  /// 256 KiB of memory for it. Throws SourceError with file, offset and record.
  void read(std::size_t column, std::uint64_t first, std::uint64_t count, std::byte* to) const {
    each_part(first, count, [&](const Part& part, std::uint64_t record, std::uint64_t here) {
      const PackedColumn& its = part.columns[column].packed;
      const std::uint64_t values = its.record_values();
      to = Reading{*this, part, part.columns[column]}.run(record * values, here * values, to);
    });
  }
  /// Has the system read the chunks of these records into the page cache.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept {
    each_part(first, count, [&](const Part& part, std::uint64_t record, std::uint64_t here) {
      for (const Column& column : part.columns) {
        const PackedColumn& its = column.packed;
        const std::uint64_t values = its.record_values();
        const std::uint64_t last = ((record + here) * values - 1) / its.chunk_values;
        for (std::uint64_t i = record * values / its.chunk_values; i <= last; ++i) {
          files_.will_read(part.first_byte + its.chunks[i].at, its.chunks[i].bytes, 1);
        }
      }
    });
  }

 private:
  /// Reads values of a column, chunk by chunk.
  class Reading {
   public:
    Reading(const PackedFiles& all, const Part& part, const Column& column)
        : all_{all}, part_{part}, column_{column}, packed_{column.packed} {}

    /// Unpacks `count` values from `value` on. Returns the place behind them.
    std::byte* run(std::uint64_t value, std::uint64_t count, std::byte* to) {
      const std::uint64_t end = value + count;
      const std::uint64_t all = packed_.record_values() * part_.records;
      const std::size_t width = packed_.type.bytes;
      while (value != end) {
        const std::uint64_t number = value / packed_.chunk_values;
        const std::uint64_t begin = number * packed_.chunk_values;
        const auto has =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(packed_.chunk_values, all - begin));
        const std::uint64_t here = std::min(begin + has, end) - value;
        const bool whole = here == has && reinterpret_cast<std::uintptr_t>(to) % width == 0;
        std::byte* const into = whole ? to : scratch().data();
        unpack_chunk(number, (end - 1) / packed_.chunk_values, has, into);
        if (!whole) {
          std::memcpy(to, into + (value - begin) * width, here * width);
        }
        value += here;
        to += here * width;
      }
      return to;
    }

   private:
    // What chunks are read into, some that lie together at once; and behind it a chunk's values.
    static constexpr std::size_t held_bytes = std::size_t{128} << 10;
    static_assert(held_bytes + packed_chunk_bytes <= thread_buffer_bytes);
    static std::span<std::byte> scratch() { return thread_buffer().subspan(held_bytes); }

    void unpack_chunk(std::uint64_t number, std::uint64_t last, std::uint32_t values,
                      std::byte* to) {
      const PackedPlace& place = packed_.chunks[number];
      hold(number, last);
      const auto bytes = thread_buffer().subspan(place.at - begin_, place.bytes);
      if (crc32c(bytes) != place.packed_crc) {
        refuse(number, "has packed bytes with a wrong checksum");
      }
      if (!unpack({.packed = bytes.data(),
                   .packed_bytes = place.bytes,
                   .codec = place.codec,
                   .code = column_.tables.code(),
                   .values = values,
                   .first = 0,
                   .wanted = values,
                   .out = to})) {
        refuse(number, "is not packed as its codec says");
      }
      if (crc32c({to, std::size_t{values} * packed_.type.bytes}) != place.crc) {
        refuse(number, "gave values with a wrong checksum");
      }
    }
    /// Reads a chunk, and those up to `last` that lie right behind it, as many as there is room
    /// for.
    void hold(std::uint64_t number, std::uint64_t last) {
      const PackedPlace& place = packed_.chunks[number];
      if (place.at >= begin_ && place.at + place.bytes <= end_) {
        return;
      }
      std::uint64_t end = place.at + place.bytes;
      for (std::uint64_t next = number; next++ < last;) {
        const PackedPlace& other = packed_.chunks[next];
        const std::uint64_t gap = (packed_alignment - end % packed_alignment) % packed_alignment;
        if (other.at != end + gap || other.at + other.bytes - place.at > held_bytes) {
          break;
        }
        end = other.at + other.bytes;
      }
      begin_ = end_ = 0; // nothing, if it throws
      try {
        all_.files_.read_bytes(part_.first_byte + place.at, thread_buffer().first(end - place.at),
                               0);
      } catch (const SourceError& e) {
        throw_of_record(e, e.offset(), record_of(number));
      }
      begin_ = place.at;
      end_ = end;
    }
    std::uint64_t record_of(std::uint64_t number) const {
      return part_.first + number * packed_.chunk_values / packed_.record_values();
    }
    [[noreturn, gnu::cold, gnu::noinline]] void refuse(std::uint64_t number,
                                                       const char* what) const {
      throw_source_error({"penstock: unpacked: chunk ", number, " of column ", packed_.name, " of ",
                          part_.path, ", at byte ", packed_.chunks[number].at, ", ", what,
                          ": copy or pack the file again, or leave its records out by .on_error. "
                          "It begins with record ",
                          record_of(number), "."},
                         part_.path, packed_.chunks[number].at, record_of(number));
    }

    const PackedFiles& all_;
    const Part& part_;
    const Column& column_;
    const PackedColumn& packed_;
    std::uint64_t begin_ = 0; // of what is held of the file
    std::uint64_t end_ = 0;
  };

  [[gnu::cold]] void add(PackedFile file, const File<Io>& its, std::uint64_t before,
                         std::span<const WantedColumn> wanted) {
    std::vector<std::size_t> extents;
    std::size_t record_bytes = 0;
    for (std::size_t i = 0; i != wanted.size(); ++i) {
      const PackedColumn& column = file.columns[i];
      for (std::size_t k = 0; k != wanted[i].extents.size(); ++k) {
        if (wanted[i].extents[k] == dynamic) {
          extents.push_back(column.extents[k]);
        }
      }
      record_bytes = column.record_values() * column.type.bytes;
    }
    const bool unnamed = wanted.front().name.empty();
    if (!opened_.empty() && (extents != extents_ || (unnamed && record_bytes != record_bytes_))) {
      throw_source_error({"penstock: unpacked: ", its.path(), " has records of other extents than ",
                          opened_,
                          ": read files of equal records together, and others by a source of "
                          "their own."},
                         its.path(), 0);
    }
    opened_ = its.path();
    extents_ = std::move(extents);
    record_bytes_ = record_bytes;
    if (file.records == 0) {
      return;
    }
    Part& part = parts_.emplace_back(Part{its.path(), before, size(), file.records, {}});
    for (PackedColumn& column : file.columns) {
      CodeTables tables{column.type, column.code};
      column.code = {.codec = column.code.codec};
      part.columns.push_back({std::move(column), std::move(tables)});
    }
  }

  RecordFiles<Io> files_;
  std::vector<Part> parts_;
  std::vector<std::size_t> extents_;
  std::size_t record_bytes_ = 1;
  std::string opened_; // the last file
};

} // namespace penstock::detail
