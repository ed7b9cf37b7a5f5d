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
  /// Whether a folder in the given one may have no file that counts. It has its number in either
  /// case; without this it is refused, since a class without files is seldom meant.
  bool empty_classes = false;
};

} // namespace penstock
