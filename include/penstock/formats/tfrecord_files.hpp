// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/crc32c.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/file.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/largest_sums.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

// A record is its length in 8 bytes, the masked CRC-32C of these in 4, its data, and that of the
// data. Numbers are little-endian.
inline constexpr std::uint64_t tfrecord_head = 12;
inline constexpr std::uint64_t tfrecord_tail = 4;

inline std::uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282'EAD8U;
}

/// Walks from one record's head to the next. Returns where the data of each begin, and where those
/// of one more would. Throws SourceError for what is no TFRecord file, or a cut one.
[[gnu::cold]] inline std::vector<std::uint64_t> find_tfrecords(const HeaderFile& file) {
  std::array<std::byte, 4096> piece;
  std::uint64_t begin = 0; // of what `piece` has of the file
  std::uint64_t end = 0;
  std::vector<std::uint64_t> data;
  for (std::uint64_t at = 0;;) {
    data.push_back(at + tfrecord_head);
    const std::uint64_t left = file.size() - at;
    if (left == 0) {
      return data;
    }
    const auto cut = [&] {
      file.refuse(at, {"begins its record ", data.size() - 1, ", of which only ", left,
                       " bytes are there: copy or download the file again."});
    };
    if (left < tfrecord_head + tfrecord_tail) {
      cut();
    }
    if (at + tfrecord_head > end) {
      begin = at;
      end = at + std::min<std::uint64_t>(left, piece.size());
      file.read(begin, std::span{piece}.first(end - begin));
    }
    const std::span<const std::byte> head = std::span{piece}.subspan(at - begin, tfrecord_head);
    if (masked_crc32c(head.first(8)) != number_at<std::uint32_t>(head.data() + 8, false)) {
      if (at == 0) {
        refuse_foreign(file);
      }
      file.refuse(at, {at == 0 ? "is no TFRecord file, or a damaged one: the checksum of the "
                                 "first record's length is wrong. Check the path."
                               : "has a record's length with a wrong checksum, and where the next "
                                 "record begins is not known: copy or download the file again."});
    }
    const auto length = number_at<std::uint64_t>(head.data(), false);
    if (length > left - tfrecord_head - tfrecord_tail) {
      cut();
    }
    at += tfrecord_head + length + tfrecord_tail;
  }
}

/// TFRecord files, one after the other, and where their records lie: 8 bytes a record.
template <class Io> class TfRecordFiles {
 public:
  /// A file that has records: those from number `first` on.
  struct Part {
    std::string path;
    std::uint64_t first_byte;        // of the file, counted over all
    std::uint64_t first;             // number of its first record
    std::vector<std::uint64_t> data; // where each record's begin, and one more's would

    std::uint64_t size() const noexcept { return data.size() - 1; }
    std::uint64_t length(std::uint64_t record) const noexcept {
      return data[record + 1] - data[record] - tfrecord_head - tfrecord_tail;
    }
  };

  /// Opens the files and finds their records by their lengths, in many files side by side. Throws
  /// SourceError.
  TfRecordFiles(RecordFiles<Io> files, const PrepareOptions& preparing) : files_{std::move(files)} {
    Largest largest;
    files_.open(
        preparing, DirectReads::none, 0,
        [](const File<Io>& file, std::size_t) {
          const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
            read_full(file, at, into);
          };
          return find_tfrecords(HeaderFile{file.path(), file.size(), read});
        },
        [&](std::vector<std::uint64_t>& data, const File<Io>& file, std::uint64_t before) {
          if (file.size() != 0) {
            const Part& part =
                parts_.emplace_back(Part{file.path(), before, size_, std::move(data)});
            for (std::uint64_t record = 0; record != part.size(); ++record) {
              largest.add(part.length(record));
            }
            size_ += part.size();
          }
          return RecordsAt{0, file.size()};
        });
    sums_ = LargestSums{std::move(largest)};
  }

  const RecordFiles<Io>& files() const noexcept { return files_; }
  std::uint64_t size() const noexcept { return size_; }
  const LargestSums& sums() const noexcept { return sums_; }
  /// Calls f(part, first, count) for each file that has some of the `count` records from `at` on:
  /// those from the file's number `first` on.
  template <class F> void each_part(std::uint64_t at, std::uint64_t count, F f) const {
    auto part =
        std::upper_bound(parts_.begin(), parts_.end(), at, [](std::uint64_t record, const Part& p) {
          return record < p.first + p.size();
        });
    for (; count != 0; ++part) {
      const std::uint64_t here = std::min(part->first + part->size() - at, count);
      f(*part, at - part->first, here);
      at += here;
      count -= here;
    }
  }

 private:
  RecordFiles<Io> files_;
  std::vector<Part> parts_;
  std::uint64_t size_{};
  LargestSums sums_;
};

} // namespace penstock::detail
