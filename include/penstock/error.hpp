// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace penstock {

/// The base of everything that penstock throws, except std::bad_alloc. The text names the thing,
/// its place and the cure. Errors stay visible in shared libraries that hide all else, so that one
/// library can catch what another throws.
class [[gnu::visibility("default")]] Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An option that cannot work, such as a depth of 1. When prepare() throws it, it has given back
/// what it had made.
class [[gnu::visibility("default")]] OptionError : public Error {
 public:
  using Error::Error;
};

namespace detail {
/// A slot is full: it has no room for a record that would fit into an empty one. No record is at
/// fault, so that none is left out for it.
class [[gnu::visibility("default")]] SlotFull : public Error {
 public:
  /// `before`: records that the slot has; `each`: bytes of values that these and the next have, on
  /// an average, or the next alone, if that is more.
  SlotFull(const std::string& what, std::uint64_t before, std::uint64_t each)
      : Error{what}, before_{before}, each_{each} {}
  std::uint64_t before() const noexcept { return before_; }
  std::uint64_t each() const noexcept { return each_; }

 private:
  std::uint64_t before_;
  std::uint64_t each_;
};
} // namespace detail

/// A source could not be opened or read.
class [[gnu::visibility("default")]] SourceError : public Error {
 public:
  /// `file` is empty for sources that are not files; `offset` is in bytes from the file's start;
  /// `record` is the record's number in the source, where it is known.
  SourceError(const std::string& what, std::string file, std::uint64_t offset,
              std::optional<std::uint64_t> record = {});
  /// Returns the file's path, or empty.
  const std::string& file() const noexcept { return file_; }
  /// Returns the offset in bytes from the file's start.
  std::uint64_t offset() const noexcept { return offset_; }
  /// Returns the record's number in the source, from 0; none if the thrower did not say.
  std::optional<std::uint64_t> record() const noexcept { return record_; }

 private:
  std::string file_;
  std::uint64_t offset_;
  std::optional<std::uint64_t> record_;
};

/// A pipeline's output could not be written.
class [[gnu::visibility("default")]] SinkError : public Error {
 public:
  /// `offset` is in bytes from the file's start.
  SinkError(const std::string& what, std::string file, std::uint64_t offset)
      : Error{what}, file_{std::move(file)}, offset_{offset} {}
  /// Returns the file's path.
  const std::string& file() const noexcept { return file_; }
  /// Returns the offset in bytes from the file's start.
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  std::string file_;
  std::uint64_t offset_;
};

/// A call to a device failed.
class [[gnu::visibility("default")]] DeviceError : public Error {
 public:
  /// `call` is the function's name; a sticky error leaves the device unusable until the process
  /// ends.
  DeviceError(const std::string& what, std::string call, int code, bool sticky)
      : Error{what}, call_{std::move(call)}, code_{code}, sticky_{sticky} {}
  /// Returns the function that failed.
  const std::string& call() const noexcept { return call_; }
  /// Returns the device's own number of the error.
  int code() const noexcept { return code_; }
  /// Returns whether the device is unusable until the process ends.
  bool sticky() const noexcept { return sticky_; }

 private:
  std::string call_;
  int code_;
  bool sticky_;
};

/// The one error that run() throws: the first in time. The cause is nested
/// (std::rethrow_if_nested).
class [[gnu::visibility("default")]] StageError : public Error, public std::nested_exception {
 public:
  /// Makes one inside a catch block: the exception in flight becomes its cause.
  StageError(const std::string& what, std::string stage, std::uint64_t record,
             std::string file = {}, std::uint64_t offset = 0, std::string enqueued_by = {});
  /// Returns the stage that saw the error, by its name in the Report.
  const std::string& stage() const noexcept { return stage_; }
  /// Returns the record at fault: exact if the source says which, else the first of the slot or
  /// batch. In a Reader and a Decoder it is the number in the source, in later stages it counts as
  /// index() does.
  std::uint64_t record() const noexcept { return record_; }
  /// Returns, after a sticky error of a device, the stage whose work was still queued: any later
  /// call may bring such an error to light. The text names that stage and its records. Else empty.
  const std::string& enqueued_by() const noexcept { return enqueued_by_; }
  /// Returns the file being read or written, else what the source's name() says of the record, if
  /// it has one; or empty.
  const std::string& file() const noexcept { return file_; }
  /// Returns the offset in bytes from the start of file().
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  std::string stage_;
  std::uint64_t record_;
  std::string file_;
  std::uint64_t offset_;
  std::string enqueued_by_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE SourceError::SourceError(const std::string& what, std::string file,
                                         std::uint64_t offset, std::optional<std::uint64_t> record)
    : Error{what}, file_{std::move(file)}, offset_{offset}, record_{record} {}

PENSTOCK_INLINE StageError::StageError(const std::string& what, std::string stage,
                                       std::uint64_t record, std::string file, std::uint64_t offset,
                                       std::string enqueued_by)
    : Error{what}, stage_{std::move(stage)}, record_{record}, file_{std::move(file)},
      offset_{offset}, enqueued_by_{std::move(enqueued_by)} {}
#endif

} // namespace penstock
