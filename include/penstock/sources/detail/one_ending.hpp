// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/throwing.hpp>
#include <penstock/io/folder.hpp>
#include <penstock/sources/detail/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::detail {

/// Returns how a file's name ends, from its last dot on, in small letters: ".bin" of "a.BIN".
/// Numbers count parts, so one stands for any: ".#" of "a.007", and ".tfrecord-#-of-#", but ".mp4".
/// A name without a dot ends in nothing, but one in capitals alone, such as README, LICENSE and
/// _SUCCESS, in itself: it is beside data, and no part of them.
[[gnu::cold]] inline std::string ending_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  std::string ending;
  bool in_word = false;
  const bool in_capitals = name.size() > 2 && std::all_of(name.begin(), name.end(), [](char c) {
                             return (c >= 'A' && c <= 'Z') || c == '_';
                           });
  for (const char c : name.substr(in_capitals ? 0 : std::min(name.rfind('.'), name.size()))) {
    const bool digit = c >= '0' && c <= '9';
    const bool capital = c >= 'A' && c <= 'Z';
    in_word = capital || (c >= 'a' && c <= 'z') || (digit && in_word);
    if (!digit || in_word) {
      ending += capital ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!ending.ends_with('#')) {
      ending += '#';
    }
  }
  return ending;
}

/// Throws SourceError unless all files of a directory end alike, since all are read as one kind.
/// Empty files have no records, and those that end in `beside` are known to lie beside others.
/// `call` names what the user called.
[[gnu::cold]] inline void check_one_ending(const char* call, const std::string& directory,
                                           std::span<const FoundFile> files,
                                           std::string_view beside) {
  constexpr std::size_t most_listed = 6;
  std::vector<std::string> endings;
  std::string listed;
  for (const FoundFile& file : files) {
    std::string ending = ending_of(file.path);
    if (file.size == 0 || (!beside.empty() && ending == beside) ||
        std::find(endings.begin(), endings.end(), ending) != endings.end()) {
      continue;
    }
    if (endings.size() == most_listed) {
      listed += ", ...";
      break;
    }
    const std::string_view name = std::string_view{file.path}.substr(file.path.rfind('/') + 1);
    listed += joined({endings.empty() ? "" : ", ", ending.empty() ? "none" : shown(ending), " (",
                      shown(name), ")"});
    endings.push_back(std::move(ending));
  }
  if (endings.size() > 1) {
    throw_source_error({"penstock: ", call, ": the files in the directory ", directory,
                        " have several endings, and all would be read as one kind: ", listed,
                        ". Name those that you mean in a list: ps::files_at() returns all."},
                       directory, 0);
  }
}

} // namespace penstock::detail
