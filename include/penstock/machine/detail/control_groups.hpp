// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::detail {

/// Returns all of a system file, such as those in /proc, which do not tell their sizes; empty if it
/// cannot be read.
[[gnu::cold]] std::string text_of(const std::string& path);

/// Removes all from `text` up to and with the first `end`, and returns the part before that `end`.
std::string_view cut(std::string_view& text, char end);

bool lists(std::string_view names, std::string_view name);

/// Returns the number that a text begins with; none if the text says "max" or -1, is empty, or has
/// a number beyond 64 bits.
[[gnu::cold]] std::optional<std::uint64_t> number_in(std::string_view text);

/// Returns the number behind a name, in a text whose lines begin with names; none if it is missing.
[[gnu::cold]] std::optional<std::uint64_t> number_of(std::string_view text, std::string_view name);

/// A hierarchy of control groups, and which group of it a process is in.
struct GroupOf {
  std::string_view controllers; // of version 1; empty for version 2, which has all of them
  std::string_view path;        // of the group, as the kernel calls it
};

/// Where in the file system a group lies by one line of /proc/self/mountinfo: the folder of the
/// topmost group that is visible there, and the path below it.
struct GroupPlace {
  std::string top;        // empty: the group is not visible there
  std::string_view below; // empty, or from a slash on
};
/// Decodes a field of /proc/self/mountinfo, in which blanks and backslashes are three octal digits.
[[gnu::cold]] std::string unescaped(std::string_view field);
[[gnu::cold]] GroupPlace place_of(const GroupOf& group, std::string_view controller,
                                  std::string_view line);

/// A control group.
struct ControlGroup {
  std::string folder; // has the group's files
  bool unified;       // the group is of version 2
};

/// Returns the control groups that this process is in and that may limit what `controller`
/// controls, and all visible groups above them. `root` is put before all paths.
[[gnu::cold]] Vector<ControlGroup> control_groups(const std::string& root,
                                                  std::string_view controller);

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::string text_of(const std::string& path) {
  struct Closed {
    ~Closed() {
      if (file) {
        std::fclose(file);
      }
    }
    std::FILE* file;
  } const open{std::fopen(path.c_str(), "re")};
  std::string text;
  char part[4096];
  while (const std::size_t got = open.file ? std::fread(part, 1, sizeof part, open.file) : 0) {
    text.append(part, got);
  }
  return text;
}

PENSTOCK_INLINE std::string_view cut(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return before;
}

PENSTOCK_INLINE bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    if (cut(names, ',') == name) {
      return true;
    }
  }
  return false;
}

PENSTOCK_INLINE std::optional<std::uint64_t> number_in(std::string_view text) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::optional<std::uint64_t> number;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      break;
    }
    const auto digit = static_cast<std::uint64_t>(c - '0');
    const std::uint64_t before = number.value_or(0);
    if (before > (most - digit) / 10) {
      return std::nullopt;
    }
    number = before * 10 + digit;
  }
  return number;
}

PENSTOCK_INLINE std::optional<std::uint64_t> number_of(std::string_view text,
                                                       std::string_view name) {
  while (!text.empty()) {
    std::string_view line = cut(text, '\n');
    if (cut(line, ' ') == name) {
      return number_in(line);
    }
  }
  return std::nullopt;
}

PENSTOCK_INLINE std::string unescaped(std::string_view field) {
  std::string text;
  while (!field.empty()) {
    text += cut(field, '\\');
    const std::string_view code = field.substr(0, 3);
    if (code.size() == 3 && code.find_first_not_of("01234567") == std::string_view::npos) {
      text += static_cast<char>((code[0] - '0') * 64 + (code[1] - '0') * 8 + (code[2] - '0'));
      field.remove_prefix(3);
    }
  }
  return text;
}

PENSTOCK_INLINE GroupPlace place_of(const GroupOf& group, std::string_view controller,
                                    std::string_view line) {
  const bool unified = group.controllers.empty();
  std::string_view kind = line.substr(std::min(line.find(" - "), line.size()));
  for (int word = 0; word < 2; ++word) {
    cut(kind, ' ');
  }
  const std::string_view type = cut(kind, ' ');
  cut(kind, ' '); // the mount's source, which may be any name
  if (unified ? type != "cgroup2" : type != "cgroup" || !lists(kind, controller)) {
    return {};
  }
  for (int number = 0; number < 3; ++number) {
    cut(line, ' ');
  }
  // In a container, the root of the mount may be the container's group.
  std::string from = unescaped(cut(line, ' '));
  if (from == "/") {
    from.clear();
  }
  std::string top = unescaped(cut(line, ' '));
  if (!group.path.starts_with(from)) {
    return {};
  }
  std::string_view below = group.path.substr(from.size());
  below = below == "/" ? below.substr(1) : below;
  const bool outside = below == "/.." || below.starts_with("/../");
  if (outside || (!below.empty() && below.front() != '/')) {
    return {};
  }
  return {std::move(top), below};
}

PENSTOCK_INLINE Vector<ControlGroup> control_groups(const std::string& root,
                                                    std::string_view controller) {
  Vector<ControlGroup> found;
  const std::string groups = text_of(joined({root, "/proc/self/cgroup"}));
  const std::string mounts = text_of(joined({root, "/proc/self/mountinfo"}));
  for (std::string_view lines = groups; !lines.empty();) {
    std::string_view path = cut(lines, '\n');
    cut(path, ':'); // the hierarchy's number
    const std::string_view controllers = cut(path, ':');
    if (!controllers.empty() && !lists(controllers, controller)) {
      continue;
    }
    for (std::string_view mounted = mounts; !mounted.empty();) {
      const GroupPlace place = place_of({controllers, path}, controller, cut(mounted, '\n'));
      for (std::string_view below = place.below; !place.top.empty();) {
        found.push_back({joined({root, place.top, below}), controllers.empty()});
        if (below.empty()) {
          break;
        }
        below = below.substr(0, below.rfind('/'));
      }
    }
  }
  return found;
}
#endif

} // namespace penstock::detail
