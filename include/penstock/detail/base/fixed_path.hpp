// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <string>
#include <utility>

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::detail {

/// A path as it was given, and where that led then, whatever the current folder is later.
class FixedPath {
 public:
  [[gnu::cold]] explicit FixedPath(std::string given) : given_{std::move(given)} {
    char folder[PATH_MAX];
    if (!given_.empty() && given_.front() != '/' && ::getcwd(folder, sizeof folder) &&
        leads_here(folder)) {
      absolute_ = std::string{folder} + '/' + given_;
    }
  }

  const std::string& given() const noexcept { return given_; }
  const std::string& absolute() const noexcept { return absolute_.empty() ? given_ : absolute_; }

 private:
  // Not of a current folder that was removed or has something mounted over it, nor below one that
  // may not be passed through: then what was given has to do.
  static bool leads_here(const char* folder) noexcept {
    struct stat by_path;
    struct stat here;
    return ::stat(folder, &by_path) == 0 && ::stat(".", &here) == 0 &&
           by_path.st_dev == here.st_dev && by_path.st_ino == here.st_ino;
  }

  std::string given_;
  std::string absolute_; // empty: as it was given
};

} // namespace penstock::detail
