// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Some records of a stream, which lie together.
struct StreamPart {
  std::vector<std::byte> bytes;       // of the records, back to back
  std::vector<std::uint32_t> lengths; // of lines; none of records of one length
  std::size_t records{};
  bool last{};                // nothing comes behind it
  std::exception_ptr failure; // what comes behind it instead
};

/// Cuts a stream into lines, as Lines does, or into records of `record_bytes` if that is not 0.
/// One thread at a time.
template <class Stream> class StreamRecords {
 public:
  StreamRecords(Stream stream, std::size_t record_bytes, std::size_t longest)
      : stream_{std::move(stream)}, record_bytes_{record_bytes}, longest_{longest} {}

  /// Returns the next part, which has records, or is the last, or has the failure. Does not throw
  /// for what is wrong with the file.
  StreamPart next() {
    StreamPart part;
    try {
      while (part.records == 0 && !part.last) {
        grow(part);
      }
    } catch (...) {
      part.failure = std::current_exception();
    }
    return part;
  }

 private:
  static constexpr std::size_t part_bytes = std::size_t{256} << 10;

  // Reads on, and cuts off what is whole.
  void grow(StreamPart& part) {
    std::vector<std::byte> bytes = std::exchange(rest_, {});
    const std::size_t before = bytes.size();
    bytes.resize(before + std::max(part_bytes, record_bytes_));
    const std::size_t got = stream_.read(std::span{bytes}.subspan(before));
    part.last = before + got != bytes.size();
    bytes.resize(before + got);
    const std::size_t whole =
        record_bytes_ == 0 ? cut_lines(bytes, before, part) : cut_records(bytes.size(), part);
    rest_.assign(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end());
    if (record_bytes_ != 0) {
      bytes.resize(whole);
    }
    part.bytes = std::move(bytes);
    if (record_bytes_ != 0 && part.last && !rest_.empty()) {
      stream_.refuse({"what comes out ends in the middle of a record: of its ", record_bytes_,
                      " bytes ", rest_.size(), " are there. Check the record's type."});
    }
  }
  std::size_t cut_records(std::size_t bytes, StreamPart& part) const noexcept {
    part.records = bytes / record_bytes_;
    return part.records * record_bytes_;
  }
  // Moves the lines together, without their ends, of which none lies before `searched`. Returns
  // where the rest begins.
  std::size_t cut_lines(std::vector<std::byte>& bytes, std::size_t searched, StreamPart& part) {
    std::byte* const all = bytes.data();
    std::size_t begin = 0;
    std::byte* to = all;
    const auto add = [&](std::size_t end) {
      const std::size_t length = end - begin;
      if (length > longest_) {
        refuse_length();
      }
      if (length != 0) {
        std::memmove(to, all + begin, length);
      }
      to += length;
      part.lengths.push_back(static_cast<std::uint32_t>(length));
    };
    while (searched != bytes.size()) {
      const void* const found = std::memchr(all + searched, '\n', bytes.size() - searched);
      if (!found) {
        break;
      }
      const auto end = static_cast<std::size_t>(static_cast<const std::byte*>(found) - all);
      const bool returns = end != begin && all[end - 1] == std::byte{'\r'};
      add(returns ? end - 1 : end);
      begin = searched = end + 1;
    }
    if (part.last && begin != bytes.size()) {
      add(bytes.size());
      begin = bytes.size();
    }
    if (bytes.size() - begin > longest_ + 1) { // its end may have begun
      refuse_length();
    }
    part.records = part.lengths.size();
    return begin;
  }
  [[noreturn, gnu::cold]] void refuse_length() const {
    stream_.refuse({"a line that ends about here is longer than .longest, which is ", longest_,
                    " bytes: is this text? Set .longest if it is."});
  }

  Stream stream_;
  std::size_t record_bytes_;
  std::size_t longest_;
  std::vector<std::byte> rest_; // of a record that is not whole
};

} // namespace penstock::detail
