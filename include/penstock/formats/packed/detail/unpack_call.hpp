// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/packed_batch.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/device/device.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/device/fence.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/packed/packed_source.hpp>
#include <penstock/host/unpack.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace penstock::detail {

/// The tables of packed files in a device's memory.
template <AnyDevice D> class PackedTables {
 public:
  /// Copies them to the device, and waits for that.
  template <class Files>
  [[gnu::cold]] PackedTables(D& device, const Files& files)
      : numbers_{device, numbers_of(files)}, tables_{device, tables_of(files)} {
    std::vector<std::uint32_t> numbers;
    std::vector<PackedTable> tables;
    for (const auto& part : files.parts()) {
      for (std::size_t column = 0; column != part.columns.size(); ++column) {
        const auto& its = part.columns[column].tables;
        tables.push_back(
            {its.code(numbers_.data() + numbers.size()), static_cast<std::uint32_t>(column)});
        numbers.insert(numbers.end(), its.numbers().begin(), its.numbers().end());
      }
    }
    copy(device, std::span<const std::uint32_t>{numbers}, numbers_);
    copy(device, std::span<const PackedTable>{tables}, tables_);
  }

  const PackedTable* data() const noexcept { return tables_.data(); }
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(tables_.size()); }

 private:
  template <class Files> static std::size_t numbers_of(const Files& files) {
    std::size_t count = 0;
    for (const auto& part : files.parts()) {
      for (const auto& column : part.columns) {
        count += column.tables.numbers().size();
      }
    }
    return count;
  }
  template <class Files> static std::size_t tables_of(const Files& files) {
    return files.parts().empty() ? 0 : files.parts().size() * files.parts().front().columns.size();
  }
  template <class T>
  static void copy(D& device, std::span<const T> values, const DeviceArray<T, D>& to) {
    if (!values.empty()) {
      const Allocation pinned = Allocation::in<Pinned>(&device, values.size_bytes());
      std::memcpy(pinned.data(), values.data(), values.size_bytes());
      auto stream = device.stream();
      device.copy_to_device(to.data(), pinned.data(), values.size_bytes(), stream);
      device.sync(stream);
    }
  }

  DeviceArray<std::uint32_t, D> numbers_;
  DeviceArray<PackedTable, D> tables_;
};

