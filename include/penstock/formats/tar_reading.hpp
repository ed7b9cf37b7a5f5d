// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/formats/detail/tar_columns.hpp>
#include <penstock/formats/detail/tar_samples.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/renumbered.hpp>
#include <penstock/sources/detail/thread_buffer.hpp>
#include <penstock/sources/detail/utf8.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::detail {

/// Reads the samples of an archive up to number `end`, in order.
template <class Its, class Part, class Io> class TarReading {
 public:
  TarReading(const RecordFiles<Io>& files, const Part& part, std::uint64_t end)
      : files_{files}, part_{part}, end_{end} {}

  // Goes to a sample: reads it, and with it those behind it, if it is small.
  void look_at(std::uint64_t sample) {
    sample_ = sample;
    const auto places = part_.samples[sample];
    std::uint64_t from = ~std::uint64_t{0};
    std::uint64_t to = 0;
    for (std::size_t i = 0; i != places.size(); ++i) {
      if (Its::holds[i] != TarHolds::key) {
        check(places[i], Its::names[i]);
        from = std::min(from, places[i].data);
        to = std::max(to, places[i].end());
      }
    }
    if (to - from <= most_gathered && (from < begin_ || to > begin_ + held_.size())) {
      for (const TarPlace& place : part_.samples[end_ - 1]) {
        to = std::max(to, place.end());
      }
      begin_ = from;
      held_ = thread_buffer();
      held_ = held_.first(std::min<std::uint64_t>(held_.size(), to - from));
      const std::span<std::byte> into = std::exchange(held_, {}); // none if it throws
      read(begin_, into);
      held_ = into;
    }
  }
  // Copies a column's bytes.
  void copy(std::size_t column, std::byte* to) const {
    const TarPlace& place = part_.samples[sample_][column];
    if (place.bytes == 0) {
      return;
    }
    if (place.data >= begin_ && place.end() <= begin_ + held_.size()) {
      std::memcpy(to, held_.data() + (place.data - begin_), place.bytes);
    } else {
      read(place.data, {to, static_cast<std::size_t>(place.bytes)});
    }
  }
  std::size_t bytes(std::size_t column) const noexcept {
    return part_.samples[sample_][column].bytes;
  }
  std::string_view key() const noexcept { return part_.samples.key(sample_); }
  template <class T> T number(std::size_t column) const {
    char text[64];
    T value{};
    const std::size_t count = bytes(column);
    if (count <= sizeof text) {
      copy(column, reinterpret_cast<std::byte*>(text));
    }
    if (count > sizeof text || !number_in({text, count}, value)) {
      refuse(part_.samples[sample_][column].data, Its::names[column],
             count > sizeof text ? joined({"has ", count, " bytes"})
                                 : joined({"is \"", shown({text, count}), "\""}),
             joined({"where a number of type ", name_of(value_type_of<T>()), " should be"}));
    }
    return value;
  }

 private:
  static constexpr std::uint64_t most_gathered = std::uint64_t{32} << 10;

  void check(const TarPlace& place, std::string_view column) const {
    if (!place.is_there()) {
      const bool none = place.data == TarPlace::none;
      refuse(0, column, none ? "is not there" : "is there more than once",
             none ? "beside the sample's other members: write it next to them, or leave such "
                    "samples out by .on_error"
                  : "and a sample has one: write the archive again without the others, or leave "
                    "such samples out by .on_error");
    }
  }
  [[noreturn, gnu::cold]] void refuse(std::uint64_t at, std::string_view column,
                                      const std::string& is, const std::string& why) const {
    const std::uint64_t record = part_.first + sample_;
    throw_source_error({"penstock: tar: the member ", shown(key()), ".", column, " of ", part_.path,
                        at == 0 ? "" : ", at byte ", at == 0 ? "" : std::to_string(at),
                        at == 0 ? " " : ", ", is, ", ", why, ". This was record ", record, "."},
                       part_.path, at, record);
  }
  void read(std::uint64_t from, std::span<std::byte> into) const {
    const auto here = [&](std::uint64_t) { return std::optional{part_.first + sample_}; };
    renumbered("tar", here, [&] { files_.read_bytes(part_.first_byte + from, into, 1); });
  }

  const RecordFiles<Io>& files_;
  const Part& part_;
  std::uint64_t end_;
  std::uint64_t sample_{};
  std::uint64_t begin_{}; // of what is held of the file
  std::span<std::byte> held_{};
};

} // namespace penstock::detail
