// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>
#include <string>

namespace penstock {

/// What was left out of a run because it failed: see OnError.
struct SkippedItem {
  /// The stage, by its name in the Report.
  std::string stage;
  /// The first record's number in the source.
  std::uint64_t record{};
  /// How many records were left out.
  std::uint64_t records{};
  /// The file; empty, with an offset of 0, if the error names none.
  std::string file;
  /// Bytes from the file's start.
  std::uint64_t offset{};
  /// The error's text.
  std::string reason;
};

} // namespace penstock
