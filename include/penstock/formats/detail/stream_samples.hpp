// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/formats/detail/stream_part.hpp>
#include <penstock/formats/detail/tar_columns.hpp>
#include <penstock/formats/detail/tar_header.hpp>
#include <penstock/formats/detail/tar_index.hpp>
#include <penstock/formats/detail/tar_samples.hpp>
#include <penstock/formats/tar_member.hpp>
#include <penstock/order/order.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/utf8.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::detail {

/// Cuts a stream that is a tar archive into samples, as Tar does: a record has a place for each
/// column, and a number's is that of its value. See StreamLines.
template <class Fields, class Stream> class StreamSamples {
  using Its = tar_columns<Fields>;

 public:
  /// Refuses members of a column that have more than `longest` bytes.
  StreamSamples(Stream stream, std::size_t longest)
      : stream_{std::move(stream)}, longest_{longest} {}
  StreamSamples(const StreamSamples&) = delete;
  StreamSamples& operator=(const StreamSamples&) = delete;

  void next(StreamPart& part) {
    header_ = header(); // for where decoding stands now
    while (!part.last) {
      if (!ahead_ && !(ahead_ = walk_.next(member_))) {
        finish(part);
        check_rest();
        part.last = true;
        return;
      }
      const TarName cut{member_.name};
      if (!cut.key.empty()) {
        if (cut.key != key_) {
          finish(part);
          if (part.bytes.size() >= stream_part_bytes) {
            return; // the member is the next sample's
          }
          key_ = cut.key;
        }
        take(part, cut.ending, static_cast<const Fields*>(nullptr));
      }
      ahead_.reset();
    }
  }

 private:
  using Place = StreamPart::Place;

  HeaderFile header() noexcept {
    return {stream_.path(), {Stream::inside, stream_.offset(), false}, unknown_size, read_};
  }
  // Goes on to byte `at` of what comes out, which lies behind what was read, and fills `into`.
  void read(std::uint64_t at, std::span<std::byte> into) {
    if (at < at_) { // the first block again, to say what it is if it is no header
      std::copy_n(first_.begin() + static_cast<std::ptrdiff_t>(at), into.size(), into.begin());
      return;
    }
    std::array<std::byte, 4096> passed;
    while (at_ != at) {
      fill(std::span{passed}.first(
          static_cast<std::size_t>(std::min<std::uint64_t>(passed.size(), at - at_))));
    }
    fill(into);
    if (at == 0) {
      std::copy_n(into.begin(), std::min(first_.size(), into.size()), first_.begin());
    }
  }
  void fill(std::span<std::byte> into) {
    const std::size_t got = stream_.read(into);
    at_ += got;
    if (got != into.size()) {
      stream_.refuse({"what comes out is a tar archive that ends without the blocks of zeros that "
                      "end one: it was cut, or is none. Copy or download it again."});
    }
  }
  // Behind the archive's end.
  void check_rest() {
    std::array<std::byte, 4096> rest;
    while (const std::size_t got = stream_.read(rest)) {
      if (!std::all_of(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(got),
                       [](std::byte b) { return b == std::byte{}; })) {
        stream_.refuse({"what comes out goes on behind the zeros that end a tar archive, as "
                        "several in one file do: give each a file of its own."});
      }
    }
  }

  // Takes the member, whose bytes come next.
  template <class... F>
  void take(StreamPart& part, std::string_view ending, const Columns<F...>*) {
    const std::array<bool, sizeof...(F)> wants{
        (tar_holds<F> != TarHolds::key && takes_ending(F::name::text, ending))...};
    if (std::find(wants.begin(), wants.end(), true) == wants.end()) {
      return;
    }
    check_member(ending);
    const Place bytes{part.bytes.size(), std::size_t{member_.bytes}};
    read(member_.offset, part.bytes.room(bytes.bytes));
    part.bytes.add(bytes.bytes);
    std::size_t column = 0;
    const auto place = [&]<class N, class T>(const NamedColumn<N, T>*) {
      if (wants[column]) {
        if (sample_[column]) {
          refuse_sample(Its::names[column], "is there more than once: a sample has one");
        }
        if constexpr (tar_holds<NamedColumn<N, T>> == TarHolds::number) {
          sample_[column] = value<T>(part, bytes);
        } else {
          sample_[column] = bytes;
        }
      }
      ++column;
    };
    (place(static_cast<const F*>(nullptr)), ...);
    any_ = true;
  }
  void check_member(std::string_view ending) const {
    if (*ahead_ != '0') {
      const TarKind kind = tar_kind(*ahead_);
      refuse_sample(ending,
                    joined({"is ", kind.is, ", and a column takes regular files: ", kind.cure}));
    }
    if (member_.bytes > longest_) {
      refuse_sample(ending, joined({"has ", member_.bytes, " bytes, more than .longest, which is ",
                                    longest_, ": leave its column out, or set .longest"}));
    }
  }
  // Reads a number out of a member, and puts it behind.
  template <class T> Place value(StreamPart& part, const Place& text) const {
    T number{};
    const std::string_view said{reinterpret_cast<const char*>(part.bytes.data()) + text.begin,
                                text.bytes};
    if (!number_in(said, number)) {
      refuse_sample("", joined({"is \"", shown(said.substr(0, 64)), "\", where a number of type ",
                                name_of(value_type_of<T>()), " should be"}));
    }
    part.bytes.append(&number, sizeof number);
    return {part.bytes.size() - sizeof number, sizeof number};
  }
  // Puts the sample, which has all its members, if it has any.
  void finish(StreamPart& part) {
    for (std::size_t column = 0; any_ && column != sample_.size(); ++column) {
      if (Its::holds[column] == TarHolds::key) {
        sample_[column] = {part.bytes.size(), key_.size()};
        part.bytes.append(key_.data(), key_.size());
      } else if (!sample_[column]) {
        refuse_sample(Its::names[column],
                      "is not there beside the sample's other members: write it next to them");
      }
    }
    for (std::optional<Place>& place : sample_) {
      if (any_) {
        part.places.push_back(*place);
      }
      place.reset();
    }
    part.records += any_ ? 1 : 0;
    any_ = false;
    key_.clear();
  }
  [[noreturn, gnu::cold]] void refuse_sample(std::string_view ending, std::string_view why) const {
    stream_.refuse({"the member ", shown(key_), ending.empty() ? "" : ".", ending,
                    " of the tar archive that comes out ", why, "."});
  }

  Stream stream_;
  std::size_t longest_;
  std::uint64_t at_{}; // of what comes out
  std::array<std::byte, tar_block> first_{};
  struct Reads {
    StreamSamples& samples;
    void operator()(std::uint64_t at, std::span<std::byte> into) const { samples.read(at, into); }
  } const read_{*this};
  HeaderFile header_ = header();
  TarWalk walk_{header_, TarWalk::Streamed{}};
  TarMember member_;
  std::optional<char> ahead_; // the type of the member, if it was not taken yet
  std::string key_;           // of the sample whose members come
  std::array<std::optional<Place>, Its::names.size()> sample_{};
  bool any_{};
};

} // namespace penstock::detail
