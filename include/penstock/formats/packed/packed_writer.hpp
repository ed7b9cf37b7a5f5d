// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/packed/detail/chunk_packer.hpp>
#include <penstock/formats/packed/detail/column_choice.hpp>
#include <penstock/formats/packed/detail/packed_layout.hpp>
#include <penstock/formats/packed/packed_info.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/io/detail/opening.hpp>
#include <penstock/io/new_file.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock {

/// A column for a PackedWriter. Made by packed_column().
struct PackedColumnShape {
  std::string name;                   ///< 1 to 63 bytes; a schema's has at most 32.
  detail::ValueType type{};           ///< Of its values.
  std::vector<std::uint64_t> extents; ///< Of a record; none for one value a record.
};

/// Names a column of T's for a PackedWriter: `packed_column<float>("x", {3, 224})`. T is a number
/// of 1, 2, 4 or 8 bytes, bool, Half or BFloat16.
template <class T>
  requires(detail::is_value<T> && !std::is_same_v<T, std::byte>)
PackedColumnShape packed_column(std::string name, std::vector<std::uint64_t> extents = {}) {
  return {std::move(name), detail::value_type_of<T>(), std::move(extents)};
}

/// Options of a PackedWriter.
struct PackedWriterOptions {
  /// The bytes of a chunk's values, before they are packed: 16 to 64 KiB, a power of two. A warp
  /// unpacks a chunk, so small ones fill a GPU from a small batch; large ones save some bytes.
  std::size_t chunk_bytes = std::size_t{16} << 10;
  /// Threads that pack what one add() is given. They give the same file, whatever their number.
  unsigned workers = 1;
  /// Whether finish() returns only when the file, and its name, are on the disk.
  bool durable = false;
};

