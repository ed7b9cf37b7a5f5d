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

/// The callable of unpack(), for a KernelNode, which tells it what the next batch is, and asks it
/// for damage. Only the device thread uses it.
template <class Schema, class Io, AnyDevice D> class UnpackCall {
  using Blobs = PackedBlobs<Io>;
  static constexpr std::size_t columns = packed_columns<Schema>::count;
  using Work = PackedBatch<columns>;

 public:
  /// A batch with a damaged chunk: the number of its first record, as delivered.
  struct Damaged {
    std::uint64_t index;
    std::uint64_t number;
    std::uint32_t chunk;
  };

  [[gnu::cold]] UnpackCall(D& device, Shared<const Blobs> blobs)
      : blobs_{std::move(blobs)},
        tables_{new_shared<const PackedTables<D>>(device, blobs_->files())},
        damaged_{
            new_shared<Allocation>(Allocation::in<Pinned>(&device, most * sizeof(std::uint32_t)))} {
  }

  /// Says which record of the source comes next. Returns how many records are in it.
  std::size_t next(std::uint64_t number) {
    if (number >= blobs_->size()) {
      throw_error<OptionError>({"penstock: unpack: the Reader reads record ", number,
                                " of another source: give unpack() the one that it reads."});
    }
    number_ = number;
    head_ = blobs_->head(number);
    return head_.records;
  }
  /// Returns whether there is room to enqueue one more.
  bool room() const noexcept { return newest_ - oldest_ != most; }
  /// Enqueues the work of the next batch.
  void operator()(Batch<const PackedRecords, Device> in, Batch<Schema, Device> out,
                  Stream<D> stream) {
    const auto packed = get<"packed">(in);
    const std::uint64_t bytes = blobs_->length(number_);
    if (bytes > packed.capacity()) {
      throw_error<OptionError>({"penstock: unpack: the batch is of another source than unpack() "
                                "was given: give it the one that the Reader reads."});
    }
    Work work{.packed = packed.values(),
              .offsets = packed.offsets(),
              .bytes = bytes,
              .head = head_,
              .tables = tables_->data(),
              .table_count = tables_->size()};
    for (std::size_t i = 0; i != columns; ++i) {
      const auto& its = blobs_->files().parts().front().columns[i].packed;
      work.columns[i] = {static_cast<std::byte*>(out.view().parts[i]),
                         out.size() * its.record_values() * its.type.bytes};
    }
    work.damaged = damaged(newest_);
    *work.damaged = 0;
    begun_[newest_ % most] = {out.index(), number_, {}};
    unpack(stream, work);
  }
  /// Notes the fence of the work just enqueued.
  void enqueued(const Fence<D>& fence) { begun_[newest_++ % most].done = fence; }
  /// Looks at all work that is done, and returns the first damaged batch. Waits for nothing.
  std::optional<Damaged> look() {
    while (oldest_ != newest_ && begun_[oldest_ % most].done.reached()) {
      const Begun& its = begun_[oldest_ % most];
      if (const std::uint32_t chunk = *damaged(oldest_++); chunk != 0) {
        return Damaged{its.index, its.number, chunk};
      }
    }
    return {};
  }
  /// Returns whether there is work that nobody has looked at since it was done.
  bool has_open() const noexcept { return oldest_ != newest_; }
  /// Returns the number of the first record at fault, as delivered.
  std::uint64_t record_of(const Damaged& its) const {
    return its.index +
           (its.chunk == Work::another ? 0 : blobs_->record_in(its.number, its.chunk - 1));
  }
  /// Throws the error of a damaged batch.
  [[noreturn, gnu::cold]] void refuse(const Damaged& its) const {
    if (its.chunk == Work::another) {
      throw_error<Error>({"penstock: unpack: what came is not packed batch ", its.number,
                          " of its source: give unpack() the source that the Reader reads."});
    }
    blobs_->refuse(its.number, its.chunk - 1);
  }
  /// Forgets what was enqueued, when none of it runs any more.
  void forget() noexcept { oldest_ = newest_ = 0; }

 private:
  static constexpr std::size_t most = 64;
  struct Begun {
    std::uint64_t index, number;
    Fence<D> done;
  };

  std::uint32_t* damaged(std::uint64_t at) const noexcept {
    return reinterpret_cast<std::uint32_t*>(damaged_->data()) + at % most;
  }

  Shared<const Blobs> blobs_;
  Shared<const PackedTables<D>> tables_;
  Shared<Allocation> damaged_;
  std::uint64_t number_{};
  PackedHead head_{};
  Begun begun_[most]{};
  std::uint64_t oldest_{};
  std::uint64_t newest_{};
};

} // namespace penstock::detail
