// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/config.hpp>

#include <string>
#include <utility>

#include <limits.h>
#include <unistd.h>

namespace penstock::detail {

/// A path as it was given, and where that led then, whatever the current folder is later.
class FixedPath {
 public:
  explicit FixedPath(std::string given) : given_{std::move(given)} {
    char folder[PATH_MAX];
    // A current folder that has no path any more, as one that was removed, cannot be left and found
    // again: then what was given has to do.
    if (!given_.empty() && given_.front() != '/' && ::getcwd(folder, sizeof folder)) {
      absolute_ = std::string{folder} + '/' + given_;
    }
  }

  const std::string& given() const noexcept { return given_; }
  const std::string& absolute() const noexcept { return absolute_.empty() ? given_ : absolute_; }

 private:
  std::string given_;
  std::string absolute_; // empty: as it was given
};

} // namespace penstock::detail
