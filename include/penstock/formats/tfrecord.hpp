// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/column.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/largest_sums.hpp>
#include <penstock/sources/detail/paths.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
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

namespace penstock {

/// A record of tfrecord(): its data, as they are; TensorFlow mostly puts an Example there.
struct TfRecord : Columns<Field<"bytes", Ragged<std::uint8_t>>> {};

/// A source of the records of TFRecord files, file after file. Made by tfrecord(). Copies share
/// what open() has opened. Io makes the system calls: see PosixIo.
template <class Io = PosixIo> class TfRecords {
  using Files = detail::TfRecordFiles<Io>;
  using Part = typename Files::Part;

 public:
  /// The type of its records.
  using schema = TfRecord;

  /// Takes files and directories; touches none before open().
  explicit TfRecords(std::vector<std::string> paths, Io io = {})
      : closed_{"tfrecord", std::move(paths), std::move(io)} {}

  /// Opens the files and walks through each from length to length, many side by side; it checks the
  /// lengths' checksums, and reads no data. Keeps 8 bytes a record. Blocks. Throws SourceError with
  /// file and offset for what is no TFRecord file, is compressed, damaged or cut; what progress
  /// throws. Does nothing the second time.
  void open(const PrepareOptions& preparing = {}) {
    if (!files_) {
      files_ = detail::new_shared<Files>(closed_, preparing);
    }
  }

  /// Returns how many records all files have. After open().
  std::uint64_t size() const { return files().size(); }

  /// Puts the records from into.index() on, which are numbered through all files, and checks the
  /// checksum of each. After open(). Blocks; any number of threads at once, each of which keeps 256
  /// KiB of memory for it. Throws SourceError with file, offset and record; Error if the batch has
  /// no room for the data.
  template <HostSpace Where> std::size_t read(Batch<TfRecord, Where> into) const {
    const Column<Ragged<std::uint8_t>> bytes = get<"bytes">(into);
    detail::check_range("tfrecord", into.index(), into.size(), 0, size(), 0);
    std::size_t done = 0;
    files().each_part(into.index(), into.size(),
                      [&](const Part& part, std::uint64_t first, std::uint64_t count) {
                        read_part(part, first, count, bytes, done);
                        done += count;
                      });
    return into.size();
  }
  /// Tells how many bytes each record from number `first` on has. After open(); any thread. Throws
  /// SourceError if there are not so many.
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const {
    detail::check_range("tfrecord", first, into.size(), 0, size(), 0);
    auto to = into.begin();
    files().each_part(first, into.size(),
                      [&](const Part& part, std::uint64_t number, std::uint64_t count) {
                        for (; count-- != 0; ++number) {
                          *to++ = part.length(number);
                        }
                      });
  }
  /// Returns how many bytes any `records` records have together at most. After open().
  std::uint64_t value_bytes(std::uint64_t records) const { return files().sums().of(records); }
  /// Has the system read these records into the page cache. Any thread.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept {
    files_->each_part(
        first, count, [&](const Part& part, std::uint64_t number, std::uint64_t here) {
          const std::uint64_t begin = part.data[number];
          files_->files().will_read(part.first_byte + begin,
                                    part.data[number + here] - begin - detail::tfrecord_head, 1);
        });
  }
  /// Appends how the files are read.
  [[gnu::cold]] void note(std::string& to) const { files().files().note(to); }

 private:
  const Files& files() const {
    if (!files_) {
      static_cast<void>(closed_.size()); // throws
    }
    return *files_;
  }

  // Puts `count` records of a file from its number `number` on, as record `at` of the batch and
  // those behind it. Reads as many at once as the thread's memory holds.
  void read_part(const Part& part, std::uint64_t number, std::uint64_t count,
                 const Column<Ragged<std::uint8_t>>& bytes, std::size_t at) const {
    const std::span<std::byte> buffer = detail::thread_buffer();
    const std::uint64_t last = part.data[number + count] - detail::tfrecord_head;
    std::uint64_t begin = 0; // of what the buffer has of the file
    std::uint64_t end = 0;
    for (; count-- != 0; ++number) {
      const std::size_t length = part.length(number);
      const std::uint64_t data = part.data[number];
      const std::uint64_t behind = data + length + detail::tfrecord_tail;
      auto* const to = reinterpret_cast<std::byte*>(bytes.put(at++, length));
      std::byte tail[detail::tfrecord_tail];
      if (behind - data > buffer.size()) {
        read(part, data, {to, length});
        read(part, data + length, tail);
      } else {
        if (behind > end) {
          begin = data;
          end = std::min<std::uint64_t>(data + buffer.size(), last);
          read(part, begin, buffer.first(end - begin));
        }
        const std::byte* const from = buffer.data() + (data - begin);
        std::memcpy(tail, from + length, sizeof tail);
        if (length != 0) {
          std::memcpy(to, from, length);
        }
      }
      if (detail::masked_crc32c({to, length}) != detail::number_at<std::uint32_t>(tail, false)) {
        detail::throw_source_error({"penstock: tfrecord: the checksum of record ", number, " of ",
                                    part.path, ", whose data begin at byte ", data,
                                    ", is wrong: copy or download the file again, or leave such "
                                    "records out by .on_error. This was record ",
                                    part.first + number, "."},
                                   part.path, data, part.first + number);
      }
    }
  }
  void read(const Part& part, std::uint64_t from, std::span<std::byte> into) const {
    try {
      files_->files().read_bytes(part.first_byte + from, into, 0);
    } catch (const SourceError& e) {
      const auto behind =
          std::upper_bound(part.data.begin(), part.data.end(), e.offset() + detail::tfrecord_head);
      detail::throw_of_record(
          e, e.offset(), part.first + static_cast<std::uint64_t>(behind - part.data.begin()) - 1);
    }
  }

  detail::RecordFiles<Io> closed_;
  detail::Shared<const Files> files_;
};

/// Makes a source of the records of a TFRecord file, `tfrecord("train.tfrecord")`, or of all files
/// in a directory, in the order of their names' bytes, or of a list of both. What is compressed by
/// gzip or zlib is refused. It touches no file before open(), which prepare() calls. The files must
/// stay as they are while they are read.
template <class Io = PosixIo> TfRecords<Io> tfrecord(detail::Paths paths, Io io = {}) {
  return TfRecords<Io>{std::move(paths).take(), std::move(io)};
}

} // namespace penstock
