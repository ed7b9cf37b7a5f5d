// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/failure.hpp>
#include <penstock/error.hpp>
#include <penstock/run/report.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What a run has skipped, and why: the first 1000 items. Any thread.
class SkipNotes {
 public:
  /// Notes the exception in flight, inside a catch block, as the reason why `records` records were
  /// skipped. If there is no memory for that, they are skipped all the same.
  [[gnu::cold]] void note(const std::string& stage, std::uint64_t record, std::uint64_t records,
                          const RecordNames& names = {}) noexcept;
  /// Copies the notes; none if there is no memory for them.
  [[gnu::cold]] void copy(std::vector<SkippedItem>& to) const noexcept;
  /// Forgets all notes, before a run.
  void clear() noexcept;

 private:
  static constexpr std::size_t most = 1000;

  [[gnu::cold]] static SkippedItem in_flight();

  mutable std::mutex mutex_;
  Vector<SkippedItem> items_;
  StdAtomics::Atomic<std::size_t> noted_{0}; // how many those are
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void SkipNotes::note(const std::string& stage, std::uint64_t record,
                                     std::uint64_t records, const RecordNames& names) noexcept {
  // Checked before describing, which takes longer than all the rest.
  if (noted_.load(StdAtomics::relaxed) == most) {
    return;
  }
  try {
    SkippedItem item = in_flight();
    item.file = item.file.empty() ? names(record) : item.file;
    item.stage = stage;
    item.record = record;
    item.records = records;
    const std::scoped_lock lock{mutex_};
    if (items_.size() < most) {
      items_.push_back(std::move(item));
      noted_.store(items_.size(), StdAtomics::relaxed);
    }
  } catch (...) {
  }
}

PENSTOCK_INLINE void SkipNotes::copy(std::vector<SkippedItem>& to) const noexcept {
  const std::scoped_lock lock{mutex_};
  try {
    to.assign(items_.begin(), items_.end()); // keeps the memory of the last run
  } catch (...) {
    to.clear();
  }
}

PENSTOCK_INLINE void SkipNotes::clear() noexcept {
  const std::scoped_lock lock{mutex_};
  items_.clear();
  noted_.store(0, StdAtomics::relaxed);
}

PENSTOCK_INLINE SkippedItem SkipNotes::in_flight() {
  SkippedItem item;
  try {
    throw;
  } catch (const SourceError& e) {
    item.file = e.file();
    item.offset = e.offset();
    item.reason.append(text_of(e));
  } catch (const std::exception& e) {
    item.reason.append(text_of(e));
  } catch (...) {
    item.reason.append("something that is no std::exception was thrown");
  }
  return item;
}
#endif

} // namespace penstock::detail
