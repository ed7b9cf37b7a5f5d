// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/formats/detail/stream_part.hpp>
#include <penstock/formats/tfrecord.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace penstock::detail {

// What cuts a stream into records. next(part) puts the next ones into an empty part, at least one
// unless it is the last. It throws what is wrong with the stream; the part then has the records
// before that. One thread at a time.

/// Cuts a stream into lines, as Lines does.
template <class Stream> class StreamLines {
 public:
  /// Refuses lines of more than `longest` bytes.
  StreamLines(Stream stream, std::size_t longest) : stream_{std::move(stream)}, longest_{longest} {}

  void next(StreamPart& part) {
    std::size_t searched = rest_.size();
    part.bytes.append(rest_.data(), rest_.size());
    rest_.clear();
    std::size_t begin = 0;
    while (part.records == 0 && !part.last) {
      const std::span<std::byte> room = part.bytes.room(stream_part_bytes);
      const std::size_t got = stream_.read(room);
      part.bytes.add(got);
      part.last = got != room.size();
      begin = cut(part, searched);
      searched = part.bytes.size();
    }
    rest_.assign(part.bytes.data() + begin, part.bytes.data() + part.bytes.size());
  }

 private:
  // Finds lines, without their ends, of which none lies before `searched`. Returns where the rest
  // begins.
  std::size_t cut(StreamPart& part, std::size_t searched) const {
    const std::byte* const all = part.bytes.data();
    const std::size_t size = part.bytes.size();
    std::size_t begin = 0;
    const auto add = [&](std::size_t end) {
      if (end - begin > longest_) {
        refuse_length();
      }
      part.places.push_back({begin, end - begin});
      ++part.records;
    };
    while (searched != size) {
      const void* const found = std::memchr(all + searched, '\n', size - searched);
      if (!found) {
        break;
      }
      const auto end = static_cast<std::size_t>(static_cast<const std::byte*>(found) - all);
      const bool returns = end != begin && all[end - 1] == std::byte{'\r'};
      add(returns ? end - 1 : end);
      begin = searched = end + 1;
    }
    if (part.last && begin != size) {
      add(size);
      begin = size;
    }
    if (size - begin > longest_ + 1) { // its end may have begun
      refuse_length();
    }
    return begin;
  }
  [[noreturn, gnu::cold]] void refuse_length() const {
    stream_.refuse({"a line that ends about here is longer than .longest, which is ", longest_,
                    " bytes: is this text? Set .longest if it is."});
  }

  Stream stream_;
  std::size_t longest_;
  std::vector<std::byte> rest_; // of a line that is not whole
};

/// Cuts a stream into records of one length.
template <class Stream> class StreamValues {
 public:
  StreamValues(Stream stream, std::size_t record_bytes)
      : stream_{std::move(stream)}, record_bytes_{record_bytes} {}

  void next(StreamPart& part) {
    const std::size_t many = std::max<std::size_t>(stream_part_bytes / record_bytes_, 1);
    const std::span<std::byte> room = part.bytes.room(many * record_bytes_);
    const std::size_t got = stream_.read(room);
    part.bytes.add(got);
    part.last = got != room.size();
    part.records = got / record_bytes_;
    if (const std::size_t rest = got % record_bytes_; rest != 0) {
      stream_.refuse({"what comes out ends in the middle of a record: of its ", record_bytes_,
                      " bytes ", rest, " are there. Check the record's type."});
    }
  }

 private:
  Stream stream_;
  std::size_t record_bytes_;
};

/// Cuts a stream into the records of a TFRecord file, whose checksums it compares.
template <class Stream> class StreamTfRecords {
 public:
  /// Refuses records of more than `longest` bytes.
  StreamTfRecords(Stream stream, std::size_t longest)
      : stream_{std::move(stream)}, longest_{longest} {}

  void next(StreamPart& part) {
    if (!begun_) {
      begun_ = true;
      ended_ = !is_head(stream_.read(head_));
    }
    while (!ended_ && part.bytes.size() < stream_part_bytes) {
      take(part);
    }
    part.last = ended_;
  }

 private:
  // A head is whole, or the stream has ended before it.
  bool is_head(std::size_t got) const {
    if (got != 0 && got != head_.size()) {
      refuse_cut();
    }
    return got != 0;
  }
  void take(StreamPart& part) {
    const std::size_t length = checked_length();
    // What comes behind the record too, so that a record is one read.
    const std::span<std::byte> room = part.bytes.room(length + tfrecord_tail + head_.size());
    const std::size_t got = stream_.read(room);
    if (got < length + tfrecord_tail) {
      refuse_cut();
    }
    if (masked_crc32c(room.first(length)) !=
        number_at<std::uint32_t>(room.data() + length, false)) {
      stream_.refuse({"the checksum of a TFRecord that ends about here is wrong: copy or download "
                      "the file again."});
    }
    part.places.push_back({part.bytes.size(), length});
    part.bytes.add(length);
    ++part.records;
    const std::span<std::byte> behind = room.subspan(length + tfrecord_tail);
    ended_ = !is_head(got - length - tfrecord_tail);
    std::copy(behind.begin(), behind.end(), head_.begin());
  }
  std::size_t checked_length() const {
    const auto length = number_at<std::uint64_t>(head_.data(), false);
    if (masked_crc32c(std::span{head_}.first(8)) !=
        number_at<std::uint32_t>(head_.data() + 8, false)) {
      stream_.refuse({"the checksum of a TFRecord's length is wrong, and where the next record "
                      "begins is not known: is this a TFRecord file? Copy or download it again."});
    }
    if (length > longest_) {
      stream_.refuse({"a TFRecord that begins about here has ", length,
                      " bytes, more than .longest, which is ", longest_, ": set .longest."});
    }
    return static_cast<std::size_t>(length);
  }
  [[noreturn, gnu::cold]] void refuse_cut() const {
    stream_.refuse({"what comes out ends in the middle of a TFRecord: copy or download the file "
                    "again."});
  }

  Stream stream_;
  std::size_t longest_;
  std::array<std::byte, tfrecord_head> head_{};
  bool begun_{};
  bool ended_{};
};

} // namespace penstock::detail
