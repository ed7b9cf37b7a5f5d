// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/formats/detail/tar_header.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Whether a column takes members of this ending: its name is that, or lists it between semicolons.
/// The case of letters does not matter.
inline bool takes_ending(std::string_view column, std::string_view ending) noexcept {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const auto same = [&](char a, char b) { return lower(a) == lower(b); };
  for (;;) {
    const std::size_t end = std::min(column.find(';'), column.size());
    const std::string_view one = column.substr(0, end);
    if (std::equal(one.begin(), one.end(), ending.begin(), ending.end(), same)) {
      return true;
    }
    if (end == column.size()) {
      return false;
    }
    column.remove_prefix(end + 1);
  }
}

/// Where a column of a sample lies in its archive.
struct TarPlace {
  std::uint64_t data; // none, or more than one: the sample has no such member, or several
  std::uint64_t bytes;

  static constexpr std::uint64_t none = 0;
  static constexpr std::uint64_t several = 1;
  bool is_there() const noexcept { return data > several; }
  std::uint64_t end() const noexcept { return data + bytes; }
};

/// The samples of a tar archive: members that lie next to one another and have one key.
class TarSamples {
 public:
  /// `columns` are the columns' names.
  explicit TarSamples(std::span<const std::string_view> columns)
      : columns_{columns.begin(), columns.end()}, sample_(columns.size()) {}

  /// Returns the column that takes a member of this name; null if none does.
  const std::string_view* column_of(std::string_view name) const noexcept {
    const TarName cut{name};
    const auto found = std::find_if(columns_.begin(), columns_.end(), [&](std::string_view column) {
      return !cut.key.empty() && takes_ending(column, cut.ending);
    });
    return found == columns_.end() ? nullptr : &*found;
  }
  /// Takes the members in their order.
  void add(std::string_view name, std::uint64_t data, std::uint64_t bytes) {
    const TarName cut{name};
    if (cut.key.empty()) {
      return;
    }
    if (cut.key != key_) {
      end();
      key_ = cut.key;
    }
    for (std::size_t i = 0; i != columns_.size(); ++i) {
      if (takes_ending(columns_[i], cut.ending)) {
        TarPlace& place = sample_[i];
        place = {place.data == TarPlace::none ? data : TarPlace::several,
                 place.data == TarPlace::none ? bytes : 0};
        any_ = true;
      }
    }
    if (endings_.empty() || endings_.size() < 200) {
      endings_ += endings_.empty() ? "" : ", ";
      endings_ += cut.ending;
    }
  }
  /// To be called behind the last member. What has none of the columns is no sample.
  void end() {
    if (any_) {
      places_.insert(places_.end(), sample_.begin(), sample_.end());
      key_ends_.push_back((key_ends_.empty() ? 0 : key_ends_.back()) + key_.size());
      keys_ += key_;
    }
    std::fill(sample_.begin(), sample_.end(), TarPlace{});
    key_.clear();
    any_ = false;
  }

  std::uint64_t size() const noexcept { return key_ends_.size(); }
  /// Returns where each column of a sample lies.
  std::span<const TarPlace> operator[](std::uint64_t sample) const noexcept {
    return std::span{places_}.subspan(sample * columns_.size(), columns_.size());
  }
  std::string_view key(std::uint64_t sample) const noexcept {
    const std::uint64_t begin = sample == 0 ? 0 : key_ends_[sample - 1];
    return std::string_view{keys_}.substr(begin, key_ends_[sample] - begin);
  }
  /// Returns the endings of the first members that belong to samples.
  const std::string& endings() const noexcept { return endings_; }

 private:
  std::vector<std::string_view> columns_;
  std::vector<TarPlace> places_;
  std::vector<std::uint64_t> key_ends_;
  std::string keys_;
  std::string endings_;
  // The sample whose members come.
  std::string key_;
  std::vector<TarPlace> sample_;
  bool any_ = false;
};

} // namespace penstock::detail
