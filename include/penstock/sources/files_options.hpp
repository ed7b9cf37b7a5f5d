// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// Options of files().
struct FilesOptions {
  /// The endings of the names that count, such as `{".jpg", ".jpeg"}`, whatever the case of their
  /// letters; none: all files count.
  std::vector<std::string> endings = {};
  /// The largest file that is taken, in bytes.
  std::uint64_t largest = std::uint64_t{64} << 20;
};

} // namespace penstock
