// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/error.hpp>
#include <penstock/run/report.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What a run has skipped, and why: the first 1000 items. Any thread.
class SkipNotes {
 public:
  /// Notes the exception in flight, inside a catch block, as the reason why `records` records were
  /// skipped. If there is no memory for that, they are skipped all the same.
  [[gnu::cold]] void note(const std::string& stage, std::uint64_t record,
                          std::uint64_t records) noexcept {
    // Checked before describing, which takes longer than all the rest.
    if (noted_.load(StdAtomics::relaxed) == most) {
      return;
    }
    try {
      SkippedItem item = in_flight();
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
  /// Copies the notes; none if there is no memory for them.
  [[gnu::cold]] void copy(std::vector<SkippedItem>& to) const noexcept {
    const std::scoped_lock lock{mutex_};
    try {
      to.assign(items_.begin(), items_.end()); // keeps the memory of the last run
    } catch (...) {
      to.clear();
    }
  }
  /// Forgets all notes, before a run.
  void clear() noexcept {
    const std::scoped_lock lock{mutex_};
    items_.clear();
    noted_.store(0, StdAtomics::relaxed);
  }

 private:
  static constexpr std::size_t most = 1000;

  [[gnu::cold]] static SkippedItem in_flight() {
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

  mutable std::mutex mutex_;
  Vector<SkippedItem> items_;
  StdAtomics::Atomic<std::size_t> noted_{0}; // how many those are
};

/// Work on a device that is not known to be done: the stage that enqueued it, and its first record.
/// Without a stage there is no such work.
struct OpenWork {
  std::string stage;
  std::uint64_t record{};
};
/// Asks a node for its open work, on the device that is its side.
struct AsksOpenWork {
  const void* node;
  const void* side;
  OpenWork (*open_work)(const void*);
};

/// What a stage failed to do for one of its workers, "to … worker "; without it, a stage failed at
/// a record.
struct ForWorker {
  const char* what{};
  unsigned number{};
};

/// Where a stage failed.
struct Failure {
  const std::string& stage;
  std::uint64_t record{};
  bool reads{};          // a SourceError's record is one of the run's
  std::uint64_t skips{}; // bad items of the stage that were left out before it
  ForWorker worker{};
  const void* side{};           // the device of the stage, if there are several
  std::uint64_t slot_records{}; // that a slot which it fills has at most
};

/// Returns the exception in flight, inside a catch block, as a StageError. May throw
/// std::bad_alloc.
[[gnu::cold]] inline std::exception_ptr describe(const Failure& failure,
                                                 const Vector<AsksOpenWork>& asks) {
  // These point into the exception in flight, which lives until this returns.
  const char* what = "something that is no std::exception was thrown";
  std::string_view file;
  std::uint64_t offset = 0;
  std::uint64_t record = failure.record;
  std::string more = failure.skips == 0 ? ""
                                        : joined({" (", failure.skips,
                                                  " bad ones were left out before it, as many as "
                                                  ".on_error.skips allows)"});
  std::string enqueued_by;
  try {
    throw;
  } catch (const SlotFull& e) {
    what = e.what();
    more = joined({" The record is number ", e.before() + 1, " in its slot, and a slot has up to ",
                   failure.slot_records,
                   " records: only 1, 2, 4 and so on at first, where the Reader has no .batch, so "
                   "that a run over few may pass. All of them share the room: .value_bytes = ",
                   failure.slot_records * e.each(), " would do for ", failure.slot_records, " of ",
                   e.each(), " bytes each."});
  } catch (const SourceError& e) {
    record = failure.reads ? e.record().value_or(record) : record;
    what = text_of(e);
    file = e.file();
    offset = e.offset();
  } catch (const SinkError& e) {
    what = text_of(e);
    file = e.file();
    offset = e.offset();
  } catch (const DeviceError& e) {
    what = text_of(e);
    for (std::size_t i = 0; e.sticky() && i < asks.size(); ++i) {
      if (failure.side && asks[i].side != failure.side) {
        continue; // another device's work is not at fault
      }
      if (const OpenWork open = asks[i].open_work(asks[i].node); !open.stage.empty()) {
        more += joined({enqueued_by.empty() ? " Still queued was what " : " And what ", open.stage,
                        " enqueued from record ", open.record, " on."});
        enqueued_by = enqueued_by.empty() ? open.stage : enqueued_by;
      }
    }
  } catch (const std::exception& e) {
    what = text_of(e);
  } catch (...) {
  }
  constexpr std::string_view prefix = "penstock: ";
  std::string_view cause = what;
  cause.remove_prefix(cause.starts_with(prefix) ? prefix.size() : 0);
  const ForWorker& worker = failure.worker;
  try {
    throw StageError{
        joined({prefix, failure.stage, " failed ", worker.what ? worker.what : "at record ",
                worker.what ? worker.number : record, ": ", cause, more}),
        failure.stage,
        record,
        std::string{file},
        offset,
        enqueued_by};
  } catch (const StageError&) {
    return std::current_exception();
  }
}
/// Returns the exception in flight, described; as it is, if there is no memory for a description.
[[gnu::cold]] inline std::exception_ptr described(const Failure& failure,
                                                  const Vector<AsksOpenWork>& asks) noexcept {
  std::exception_ptr error = std::current_exception();
  try {
    error = describe(failure, asks);
  } catch (...) {
  }
  return error;
}

} // namespace penstock::detail
