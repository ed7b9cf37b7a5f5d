// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/visit.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// What jpeg() and png() have to say of pictures that they kept: a decoder's warnings, such as data
/// that ends too early. Give one to the options, `.notes = &notes`; it must outlive the pipeline.
/// Any number of decoders may share one, and all calls may come from any thread; none blocks for
/// longer than it takes to copy the notes.
class ImageNotes {
 public:
  /// A picture that was kept with a warning.
  struct Note {
    std::uint64_t record; ///< Its number in the source.
    std::uint64_t epoch;  ///< When: see Visit.
    std::string text;     ///< What the library said first.
  };
  /// How many notes are kept whole.
  static constexpr std::size_t most_kept = 100;

  /// Returns how many pictures were noted; a picture counts once an epoch and try.
  std::uint64_t count() const {
    const std::lock_guard lock{mutex_};
    return count_;
  }
  /// Returns the first `most_kept` notes, in the order in which they came.
  std::vector<Note> first() const {
    const std::lock_guard lock{mutex_};
    return kept_;
  }
  /// For decoders: notes a record.
  void add(const Visit& visit, std::string_view text) {
    const std::lock_guard lock{mutex_};
    ++count_;
    if (kept_.size() < most_kept) {
      kept_.push_back({visit.record, visit.epoch, std::string{text}});
    }
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t count_{};
  std::vector<Note> kept_;
};

} // namespace penstock
