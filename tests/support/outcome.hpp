// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/error.hpp>

#include <concepts>
#include <cstdint>
#include <exception>
#include <new>
#include <ostream>
#include <string>

namespace penstock::tests {

enum class Came { nothing, stage_error, device_error, source_error, error, bad_alloc, other };

/// What came out of a call, and what was nested in it.
struct Outcome {
  Came came = Came::nothing;
  std::string text;
  /// Of a StageError.
  std::string stage;
  std::string enqueued_by;
  std::uint64_t record{};
  Came cause = Came::nothing;
  /// Of a StageError or SourceError.
  std::string file;
  std::uint64_t offset{};
  /// Of a DeviceError, nested or not.
  int code{};
  bool sticky{};
  /// The exception nested in a StageError.
  std::exception_ptr nested;

  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }
  friend std::ostream& operator<<(std::ostream& os, const Outcome& o) {
    return os << "outcome " << static_cast<int>(o.came) << " (" << o.text << "), stage " << o.stage
              << ", record " << o.record << ", cause " << static_cast<int>(o.cause) << ", file "
              << o.file << ", offset " << o.offset << ", code " << o.code
              << (o.sticky ? ", sticky" : "");
  }
};

/// Returns the outcome of an exception that was caught.
inline Outcome outcome_of(const std::exception_ptr& thrown) {
  Outcome out;
  const auto note = [&out](const std::exception& e, Came came) {
    out.came = came;
    out.text = e.what();
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const StageError& e) {
    note(e, Came::stage_error);
    out.stage = e.stage();
    out.enqueued_by = e.enqueued_by();
    out.record = e.record();
    out.file = e.file();
    out.offset = e.offset();
    out.nested = e.nested_ptr();
    if (out.nested) {
      const Outcome cause = outcome_of(out.nested);
      out.cause = cause.came;
      out.code = cause.code;
      out.sticky = cause.sticky;
    }
  } catch (const DeviceError& e) {
    note(e, Came::device_error);
    out.code = e.code();
    out.sticky = e.sticky();
  } catch (const SourceError& e) {
    note(e, Came::source_error);
    out.file = e.file();
    out.offset = e.offset();
    out.record = e.record().value_or(0);
  } catch (const Error& e) {
    note(e, Came::error);
  } catch (const std::bad_alloc& e) {
    note(e, Came::bad_alloc);
  } catch (const std::exception& e) {
    note(e, Came::other);
  } catch (...) {
    out.came = Came::other;
  }
  return out;
}

/// Calls f and returns what became of it.
template <class F>
  requires std::invocable<F&>
Outcome outcome_of(F f) {
  try {
    f();
    return {};
  } catch (...) {
    return outcome_of(std::current_exception());
  }
}

} // namespace penstock::tests
