// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/url.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/error.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace penstock::detail {

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

/// What names the records of a run's source, such as by their files: nothing, by default.
struct RecordNames {
  const void* source{};
  std::string (*name)(const void* source, std::uint64_t record){};

  /// Returns a record's name; an empty one if it has none, or cannot be asked for.
  std::string operator()(std::uint64_t record) const noexcept {
    try {
      std::string its = name ? name(source, record) : std::string{};
      hide_credentials(its);
      return its;
    } catch (...) {
      return {};
    }
  }
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
  RecordNames names{};          // of the record, if it is one of the source's
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
  const std::string name = file.empty() ? failure.names(record) : std::string{};
  try {
    throw StageError{
        joined({prefix, failure.stage, " failed ", worker.what ? worker.what : "at record ",
                worker.what ? worker.number : record, name.empty() ? "" : ", ", name, ": ", cause,
                more}),
        failure.stage,
        record,
        name.empty() ? std::string{file} : name,
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