/// Writes a packed file (docs/packed.md) of columns whose bytes it is given. The file appears whole
/// at finish(), or not at all. One thread at a time calls it; all calls block. Io makes the system
/// calls: see PosixIo.
template <class Io = PosixIo> class PackedWriter {
 public:
  /// Makes the file, under a name of its own beside `path`. Throws OptionError; SinkError.
  explicit PackedWriter(std::string path, std::vector<PackedColumnShape> columns,
                        PackedWriterOptions options = {}, Io io = {})
      : options_{options}, path_{std::move(path)} {
    check(columns);
    parts_.resize(options_.workers);
    packed_parts_.resize(options_.workers);
    file_.emplace(io, path_);
    for (PackedColumnShape& shape : columns) {
      columns_.emplace_back(std::move(shape), options_.chunk_bytes);
    }
  }

  /// Looks at values of column number `column` that will be added, all of them or some from all
  /// over: their frequencies choose the codec, and make its tables. Values that were not seen stay
  /// raw, with those of their chunk. `values` are whole values, any number. Throws OptionError,
  /// also behind the column's first add().
  void learn(std::size_t column, std::span<const std::byte> values) {
    Column& its = checked(column, values);
    if (its.values != 0) {
      detail::throw_error<OptionError>({"penstock: PackedWriter: learn() of column ",
                                        its.packed.name,
                                        " came after add(): learn before you add."});
    }
    its.choice.learn(values, options_.workers);
  }
  /// Adds values to column number `column`, whole ones, any number. What was learned of none is
  /// learned from the first add() that makes them 4 MiB, and those before, which wait for it.
  /// Throws OptionError; SinkError, and then nothing is left of the file, and the writer is of no
  /// more use.
  void add(std::size_t column, std::span<const std::byte> values) {
    Column& its = checked(column, values);
    if (!values.empty()) {
      or_discard([&] { take(its, values); });
    }
  }

  /// Writes the rest and gives the file its name, in place of what had it. Returns what each column
  /// became, and which codecs were tried. Call it once. Throws Error if the columns do not have
  /// equally many whole records; SinkError. If it throws, nothing is left of the file.
  std::vector<PackedColumnInfo> finish() {
    return finish_by([](auto& file, const std::vector<detail::PackedColumn>& columns,
                        std::uint64_t records, std::uint64_t at) {
      const std::vector<std::byte> index = detail::packed_index(columns);
      file.write(at, index);
      file.write(0, detail::packed_header(columns.size(), records, at, index));
    });
  }

  /// For pack_safetensors(): leaves this room before the first chunk, a multiple of 16. Before any
  /// add().
  void begin_at(std::uint64_t at) { end_ = at; }
  /// For pack_safetensors(): writes the rest of a column, which gets no more values. Throws as
  /// add() does.
  void end_column(std::size_t column) {
    Column& its = checked(column, {});
    or_discard([&] { end(its); });
  }
  /// For pack_safetensors(): does what finish() does, but put(file, columns, records, at) writes
  /// the header, and the index behind the last chunk, from byte `at` on.
  template <class Put> std::vector<PackedColumnInfo> finish_by(Put write_index) {
    std::vector<PackedColumnInfo> infos;
    or_discard([&] {
      const std::uint64_t records = checked_records();
      std::vector<detail::PackedColumn> packed;
      for (Column& its : columns_) {
        end(its);
        infos.push_back(info(its));
        packed.push_back(std::move(its.packed));
      }
      write(packed_parts_);
      write_index(*file_, packed, records, end_);
      file_->commit(options_.durable);
    });
    file_.reset();
    return infos;
  }

 private:
  struct Column {
    Column(PackedColumnShape shape, std::size_t chunk_bytes)
        : packed{std::move(shape.name), shape.type, std::move(shape.extents),
                 static_cast<std::uint32_t>(chunk_bytes / shape.type.bytes)},
          choice{shape.type, chunk_bytes} {}

    detail::PackedColumn packed;
    detail::ColumnChoice choice;
    std::vector<PackedTry> tried;
    std::vector<detail::ChunkPacker> packers; // a worker's each, once the codec is chosen
    std::vector<std::byte> begun;             // values behind the last chunk written
    std::uint64_t values = 0;
    std::uint64_t packed_bytes = 0;
    std::uint64_t raw_chunks = 0;
    bool ended = false;
  };
  void end(Column& its) {
    if (its.ended) {
      return;
    }
    if (its.packers.empty()) {
      choose(its, {});
    }
    put(its, its.begun);
    its.begun = {};
    its.packers = {}; // of many columns they would be much memory
    its.choice = detail::ColumnChoice{its.packed.type, options_.chunk_bytes};
    its.ended = true;
  }
  // What was counted of a write that failed cannot be taken back.
  template <class F> void or_discard(F f) {
    try {
      f();
    } catch (...) {
      file_.reset();
      throw;
    }
  }
  void take(Column& its, std::span<const std::byte> values) {
    its.values += values.size() / its.packed.type.bytes;
    if (its.packers.empty()) {
      if (!its.choice.learned() && its.begun.size() + values.size() < learned_bytes) {
        its.begun.insert(its.begun.end(), values.begin(), values.end());
        return;
      }
      choose(its, values);
    }
    const std::size_t chunk = options_.chunk_bytes;
    if (const std::size_t begun = its.begun.size() % chunk; !its.begun.empty()) {
      const auto some = values.first(std::min((chunk - begun) % chunk, values.size()));
      its.begun.insert(its.begun.end(), some.begin(), some.end());
      values = values.subspan(some.size());
      if (its.begun.size() % chunk != 0) {
        return;
      }
      put(its, its.begun);
      its.begun.clear();
    }
    const std::size_t whole = values.size() / chunk * chunk;
    put(its, values.first(whole));
    const auto rest = values.subspan(whole);
    its.begun.insert(its.begun.end(), rest.begin(), rest.end());
  }

  /// What a worker has packed; its places count from its first byte on.
  struct Part {
    std::vector<std::byte> bytes;
    std::vector<detail::PackedPlace> places;
    std::uint64_t at; // in the file
  };
  static constexpr unsigned most_workers = 1024;
  static constexpr std::uint64_t most_record = std::uint64_t{1} << 60; // of bytes
  static constexpr std::size_t chunks_a_worker = 64;                   // between two writes
  static constexpr std::size_t learned_bytes = std::size_t{4} << 20;

  void check(const std::vector<PackedColumnShape>& columns) const {
    if (columns.empty() || columns.size() > detail::packed_most_columns) {
      detail::throw_error<OptionError>({"penstock: PackedWriter: ", columns.size(),
                                        " columns, where a file has 1 to ",
                                        detail::packed_most_columns, "."});
    }
    const std::size_t chunk = options_.chunk_bytes;
    if (chunk < 16 << 10 || chunk > detail::packed_chunk_bytes || (chunk & (chunk - 1)) != 0) {
      detail::throw_error<OptionError>(
          {"penstock: PackedWriter: .chunk_bytes is ", chunk, ": give 16, 32 or 64 KiB."});
    }
    if (options_.workers == 0 || options_.workers > most_workers) {
      detail::throw_error<OptionError>({"penstock: PackedWriter: .workers is ", options_.workers,
                                        ": give 1 to ", most_workers, "."});
    }
    for (std::size_t i = 0; i != columns.size(); ++i) {
      const PackedColumnShape& its = columns[i];
      const auto same = [&](const PackedColumnShape& other) { return other.name == its.name; };
      const auto before = columns.begin() + static_cast<std::ptrdiff_t>(i);
      if (its.name.empty() || its.name.size() >= detail::packed_name_bytes ||
          !detail::prints_whole(its.name) || std::any_of(columns.begin(), before, same)) {
        detail::throw_error<OptionError>({"penstock: PackedWriter: the name of column ", i,
                                          " is no name, or another column's: give each one of 1 to "
                                          "63 bytes of UTF-8."});
      }
      std::uint64_t bytes = its.type.bytes; // of a record
      const bool fit = std::all_of(its.extents.begin(), its.extents.end(), [&](std::uint64_t n) {
        return n != 0 && !__builtin_mul_overflow(bytes, n, &bytes) && bytes <= most_record;
      });
      if (its.extents.size() > detail::packed_most_extents || !fit ||
          !detail::is_packed_type(its.type)) {
        detail::throw_error<OptionError>(
            {"penstock: PackedWriter: column ", its.name, " has no type, or its ",
             its.extents.size(),
             " extents cannot be: give packed_column<T>() up to 8 of 1 or more, and a record less "
             "than 1 EiB."});
      }
    }
  }
  Column& checked(std::size_t column, std::span<const std::byte> values) {
    if (!file_ || column >= columns_.size()) {
      detail::throw_error<OptionError>(
          {"penstock: PackedWriter: ",
           file_ ? "there is no column number " : "it is finished, or has failed, before column ",
           column, file_ ? ": they count from 0." : ": make a new one for another file."});
    }
    Column& its = columns_[column];
    if (values.size() % its.packed.type.bytes != 0) {
      detail::throw_error<OptionError>(
          {"penstock: PackedWriter: ", values.size(), " bytes for column ", its.packed.name,
           ", whose values have ", its.packed.type.bytes, " each: give whole values."});
    }
    return its;
  }
  std::uint64_t checked_records() const {
    if (!file_) {
      detail::throw_error<Error>(
          {"penstock: PackedWriter: ", path_,
           " is finished, or writing it has failed: make a new one for another file."});
    }
    const auto records_of = [](const Column& its) {
      return its.values / its.packed.record_values();
    };
    const std::uint64_t records = records_of(columns_.front());
    for (const Column& its : columns_) {
      if (its.values % its.packed.record_values() != 0 || records_of(its) != records) {
        detail::throw_error<Error>({"penstock: PackedWriter: column ", its.packed.name, " of ",
                                    path_, " has ", its.values, " values, which are no ", records,
                                    " records of ", its.packed.record_values(),
                                    ": add all columns of each record."});
      }
    }
    return records;
  }

  /// Chooses the codec, if nothing was learned by what is there.
  void choose(Column& its, std::span<const std::byte> values) const {
    if (!its.choice.learned()) {
      its.choice.learn(its.begun, options_.workers);
      its.choice.learn(values, options_.workers);
    }
    its.packed.code = its.choice.choose(its.tried);
    its.packers.assign(options_.workers, detail::ChunkPacker{its.packed.type, its.packed.code});
  }
  /// Packs chunks, all whole but the column's last one.
  void put(Column& its, std::span<const std::byte> values) {
    const std::size_t most = chunks_a_worker * options_.chunk_bytes * options_.workers;
    while (!values.empty()) {
      const auto some = values.first(std::min(values.size(), most));
      put_some(its, some);
      values = values.subspan(some.size());
    }
  }
  /// Packs some of them, and meanwhile writes those before.
  void put_some(Column& its, std::span<const std::byte> values) {
    const std::size_t chunk = options_.chunk_bytes;
    const std::size_t chunks = (values.size() + chunk - 1) / chunk;
    const std::size_t parts = std::min<std::size_t>(options_.workers, chunks);
    const auto work = [&](std::size_t i) {
      if (i == 0) {
        return write(packed_parts_);
      }
      Part& part = parts_[i - 1];
      const std::size_t end = std::min(chunks * i / parts * chunk, values.size());
      for (std::size_t at = chunks * (i - 1) / parts * chunk; at < end; at += chunk) {
        pack_chunk(its.packers[i - 1], values.subspan(at, std::min(chunk, end - at)), part);
      }
    };
    if (parts == 1) {
      work(0);
      work(1);
    } else {
      const detail::FirstFailure failure = detail::for_all(parts + 1, work, [] {}, parts + 1);
      for (std::size_t i = 0; i != parts + 1; ++i) {
        failure.rethrow_at(i);
      }
    }
    for (std::size_t i = 0; i != parts; ++i) {
      place(its, parts_[i]);
    }
    parts_.swap(packed_parts_);
  }
  static void pack_chunk(detail::ChunkPacker& packer, std::span<const std::byte> chunk,
                         Part& part) {
    const auto [codec, packed] = packer.pack(chunk);
    part.places.push_back({part.bytes.size(), static_cast<std::uint32_t>(packed.size()), codec,
                           crc32c(packed), crc32c(chunk)});
    part.bytes.insert(part.bytes.end(), packed.begin(), packed.end());
    constexpr std::uint64_t unit = detail::packed_alignment;
    part.bytes.resize((part.bytes.size() + unit - 1) / unit * unit);
  }
  void place(Column& its, Part& part) {
    for (detail::PackedPlace place : part.places) {
      its.packed_bytes += place.bytes;
      its.raw_chunks += place.codec == PackedCodec::raw ? 1 : 0;
      place.at += end_;
      its.packed.chunks.push_back(place);
    }
    part.places.clear();
    part.at = end_;
    end_ += part.bytes.size();
  }
  void write(std::vector<Part>& parts) {
    for (Part& part : parts) {
      if (!part.bytes.empty()) {
        file_->write(part.at, part.bytes);
        part.bytes.clear();
      }
    }
  }
  static PackedColumnInfo info(const Column& its) {
    return {.name = its.packed.name,
            .type = detail::name_of(its.packed.type),
            .extents = its.packed.extents,
            .codec = its.packed.code.codec,
            .chunks = its.packed.chunks.size(),
            .raw_chunks = its.raw_chunks,
            .bytes = its.values * its.packed.type.bytes,
            .packed_bytes = its.packed_bytes + its.packed.code.table_bytes(),
            .tried = its.tried};
  }

  PackedWriterOptions options_;
  std::string path_;
  std::optional<NewFile<Io>> file_; // until it is finished
  std::deque<Column> columns_;
  std::vector<Part> parts_;        // a worker's each
  std::vector<Part> packed_parts_; // those before, to be written
  std::uint64_t end_ = detail::packed_header_bytes;
};

} // namespace penstock
