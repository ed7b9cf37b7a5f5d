// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <chrono>
#include <cstdint>
#include <functional>

namespace penstock {

/// How far prepare() is with the files of a source.
struct Preparation {
  /// Files opened and measured.
  std::uint64_t files{};
  /// Files found: more and more, and all of them when the first is opened.
  std::uint64_t files_in_all{};
};

/// Options of prepare(): `pipeline.prepare({.progress = f})`.
struct PrepareOptions {
  /// Called while files are found and opened, on the thread that called prepare(), and once more
  /// when the last is open. What it throws, prepare() throws, and is then as if it had not been
  /// called. Never called for a source without files.
  std::function<void(const Preparation&)> progress = {};
  /// How often progress is called; 0: after each file that the thread which called prepare() has
  /// looked at or opened.
  std::chrono::milliseconds every{100};
};

} // namespace penstock
