// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::detail {

/// What the index of a Megatron data set says of the file of tokens beside it.
struct MegatronIndex {
  ValueType type{};
  std::uint64_t tokens{};
};

inline constexpr std::string_view megatron_magic{"MMIDIDX\0\0", 9};

/// Returns the type that a code in a Megatron index stands for; kind 0 for none.
[[gnu::cold]] inline ValueType megatron_type(unsigned code) noexcept {
  constexpr ValueType types[]{{'u', 1}, {'i', 1}, {'i', 2}, {'i', 4},
                              {'i', 8}, {'f', 8}, {'f', 4}, {'u', 2}};
  return code >= 1 && code <= std::size(types) ? types[code - 1] : ValueType{};
}

/// Reads and checks a Megatron index, as IndexedDataset of Megatron-Core's indexed_dataset.py
/// writes it: 9 bytes of magic, version, the type's code, how many sequences and documents there
/// are; from byte 34 on the lengths (int32), the places in the .bin (int64), the documents' first
/// sequences (int64), and, in some, a mode for each sequence (int8). Sequences must follow each
/// other without a gap. Reads all of it, 64 KiB at a time; allocates nothing. Throws SourceError.
class MegatronParser {
 public:
  explicit MegatronParser(const HeaderFile& file) : file_{file} {}

  [[gnu::cold]] MegatronIndex parse() {
    if (!file_.begins_with(megatron_magic)) {
      file_.refuse(0,
                   {"does not begin as an index of Megatron's does, \"MMIDIDX\", and lies beside "
                    "a file of tokens: set .format = ps::TokenFormat::raw if it is no index."});
    }
    if (const auto version = file_.number<std::uint64_t>(9); version != 1) {
      file_.refuse(
          9, {"has version ", version,
              " of Megatron's index, and 1 is read: build the data set again by Megatron-Core."});
    }
    const auto code = file_.number<std::uint8_t>(17);
    index_.type = megatron_type(code);
    if (index_.type.kind == 0) {
      file_.refuse(17, {"has ", unsigned{code},
                        " for the type of its tokens, and 1 to 8 stand for one: it is damaged. "
                        "Build the data set again."});
    }
    const auto sequences = file_.number<std::uint64_t>(18);
    const auto documents = file_.number<std::uint64_t>(26);
    check_size(sequences, documents);
    check_sequences(sequences);
    check_documents(sequences, documents, begin + 12 * sequences);
    return index_;
  }

 private:
  static constexpr std::uint64_t begin = 34;

  // What the file's size bounds cannot overflow below.
  void check_size(std::uint64_t sequences, std::uint64_t documents) const {
    const std::uint64_t rest = file_.size() - begin;
    const bool fits = sequences <= rest / 12 && documents <= (rest - 12 * sequences) / 8;
    const std::uint64_t left = fits ? rest - 12 * sequences - 8 * documents : 0;
    if (!fits || (left != 0 && left != sequences)) {
      file_.refuse(18, {"has ", sequences, " sequences and ", documents,
                        " documents, which do not take the ", file_.size(),
                        " bytes that it has: it was cut, or is damaged. Build or fetch it again."});
    }
  }

  void check_sequences(std::uint64_t sequences) {
    std::byte lengths[4 * some];
    std::byte places[8 * some];
    std::uint64_t bytes = 0;
    for (std::uint64_t done = 0; done != sequences;) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(some, sequences - done));
      const std::uint64_t at = begin + 4 * done;
      const std::uint64_t place_at = begin + 4 * sequences + 8 * done;
      file_.read(at, std::span{lengths}.first(4 * count));
      file_.read(place_at, std::span{places}.first(8 * count));
      for (std::size_t i = 0; i != count; ++i) {
        const auto length = number_at<std::uint32_t>(lengths + 4 * i, false);
        const auto place = number_at<std::uint64_t>(places + 8 * i, false);
        if (length > most_length) {
          file_.refuse(at + 4 * i, {"has a negative length for sequence ", done + i,
                                    ": it is damaged. Build the data set again."});
        }
        if (place != bytes) {
          file_.refuse(place_at + 8 * i, {"says that sequence ", done + i, " begins at byte ",
                                          place, " of the tokens, and those before it end at byte ",
                                          bytes, ": build the data set again."});
        }
        if (__builtin_add_overflow(bytes, std::uint64_t{length} * index_.type.bytes, &bytes)) {
          file_.refuse(at + 4 * i, {"has sequences of more bytes than 64 bits count: it is "
                                    "damaged. Build the data set again."});
        }
      }
      done += count;
    }
    index_.tokens = bytes / index_.type.bytes;
  }

  void check_documents(std::uint64_t sequences, std::uint64_t documents, std::uint64_t from) const {
    std::byte firsts[8 * some];
    std::uint64_t last = 0;
    for (std::uint64_t done = 0; done != documents;) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(some, documents - done));
      file_.read(from + 8 * done, std::span{firsts}.first(8 * count));
      for (std::size_t i = 0; i != count; ++i) {
        const auto first = number_at<std::uint64_t>(firsts + 8 * i, false);
        if (first < last || first > sequences) {
          file_.refuse(from + 8 * (done + i),
                       {"says that document ", done + i, " begins with sequence ", first, " of ",
                        sequences, ", behind one that begins with ", last,
                        ": it is damaged. Build the data set again."});
        }
        last = first;
      }
      done += count;
    }
  }

  static constexpr std::size_t some = std::size_t{4} << 10; // entries read at once
  static constexpr std::uint32_t most_length = 0x7FFF'FFFF;

  const HeaderFile& file_;
  MegatronIndex index_;
};

} // namespace penstock::detail
