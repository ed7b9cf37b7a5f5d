// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>

#include <cstdint>

namespace penstock::detail {

/// A tool's functions, called around each thing that a stage does, by the thread that does it.
/// Calls of begin() and end() alternate or nest. Neither throws.
struct TraceHooks {
  /// `stage` lives as long as the pipeline; `record` is the first record that the stage works on.
  void (*begin)(const char* stage, std::uint64_t record) noexcept;
  void (*end)() noexcept;
};

/// The tool that listens, or null. Any thread may exchange it at any time. It points to a constant
/// that lives until the program ends, so that relaxed accesses are enough. All shared libraries of
/// a program share it, even those that hide what they do not export.
[[gnu::visibility("default")]] inline constinit StdAtomics::Atomic<const TraceHooks*> trace_hooks{
    nullptr};

/// While it lives, its thread works for a stage. Without a tool it costs a relaxed load and a
/// branch; it never allocates.
class [[nodiscard]] TraceRange {
 public:
  TraceRange(const char* stage, std::uint64_t record) noexcept;
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
  ~TraceRange();

 private:
  const TraceHooks* const hooks_; // the tool that was told of the beginning is told of the end
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE TraceRange::TraceRange(const char* stage, std::uint64_t record) noexcept
    : hooks_{trace_hooks.load(StdAtomics::relaxed)} {
  if (hooks_ != nullptr) [[unlikely]] {
    hooks_->begin(stage, record);
  }
}

PENSTOCK_INLINE TraceRange::~TraceRange() {
  if (hooks_ != nullptr) [[unlikely]] {
    hooks_->end();
  }
}
#endif

} // namespace penstock::detail
