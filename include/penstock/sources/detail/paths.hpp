// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What stands for a source's files: one path, or a list of them. A list in braces could else be
/// one string's two ends.
class Paths {
 public:
  template <std::convertible_to<std::string> Path> Paths(Path&& path) {
    paths_.push_back(std::forward<Path>(path));
  }
  Paths(std::vector<std::string> paths) : paths_{std::move(paths)} {}
  Paths(std::initializer_list<std::string> paths) : paths_{paths} {}
  std::vector<std::string> take() && { return std::move(paths_); }

 private:
  std::vector<std::string> paths_;
};

} // namespace penstock::detail
