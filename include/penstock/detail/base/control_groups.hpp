// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace penstock::detail {

/// Returns all of a system file, such as those in /proc, which do not tell their sizes; empty if it
/// cannot be read.
inline std::string text_of(const std::string& path) {
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  std::string text;
  if (const std::unique_ptr<std::FILE, Close> file{std::fopen(path.c_str(), "re")}) {
    char part[4096];
    while (const std::size_t got = std::fread(part, 1, sizeof part, file.get())) {
      text.append(part, got);
    }
  }
  return text;
}

/// Removes all from `text` up to and with the first `end`, and returns the part before that `end`.
inline std::string_view cut(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return before;
}

inline bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    if (cut(names, ',') == name) {
      return true;
    }
  }
  return false;
}

/// Returns the number that a text begins with; none if the text says "max" or -1, or is empty.
inline std::optional<std::uint64_t> number_in(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::uint64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ec == std::errc{} ? std::optional{number} : std::nullopt;
}

/// Returns the number behind a name, in a text whose lines begin with names; none if it is missing.
inline std::optional<std::uint64_t> number_of(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = cut(text, '\n');
    if (cut(line, ' ') == name) {
      return number_in(line);
    }
  }
  return std::nullopt;
}

/// A hierarchy of control groups, and which group of it a process is in.
struct GroupOf {
  std::string_view controllers; // of version 1; empty for version 2, which has all of them
  std::string_view path;        // of the group, as the kernel calls it
};

/// Where in the file system a group lies by one line of /proc/self/mountinfo: the folder of the
/// topmost group that is visible there, and the path below it. place_of() returns none if the group
/// is not visible there.
struct GroupPlace {
  std::string top;
  std::string_view below; // empty, or begins with a slash
};
/// Decodes a field of /proc/self/mountinfo, in which blanks and backslashes are three octal digits.
inline std::string unescaped(std::string_view field) {
  std::string text;
  while (!field.empty()) {
    text += cut(field, '\\');
    int code = 0;
    if (field.size() >= 3 &&
        std::from_chars(field.data(), field.data() + 3, code, 8).ptr == field.data() + 3) {
      text += static_cast<char>(code);
      field.remove_prefix(3);
    }
  }
  return text;
}
inline std::optional<GroupPlace> place_of(const GroupOf& group, std::string_view controller,
                                          std::string_view line) {
  const bool unified = group.controllers.empty();
  std::string_view kind = line.substr(std::min(line.find(" - "), line.size()));
  for (int word = 0; word < 2; ++word) {
    cut(kind, ' ');
  }
  const std::string_view type = cut(kind, ' ');
  cut(kind, ' '); // the mount's source, which may be any name
  if (unified ? type != "cgroup2" : type != "cgroup" || !lists(kind, controller)) {
    return std::nullopt;
  }
  for (int number = 0; number < 3; ++number) {
    cut(line, ' ');
  }
  // In a container, the root of the mount may be the container's group.
  std::string from = unescaped(cut(line, ' '));
  from = from == "/" ? "" : from;
  std::string top = unescaped(cut(line, ' '));
  if (!group.path.starts_with(from)) {
    return std::nullopt;
  }
  std::string_view below = group.path.substr(from.size());
  below = below == "/" ? below.substr(1) : below;
  const bool outside = below == "/.." || below.starts_with("/../");
  if (outside || (!below.empty() && below.front() != '/')) {
    return std::nullopt;
  }
  return GroupPlace{std::move(top), below};
}

/// Calls f(folder, unified) for each control group that this process is in and that may limit what
/// `controller` controls, and for all visible groups above it. `folder` has the group's files,
/// those of version 2 if `unified`. `root` is put before all paths.
template <class F>
void each_control_group(const std::string& root, std::string_view controller, F f) {
  const std::string groups = text_of(root + "/proc/self/cgroup");
  const std::string mounts = text_of(root + "/proc/self/mountinfo");
  for (std::string_view lines = groups; !lines.empty();) {
    std::string_view path = cut(lines, '\n');
    cut(path, ':'); // the hierarchy's number
    const std::string_view controllers = cut(path, ':');
    if (!controllers.empty() && !lists(controllers, controller)) {
      continue;
    }
    for (std::string_view mounted = mounts; !mounted.empty();) {
      const auto place = place_of({controllers, path}, controller, cut(mounted, '\n'));
      for (std::string_view below = place ? place->below : ""; place;) {
        f(root + place->top + std::string{below}, controllers.empty());
        if (below.empty()) {
          break;
        }
        below = below.substr(0, below.rfind('/'));
      }
    }
  }
}

} // namespace penstock::detail
