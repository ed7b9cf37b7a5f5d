// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/packed_batch.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/packed/detail/packed_files.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/sources/detail/largest_sums.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Records of opened packed files, in packed pieces of equally many: number g has those from g
/// times piece() on. Pieces of about 1 MiB are what workers read side by side, and slots of about 4
/// MiB, which hold several, what is copied: a batch is one slot or several. Any thread.
template <class Io> class PackedBlobs {
  using Files = PackedFiles<Io>;
  using Part = typename Files::Part;
  using Column = typename Files::Column;

 public:
  /// `batch`: records of a batch; 0 for about 4 MiB. Throws OptionError.
  PackedBlobs(Files files, std::size_t batch)
      : files_{std::move(files)}, batch_{usual(batch)},
        slot_{equal_part(batch_, batch_ * record_bytes() / usual_slot)},
        piece_{equal_part(slot_, std::min<std::uint64_t>(slot_ * record_bytes() / usual_piece,
                                                         PackedBatch<1>::most_pieces))} {
    lengths_.reserve(size());
    Largest largest;
    for (std::uint64_t number = 0; number != size(); ++number) {
      std::uint64_t bytes = sizeof(PackedHead);
      each_chunk(number, [&](const Chunk& chunk) {
        bytes += sizeof(PackedPart) + aligned(chunk.place().bytes);
      });
      lengths_.push_back(bytes);
      largest.add(bytes);
    }
    sums_ = LargestSums{std::move(largest)};
  }

  const Files& files() const noexcept { return files_; }
  /// Return how many records a batch and a piece have, how many pieces a slot has, and how many
  /// slots a batch.
  /// @{
  std::size_t batch() const noexcept { return batch_; }
  std::size_t piece() const noexcept { return piece_; }
  std::size_t pieces() const noexcept { return slot_ / piece_; }
  std::size_t slots() const noexcept { return batch_ / slot_; }
  /// @}
  /// Returns how many pieces there are.
  std::uint64_t size() const noexcept {
    return files_.size() / piece_ + (files_.size() % piece_ != 0 ? 1 : 0);
  }
  /// Returns how many bytes any so many pieces have together at most.
  std::uint64_t value_bytes(std::uint64_t pieces) const noexcept { return sums_.of(pieces); }

  /// Returns what a packed piece begins with.
  PackedHead head(std::uint64_t number) const {
    PackedHead head{0, records_of(number), number * piece_};
    files_.each_part(head.first, head.records,
                     [&](const Part& part, std::uint64_t record, std::uint64_t here) {
                       for (const Column& column : part.columns) {
                         const std::uint64_t each = column.packed.record_values();
                         const std::uint64_t values = column.packed.chunk_values;
                         head.chunks += static_cast<std::uint32_t>(
                             ((record + here) * each - 1) / values - record * each / values + 1);
                       }
                     });
    return head;
  }
  /// Returns the bytes of a packed piece.
  std::uint64_t length(std::uint64_t number) const noexcept { return lengths_[number]; }
  /// Reads a packed piece, and checks the packed bytes of its chunks. Throws SourceError with file
  /// and offset, and `number` as its record.
  void read(std::uint64_t number, std::span<std::byte> into) const {
    const PackedHead its = head(number);
    std::memset(into.data(), 0, sizeof its + its.chunks * sizeof(PackedPart));
    std::memcpy(into.data(), &its, sizeof its);
    std::uint64_t part_at = sizeof its;
    std::uint64_t at = part_at + its.chunks * sizeof(PackedPart);
    Run run{*this, number, into};
    each_chunk(number, [&](const Chunk& chunk) {
      const PackedPlace& place = chunk.place();
      const PackedPart part{
          .table = static_cast<std::uint32_t>(chunk.table),
          .codec = static_cast<std::uint32_t>(place.codec),
          .packed_bytes = place.bytes,
          .values = chunk.values,
          .first = chunk.first,
          .wanted = chunk.wanted,
          .at = at,
          .to = chunk.to,
      };
      std::memcpy(into.data() + part_at, &part, sizeof part);
      run.add(chunk, at);
      part_at += sizeof part;
      at += aligned(place.bytes);
    });
    run.read();
  }
  /// Has the system read these packed pieces into the page cache.
  void will_read(std::uint64_t number, std::uint64_t count) const noexcept {
    const std::uint64_t first = number * piece_;
    files_.will_read(first, std::min(count * piece_, files_.size() - first));
  }

  /// Throws the error of chunk number `at` of a packed piece, which its decoder refused.
  [[noreturn, gnu::cold]] void refuse(std::uint64_t number, std::uint32_t at) const {
    each_chunk(number, [&](const Chunk& chunk) {
      if (at-- == 0) {
        refuse(chunk, "is not packed as its codec says", record_of(chunk));
      }
    });
    throw_error<Error>({"penstock: unpack: packed piece ", number, " has not so many chunks."});
  }
  /// Returns the first record of such a chunk that the piece has, counted from its first.
  std::uint64_t record_in(std::uint64_t number, std::uint32_t at) const {
    std::uint64_t record = 0;
    each_chunk(number, [&](const Chunk& chunk) {
      if (at-- == 0) {
        record = std::max(record_of(chunk), number * piece_) - number * piece_;
      }
    });
    return record;
  }

 private:
  /// A chunk that has values of a packed piece.
  struct Chunk {
    const Part* part;
    const Column* column;
    std::size_t table;
    std::uint64_t number; // in the column
    std::uint32_t values, first, wanted;
    std::uint64_t to; // a byte of the column in the piece

    const PackedPlace& place() const { return column->packed.chunks[number]; }
  };
  /// Reads chunks that lie back to back at once, and checks them while they are in the caches.
  struct Run {
    void add(const Chunk& chunk, std::uint64_t to) {
      const std::uint64_t begins = chunk.part->first_byte + chunk.place().at;
      if (count == chunks.size() || bytes >= cached || begins != from + aligned(bytes)) {
        read();
      }
      if (count == 0) {
        from = begins;
        at = to;
      }
      bytes = begins - from + chunk.place().bytes;
      chunks[count++] = chunk;
    }
    void read() {
      if (count == 0) {
        return;
      }
      const auto its = into.subspan(at, bytes);
      try {
        all.files_.files().read_bytes(from, its, 0);
      } catch (const SourceError& e) {
        throw_of_record(e, e.offset(), number);
      }
      std::uint64_t next = 0;
      for (const Chunk& chunk : std::span{chunks}.first(std::exchange(count, 0))) {
        if (crc32c(its.subspan(next, chunk.place().bytes)) != chunk.place().packed_crc) {
          all.refuse(chunk, "has packed bytes with a wrong checksum", number);
        }
        next += aligned(chunk.place().bytes);
      }
    }

    static constexpr std::uint64_t cached = std::uint64_t{256} << 10;

    const PackedBlobs& all;
    std::uint64_t number;
    std::span<std::byte> into;
    std::uint64_t from{}, at{}, bytes{};
    std::array<Chunk, 64> chunks{};
    std::size_t count{};
  };

  static constexpr std::uint64_t usual_slot = std::uint64_t{4} << 20; // of values
  static constexpr std::uint64_t usual_piece = std::uint64_t{1} << 20;

  static constexpr std::uint64_t aligned(std::uint64_t bytes) {
    return (bytes + packed_alignment - 1) / packed_alignment * packed_alignment;
  }
  std::uint64_t record_bytes() const {
    std::uint64_t bytes = 0;
    if (!files_.parts().empty()) {
      for (const Column& column : files_.parts().front().columns) {
        bytes += column.packed.record_values() * column.packed.type.bytes;
      }
    }
    return bytes;
  }
  std::size_t usual(std::size_t asked) const {
    constexpr std::uint64_t most = std::uint64_t{1} << 31;
    const std::uint64_t bytes = record_bytes();
    std::uint64_t batch = asked;
    if (asked == 0) {
      const std::uint64_t in_slot = usual_slot / std::max<std::uint64_t>(bytes, 1);
      batch = files_.parts().empty() ? 1 : std::max<std::uint64_t>(in_slot, 1);
    }
    if (batch > most || (bytes != 0 && batch > (std::uint64_t{1} << 40) / bytes)) {
      throw_error<OptionError>(
          {"penstock: packed: batch is ", batch, " records of ", bytes, " bytes: give it fewer."});
    }
    return batch;
  }
  /// Returns the records of one of at most so many equal parts; of whole chunks, if all are.
  std::size_t equal_part(std::size_t records, std::uint64_t parts) const {
    const auto whole = [&](std::size_t some) {
      const auto& all = files_.parts();
      return all.empty() || std::ranges::all_of(all.front().columns, [&](const Column& its) {
               return some * its.packed.record_values() % its.packed.chunk_values == 0;
             });
    };
    for (; parts > 1; --parts) {
      if (records % parts == 0 && (whole(records / parts) || !whole(records))) {
        return records / parts;
      }
    }
    return records;
  }
  std::uint32_t records_of(std::uint64_t number) const noexcept {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(piece_, files_.size() - number * piece_));
  }
  std::uint64_t record_of(const Chunk& chunk) const {
    const PackedColumn& its = chunk.column->packed;
    return chunk.part->first + chunk.number * its.chunk_values / its.record_values();
  }
  [[noreturn, gnu::cold, gnu::noinline]] void refuse(const Chunk& chunk, const char* what,
                                                     std::uint64_t record) const {
    throw_source_error({"penstock: unpack: chunk ", chunk.number, " of column ",
                        chunk.column->packed.name, " of ", chunk.part->path, ", at byte ",
                        chunk.place().at, ", ", what,
                        ": copy or pack the file again. It begins with record ", record_of(chunk),
                        " of the files."},
                       chunk.part->path, chunk.place().at, record);
  }

  /// Calls f(chunk) for each chunk that has values of a packed piece.
  template <class F> void each_chunk(std::uint64_t number, F f) const {
    const std::uint64_t first = number * piece_;
    std::uint64_t before = 0; // records
    files_.each_part(
        first, records_of(number), [&](const Part& part, std::uint64_t record, std::uint64_t here) {
          const auto at = static_cast<std::size_t>(&part - files_.parts().data());
          for (std::size_t i = 0; i != part.columns.size(); ++i) {
            const PackedColumn& its = part.columns[i].packed;
            const std::uint64_t each = its.record_values();
            const std::uint64_t all = each * part.records;
            const std::uint64_t end = (record + here) * each;
            std::uint64_t to = before * each * its.type.bytes;
            for (std::uint64_t value = record * each; value != end;) {
              const std::uint64_t chunk = value / its.chunk_values;
              const std::uint64_t begin = chunk * its.chunk_values;
              const std::uint64_t values = std::min<std::uint64_t>(its.chunk_values, all - begin);
              const std::uint64_t wanted = std::min(begin + values, end) - value;
              f(Chunk{&part, &part.columns[i], at * part.columns.size() + i, chunk,
                      static_cast<std::uint32_t>(values), static_cast<std::uint32_t>(value - begin),
                      static_cast<std::uint32_t>(wanted), to});
              value += wanted;
              to += wanted * its.type.bytes;
            }
          }
          before += here;
        });
  }

  Files files_;
  std::size_t batch_; // records
  std::size_t slot_;
  std::size_t piece_;
  std::vector<std::uint64_t> lengths_; // of the pieces
  LargestSums sums_;
};

} // namespace penstock::detail
