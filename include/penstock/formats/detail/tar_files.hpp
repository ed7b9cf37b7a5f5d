// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/tar_columns.hpp>
#include <penstock/formats/detail/tar_header.hpp>
#include <penstock/formats/detail/tar_index.hpp>
#include <penstock/formats/detail/tar_samples.hpp>
#include <penstock/formats/tar_options.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/file.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/endings.hpp>
#include <penstock/sources/detail/largest_sums.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Tar archives, one after the other, and where their samples lie.
template <class Io> class TarFiles {
 public:
  /// An archive that has samples: those from number `first` on.
  struct Part {
    std::string path;
    std::uint64_t first_byte; // of the file, counted over all
    std::uint64_t first;      // number of its first sample
    TarSamples samples;
  };

  /// Opens the archives and finds their samples, in many side by side. Throws SourceError.
  TarFiles(const RecordFiles<Io>& closed, const PrepareOptions& preparing,
           const TarOptions& options, std::span<const std::string_view> columns,
           std::span<const TarHolds> holds)
      : files_{"tar",
               files_ending(
                   "tar", closed.io(), closed.paths(), ".tar", [](const std::string&) {},
                   options.leave_out_damaged ? &not_whole_ : nullptr),
               closed.io()} {
    const auto look = [&](const File<Io>& file, std::size_t) {
      const auto whole = [&](const SourceError& e) { return e.file() != file.path(); };
      const auto not_whole = std::find_if_not(not_whole_.begin(), not_whole_.end(), whole);
      if (not_whole != not_whole_.end()) {
        throw SourceError{*not_whole};
      }
      const FoundIndex found = find_index(files_.io(), file, options.keep_index);
      Found made{TarSamples{columns}, found.not_kept};
      found.index.each(
          [&](std::string_view name, std::uint64_t data, std::uint64_t bytes, char type) {
            if (type == '0') {
              made.samples.add(name, data, bytes);
            } else {
              made.pass_over(file.path(), name, data - tar_block, type);
            }
          });
      made.samples.end();
      return made;
    };
    const auto settle = [&](Found& found, const File<Io>& file, std::uint64_t before) {
      const auto keep_first = [](std::string& first, const std::string& next) {
        if (first.empty()) {
          first = next;
        }
      };
      keep_first(not_kept_, found.not_kept);
      keep_first(endings_, found.samples.endings());
      passed_over_ += found.passed_over;
      keep_first(first_passed_, found.first_passed);
      // The archives that are left out tell no place of theirs: what is left may look the same.
      identity_ = left_out_.empty() ? identity_ : and_then(identity_, left_out_.size());
      if (found.samples.size() != 0) {
        parts_.push_back({file.path(), before, size_, std::move(found.samples)});
        size_ += parts_.back().samples.size();
      }
      return RecordsAt{0, file.size()};
    };
    // Each holds its archive while it opens that one's index: no more than can have both.
    const std::size_t threads =
        std::clamp<std::size_t>(descriptors_for_a_read() / 2, 1, most_opening_threads);
    files_.open(preparing, DirectReads::none, 0, look, settle,
                options.keep_index ? threads : most_opening_threads,
                options.leave_out_damaged ? &left_out_ : nullptr);
    if (!left_out_.empty() && left_out_.size() == files_.paths().size()) {
      throw SourceError{left_out_.front()};
    }
    check(options, columns, holds);
  }

  const RecordFiles<Io>& files() const noexcept { return files_; }
  std::uint64_t size() const noexcept { return size_; }
  const LargestSums& sums() const noexcept { return sums_; }
  std::uint64_t identity() const noexcept { return identity_; }
  const std::vector<SourceError>& left_out() const noexcept { return left_out_; }
  /// Calls f(part, first, count) for each archive that has some of the `count` samples from `at`
  /// on: those from the archive's number `first` on.
  template <class F> void each_part(std::uint64_t at, std::uint64_t count, F f) const {
    auto part =
        std::upper_bound(parts_.begin(), parts_.end(), at, [](std::uint64_t sample, const Part& p) {
          return sample < p.first + p.samples.size();
        });
    for (; count != 0; ++part) {
      const std::uint64_t here = std::min(part->first + part->samples.size() - at, count);
      f(*part, at - part->first, here);
      at += here;
      count -= here;
    }
  }
  [[gnu::cold]] void note(std::string& to) const {
    if (!left_out_.empty()) {
      add_note(to, joined({"left out ", left_out_.size(), " of ", files_.paths().size(),
                           " archives, the first one: ", text_of(left_out_.front())}));
    }
    if (passed_over_ != 0) {
      add_note(to, joined({"passed over members that are no regular files, ", passed_over_,
                           " in all, the first is ", first_passed_}));
    }
    if (!not_kept_.empty()) {
      add_note(to, joined({"an index could not be kept: ", not_kept_}));
    }
    files_.note(to);
  }

 private:
  // What an archive has.
  struct Found {
    TarSamples samples;
    std::string not_kept;
    std::uint64_t passed_over{};
    std::string first_passed{};

    // Takes a member that is no regular file, and lies at byte `at`. Throws if a column takes it.
    [[gnu::cold]] void pass_over(const std::string& path, std::string_view name, std::uint64_t at,
                                 char type) {
      const std::string_view* const column = samples.column_of(name);
      if (column) {
        const TarKind kind = tar_kind(type);
        throw_source_error({"penstock: tar: ", path, " at byte ", at, " has the member ",
                            shown(name), ", ", kind.is, ", for the column \"", *column,
                            "\", which takes regular files: ", kind.cure, "."},
                           path, at);
      }
      if (passed_over++ == 0) {
        first_passed = joined({shown(name), " of ", path, ", ", tar_kind(type).is});
      }
    }
  };

  // Refuses what would fail later, and makes the sums.
  [[gnu::cold]] void check(const TarOptions& options, std::span<const std::string_view> columns,
                           std::span<const TarHolds> holds) {
    std::vector<bool> seen(columns.size(), endings_.empty());
    Largest longest;
    for (const Part& part : parts_) {
      for (std::uint64_t i = 0; i != part.samples.size(); ++i) {
        const std::span<const TarPlace> places = part.samples[i];
        std::uint64_t most = part.samples.key(i).size();
        for (std::size_t column = 0; column != places.size(); ++column) {
          const TarPlace& place = places[column];
          seen[column] = seen[column] || place.data != TarPlace::none;
          most = std::max(most, holds[column] == TarHolds::bytes ? place.bytes : 0);
          identity_ = and_then(identity_ ^ place.data, place.bytes);
          if (place.bytes > options.largest) {
            throw_source_error({"penstock: tar: the member ", shown(part.samples.key(i)), ".",
                                columns[column], " of ", part.path, ", at byte ", place.data,
                                ", has ", place.bytes, " bytes, more than .largest, which is ",
                                options.largest, ": leave its column out, or set .largest."},
                               part.path, place.data, part.first + i);
          }
        }
        longest.add(most);
      }
    }
    for (std::size_t column = 0; column != columns.size(); ++column) {
      if (!seen[column] && holds[column] != TarHolds::key) {
        refuse_column(columns[column]);
      }
    }
    sums_ = LargestSums{std::move(longest)};
  }
  [[noreturn, gnu::cold]] void refuse_column(std::string_view column) const {
    const std::string& first = files_.paths().front();
    throw_source_error(
        {"penstock: tar: no member in ", first, files_.paths().size() > 1 ? " and on" : "",
         " has the ending \"", column, "\" of a column",
         left_out_.empty() ? std::string{}
                           : joined({", with ", left_out_.size(), " of ", files_.paths().size(),
                                     " archives left out"}),
         ". The first members have: ", shown(endings_), ". Name columns by endings."},
        first, 0);
  }

  static constexpr std::size_t most_opening_threads = 32;

  std::vector<SourceError> not_whole_; // by their names; before the files, which it is made with
  RecordFiles<Io> files_;
  std::vector<Part> parts_;
  std::uint64_t size_{};
  std::uint64_t identity_{};
  LargestSums sums_;
  std::string endings_;
  std::string not_kept_;
  std::vector<SourceError> left_out_;
  std::uint64_t passed_over_{};
  std::string first_passed_;
};

} // namespace penstock::detail
