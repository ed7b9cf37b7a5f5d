// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/crc32c.hpp>
#include <penstock/detail/base/opening.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/prepare_options.hpp>
#include <penstock/sources/detail/largest_sums.hpp>
#include <penstock/sources/detail/record_files.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// The numbers of a TFRecord file, which are little-endian, and its checksum.
/// @{
template <class T> T little_endian(const std::byte* at) {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- != 0;) {
    value = static_cast<T>(value << 8 | std::to_integer<T>(at[i]));
  }
  return value;
}
inline std::uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282'EAD8U;
}
/// @}

/// TFRecord files, one after the other, and where their records lie: 8 bytes a record. A record is
/// its length in 8 bytes, the masked CRC-32C of these in 4, its data, and that of the data.
template <class Io> class TfRecordFiles {
 public:
  static constexpr std::uint64_t head_bytes = 12;
  static constexpr std::uint64_t tail_bytes = 4;

  /// A file that has records: those from number `first` on.
  struct Part {
    std::string path;
    std::uint64_t bytes;             // of the file
    std::uint64_t first_byte;        // of the file, counted over all
    std::uint64_t first{};           // number of its first record
    std::vector<std::uint64_t> at{}; // where each record's data begin; then where one more's would

    std::uint64_t size() const noexcept { return at.size() - 1; }
    std::uint64_t length(std::uint64_t record) const noexcept {
      return at[record + 1] - at[record] - head_bytes - tail_bytes;
    }
  };

  /// Opens the files and finds their records by their lengths, in many files side by side. Throws
  /// SourceError for what is no TFRecord file, or a cut one.
  TfRecordFiles(RecordFiles<Io> files, const PrepareOptions& preparing) : files_{std::move(files)} {
    files_.open(
        preparing, DirectReads::none, 0, [](const auto&) { return 0; },
        [&](int, const auto& file, std::uint64_t before) {
          if (file.size() != 0) {
            parts_.push_back({file.path(), file.size(), before});
          }
          return RecordsAt{0, file.size()};
        });
    const FirstFailure failure =
        for_all(parts_.size(), [&](std::size_t i) { index(parts_[i]); }, [] {});
    failure.rethrow_at(failure.at);
    std::vector<std::uint64_t> lengths;
    for (Part& part : parts_) {
      part.first = lengths.size();
      for (std::uint64_t record = 0; record != part.size(); ++record) {
        lengths.push_back(part.length(record));
      }
    }
    size_ = lengths.size();
    sums_ = LargestSums{std::move(lengths)};
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
  // Walks from one record's head to the next.
  [[gnu::cold]] void index(Part& part) const {
    std::array<std::byte, 4096> piece;
    std::uint64_t begin = 0; // of what `piece` has of the file
    std::uint64_t end = 0;
    std::uint64_t at = 0;
    while (at != part.bytes) {
      const std::uint64_t record = part.at.size();
      if (part.bytes - at < head_bytes + tail_bytes) {
        throw_cut(part, at, record, part.bytes - at);
      }
      if (at + head_bytes > end) {
        begin = at;
        end = std::min<std::uint64_t>(at + piece.size(), part.bytes);
        files_.read_bytes(part.first_byte + begin, std::span{piece}.first(end - begin), 1);
      }
      const std::byte* const head = piece.data() + (at - begin);
      const auto length = little_endian<std::uint64_t>(head);
      if (masked_crc32c({head, 8}) != little_endian<std::uint32_t>(head + 8)) {
        throw_damaged(part, at, record, head);
      }
      if (length > part.bytes - at - head_bytes - tail_bytes) {
        throw_cut(part, at, record, part.bytes - at);
      }
      part.at.push_back(at + head_bytes);
      at += head_bytes + length + tail_bytes;
    }
    part.at.push_back(at + head_bytes);
  }
  [[noreturn]] static void throw_cut(const Part& part, std::uint64_t at, std::uint64_t record,
                                     std::uint64_t left) {
    throw_source_error({"penstock: tfrecord: ", part.path, " ends inside its record ", record,
                        ", of which ", left, " bytes are there, from byte ", at,
                        " on: copy or download the file again."},
                       part.path, at);
  }
  [[noreturn]] static void throw_damaged(const Part& part, std::uint64_t at, std::uint64_t record,
                                         const std::byte* head) {
    const bool zipped = at == 0 && head[0] == std::byte{0x1F} && head[1] == std::byte{0x8B};
    throw_source_error(
        {"penstock: tfrecord: ", part.path,
         zipped    ? " is compressed by gzip: decompress it first."
         : at == 0 ? " is no TFRecord file, or its first bytes are damaged: the checksum "
                     "of the first record's length is wrong. Check the path."
                   : "",
         at == 0 ? joined({})
                 : joined({": the checksum of the length of its record ", record, ", at byte ", at,
                           ", is wrong, and where the next one begins is not known: "
                           "copy or download the file again."})},
        part.path, at);
  }

  RecordFiles<Io> files_;
  std::vector<Part> parts_;
  std::uint64_t size_{};
  LargestSums sums_;
};

} // namespace penstock::detail
