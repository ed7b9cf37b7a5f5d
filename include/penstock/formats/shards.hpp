// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace penstock {

/// Returns the paths that a pattern stands for, as a shell and WebDataset write it:
/// `shards("train-{000..127}.tar")` are 128, numbered with as many digits as the first, at least.
/// Each pair of braces with two numbers counts, the last one fastest; a path without any stands for
/// itself. Looks at no file. Throws SourceError for numbers that count down, and for more than a
/// million paths.
inline std::vector<std::string> shards(std::string_view pattern) {
  constexpr std::uint64_t most = 1'000'000;
  constexpr std::string_view digits = "0123456789";
  std::vector<std::string> paths(1);
  const auto append = [&](std::string_view text) {
    for (std::string& path : paths) {
      path += text;
    }
  };
  for (std::size_t open = pattern.find('{'); open != pattern.npos; open = pattern.find('{')) {
    const std::string_view rest = pattern.substr(open + 1);
    const std::string_view first = rest.substr(0, rest.find_first_not_of(digits));
    std::string_view last = rest.substr(first.size());
    last = last.starts_with("..") ? last.substr(2) : std::string_view{};
    const std::string_view behind =
        last.substr(std::min(last.find_first_not_of(digits), last.size()));
    last.remove_suffix(behind.size());
    append(pattern.substr(0, open));
    if (first.empty() || last.empty() || !behind.starts_with('}')) {
      append("{");
      pattern = rest;
      continue;
    }
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    constexpr std::errc read{};
    const bool fits = std::from_chars(first.data(), first.data() + first.size(), from).ec == read &&
                      std::from_chars(last.data(), last.data() + last.size(), to).ec == read;
    if (!fits || to < from || to - from >= most / paths.size()) {
      detail::throw_source_error({"penstock: {", first, "..", last, "} ",
                                  !fits       ? "has a number of more than 64 bits"
                                  : to < from ? "counts down"
                                              : "stands for more than a million files",
                                  ": write the smaller number first, or give a directory."},
                                 std::string{pattern}, 0);
    }
    std::vector<std::string> all;
    for (const std::string& path : paths) {
      for (std::uint64_t i = from; i <= to; ++i) {
        const std::string text = std::to_string(i);
        all.push_back(path + std::string(first.size() - std::min(first.size(), text.size()), '0') +
                      text);
      }
    }
    paths.swap(all);
    pattern = behind.substr(1);
  }
  append(pattern);
  return paths;
}
/// Returns the paths that all of these patterns stand for.
inline std::vector<std::string> shards(const std::vector<std::string>& patterns) {
  std::vector<std::string> all;
  for (const std::string& pattern : patterns) {
    for (std::string& path : shards(std::string_view{pattern})) {
      all.push_back(std::move(path));
    }
  }
  return all;
}

} // namespace penstock
