// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/config.hpp>
#include <penstock/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace penstock {

/// A view of consecutive records in one space: what stages hand to callables. Trivially copyable,
/// so it can be a kernel's argument. `Batch<const T, Where>` may only be read. It owns nothing: the
/// bytes are good until the callable returns, for a device batch until the work it put on its
/// stream is done.
template <class Schema, class Where> class Batch {
  static_assert(Space<Where>, "penstock: a batch lies in Pageable, Pinned or Device.");
  static_assert(
      std::is_trivially_copyable_v<Schema>,
      "penstock: a record is copied byte by byte, so its type must be trivially copyable.");

 public:
  using schema = std::remove_const_t<Schema>;
  using space = Where;
  static constexpr bool read_only = std::is_const_v<Schema>;

  Batch() = default;

  /// Views `size` records of `record_bytes` each at `data`; `index` is the first one's number in
  /// its run. `alignment` is what every batch of this sequence is aligned to, in bytes.
  PENSTOCK_HD Batch(Schema* data, std::size_t size, std::uint64_t index = 0,
                    std::size_t record_bytes = sizeof(Schema),
                    std::size_t alignment = alignof(Schema))
      : data_{data}, size_{size}, index_{index}, record_bytes_{record_bytes},
        alignment_{alignment} {}

  /// A batch that may be written can be read; never the other way round.
  template <class S>
    requires(read_only && std::is_same_v<S, schema>)
  PENSTOCK_HD Batch(const Batch<S, Where>& b)
      : Batch{b.data(), b.size(), b.index(), b.record_bytes(), b.alignment()} {}

  /// How many records.
  PENSTOCK_HD std::size_t size() const { return size_; }
  /// The number of the first record, counted from 0 over everything delivered in one run, epochs
  /// included.
  PENSTOCK_HD std::uint64_t index() const { return index_; }
  /// The records, back to back: size() * record_bytes() bytes.
  PENSTOCK_HD Schema* data() const { return data_; }
  /// Bytes from one record to the next: sizeof(Schema), or what the source was told for records of
  /// a run-time size.
  PENSTOCK_HD std::size_t record_bytes() const { return record_bytes_; }
  /// Bytes in all.
  PENSTOCK_HD std::size_t size_bytes() const { return size_ * record_bytes_; }
  /// What data() is aligned to in every batch of this pipeline: a power of two, at most 256. It
  /// follows from the batch size: places lie back to back, so a batch of 256 times n bytes keeps
  /// 256.
  PENSTOCK_HD std::size_t alignment() const { return alignment_; }

 private:
  Schema* data_{};
  std::size_t size_{};
  std::uint64_t index_{};
  std::size_t record_bytes_{sizeof(Schema)};
  std::size_t alignment_{alignof(Schema)};
};

} // namespace penstock
