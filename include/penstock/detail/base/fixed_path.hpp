// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/url.hpp>

#include <string>
#include <utility>

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::detail {

/// A path as it was given, and the file that it meant then, whatever the current folder is later. A
/// URL means the same everywhere.
class FixedPath {
 public:
  [[gnu::cold]] explicit FixedPath(std::string given);

  const std::string& given() const noexcept { return given_; }
  const std::string& absolute() const noexcept { return absolute_.empty() ? given_ : absolute_; }

 private:
  // False if the current folder was removed, has something mounted over it, or lies below a folder
  // that may not be passed through: then the path as given has to do.
  static bool leads_here(const char* folder) noexcept;

  std::string given_;
  std::string absolute_; // empty: the path as given
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE FixedPath::FixedPath(std::string given) : given_{std::move(given)} {
  char folder[PATH_MAX];
  if (!given_.empty() && given_.front() != '/' && !is_url(given_) &&
      ::getcwd(folder, sizeof folder) && leads_here(folder)) {
    absolute_ = joined({folder, "/", given_});
  }
}

PENSTOCK_INLINE bool FixedPath::leads_here(const char* folder) noexcept {
  struct stat by_path;
  struct stat here;
  return ::stat(folder, &by_path) == 0 && ::stat(".", &here) == 0 &&
         by_path.st_dev == here.st_dev && by_path.st_ino == here.st_ino;
}
#endif

} // namespace penstock::detail