/// Unpacks slots of pieces on streams, and finds later which were damaged. Only the device thread
/// uses it.
template <class Schema, class Io, AnyDevice D> class UnpackCall {
  using Blobs = PackedBlobs<Io>;
  static constexpr std::size_t columns = packed_columns<Schema>::count;
  using Work = PackedBatch<columns>;

 public:
  /// A damaged chunk: the number of its batch's first record, as delivered, and its piece.
  struct Damaged {
    std::uint64_t index;
    PackedPiece piece;
    std::uint64_t chunk; // as PackedBatch::damaged has it
  };

  [[gnu::cold]] UnpackCall(D& device, Shared<const Blobs> blobs)
      : blobs_{std::move(blobs)},
        tables_{new_shared<const PackedTables<D>>(device, blobs_->files())},
        damaged_{
            new_shared<Allocation>(Allocation::in<Pinned>(&device, most * sizeof(std::uint64_t)))},
        begun_(most) {}

  /// The most slots whose work is open at once.
  static constexpr std::size_t most = 64;

  /// Says which piece of the source comes next in the slot to come, behind so many records of its
  /// batch. Returns how many records are in it.
  std::size_t next(std::uint64_t number, std::size_t before) {
    Work& work = begun_[newest_ % most].work;
    if (number >= blobs_->size() || work.piece_count == work.most_pieces) {
      throw_error<OptionError>({"penstock: unpack: the Reader reads record ", number,
                                " of another source: give unpack() the one that it reads."});
    }
    PackedPiece& piece = work.pieces[work.piece_count];
    piece = {blobs_->head(number), 0, blobs_->length(number), before};
    if (work.piece_count != 0) {
      const PackedPiece& last = work.pieces[work.piece_count - 1];
      piece.at = last.at + last.bytes;
    }
    ++work.piece_count;
    return piece.head.records;
  }
  /// Returns whether there is room for one more slot.
  bool room() const noexcept { return newest_ - oldest_ != most - 1; }
  /// Enqueues the work of the next slot. `out` has the records of its batch so far.
  void operator()(Batch<const PackedRecords, Device> in, Batch<Schema, Device> out,
                  Stream<D> stream) {
    const auto packed = get<"packed">(in);
    Begun& begun = begun_[newest_ % most];
    Work& work = begun.work;
    const std::uint32_t count = work.piece_count;
    if (count != 0 &&
        work.pieces[count - 1].at + work.pieces[count - 1].bytes > packed.capacity()) {
      throw_error<OptionError>({"penstock: unpack: the batch is of another source than unpack() "
                                "was given: give it the one that the Reader reads."});
    }
    work.packed = packed.values();
    work.offsets = packed.offsets();
    work.tables = tables_->data();
    work.table_count = tables_->size();
    for (std::size_t i = 0; i != columns; ++i) {
      const auto& its = blobs_->files().parts().front().columns[i].packed;
      const std::uint64_t each = its.record_values() * its.type.bytes;
      work.columns[i] = {static_cast<std::byte*>(out.view().parts[i]), out.size() * each, each};
    }
    work.damaged = damaged(newest_);
    *work.damaged = 0;
    begun.index = out.index();
    unpack(stream, work);
  }
  /// Notes the fence of the work just enqueued.
  void enqueued(const Fence<D>& fence) {
    begun_[newest_ % most].done = fence;
    begun_[++newest_ % most].work.piece_count = 0;
  }
  /// Looks at all work that is done, and returns the first damaged batch. Waits for nothing.
  std::optional<Damaged> look() {
    while (oldest_ != newest_ && begun_[oldest_ % most].done.reached()) {
      const Begun& its = begun_[oldest_ % most];
      if (const std::uint64_t chunk = *damaged(oldest_++); chunk != 0) {
        return Damaged{its.index, its.work.pieces[chunk == Work::another ? 0 : chunk >> 32], chunk};
      }
    }
    return {};
  }
  /// Returns whether there is work that nobody has looked at since it was done.
  bool has_open() const noexcept { return oldest_ != newest_; }
  /// Returns the number of the first record at fault, as delivered.
  std::uint64_t record_of(const Damaged& its) const {
    return its.index + (its.chunk == Work::another
                            ? 0
                            : its.piece.records + blobs_->record_in(number_of(its), chunk_of(its)));
  }
  /// Throws the error of a damaged batch.
  [[noreturn, gnu::cold]] void refuse(const Damaged& its) const {
    if (its.chunk == Work::another) {
      throw_error<Error>({"penstock: unpack: what came is not the packed records from ",
                          its.piece.head.first,
                          " on of its source: give unpack() the source that the Reader reads."});
    }
    blobs_->refuse(number_of(its), chunk_of(its));
  }
  /// Forgets what was enqueued, when none of it runs any more.
  void forget() noexcept {
    oldest_ = newest_ = 0;
    begun_.front().work.piece_count = 0;
  }

 private:
  struct Begun {
    std::uint64_t index;
    Work work;
    Fence<D> done;
  };

  std::uint64_t* damaged(std::uint64_t at) const noexcept {
    return reinterpret_cast<std::uint64_t*>(damaged_->data()) + at % most;
  }
  std::uint64_t number_of(const Damaged& its) const noexcept {
    return its.piece.head.first / blobs_->piece();
  }
  static std::uint32_t chunk_of(const Damaged& its) noexcept {
    return static_cast<std::uint32_t>(its.chunk) - 1;
  }

  Shared<const Blobs> blobs_;
  Shared<const PackedTables<D>> tables_;
  Shared<Allocation> damaged_;
  std::vector<Begun> begun_; // the one to come too
  std::uint64_t oldest_{};
  std::uint64_t newest_{};
};

} // namespace penstock::detail
