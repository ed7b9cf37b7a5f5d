// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
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
[[gnu::cold]] std::string ending_of(std::string_view path);

/// Throws SourceError unless all files of a directory end alike, since all are read as one kind.
/// Empty files have no records, and those that end in `beside` are known to lie beside others.
/// `call` names what the user called.
[[gnu::cold]] void check_one_ending(const char* call, const std::string& directory,
                                    std::span<const FoundFile> files, std::string_view beside);

/// Throws SourceError if a file's name goes on behind the ending, as x.tar.gz and x.tar.part do, or
/// is short for that, as x.tgz, and the file of the name up to there is not among `all`: it is not
/// whole, or not unpacked.
[[gnu::cold]] void check_whole(const char* call, const std::string& file,
                               const std::vector<std::string>& all, std::string_view ending);

/// Returns these paths, and for a directory those of its files whose names end so. Calls
/// beside(file) for each other file in it. `call` names what the user called. A file that is not
/// whole is taken, too, and its error put into `not_whole`, unless that is null. Throws what
/// beside() does, and SourceError if a directory has no such file, or one that is not whole.
template <class Io, class Beside>
[[gnu::cold]] std::vector<std::string> files_ending(const char* call, const Io& io,
                                                    const std::vector<std::string>& paths,
                                                    std::string_view ending, Beside beside,
                                                    std::vector<SourceError>* not_whole = nullptr) {
  std::vector<std::string> taken;
  for (const std::string& path : paths) {
    if (status_of(io, path).kind != FileKind::directory) {
      taken.push_back(path);
      continue;
    }
    const std::size_t before = taken.size();
    const std::vector<std::string> all = files_at(io, path);
    for (const std::string& file : all) {
      if (file.ends_with(ending)) {
        taken.push_back(file);
      } else {
        try {
          check_whole(call, file, all, ending);
        } catch (const SourceError& e) {
          if (!not_whole) {
            throw;
          }
          not_whole->push_back(e);
          taken.push_back(file);
          continue;
        }
        beside(file);
      }
    }
    if (taken.size() == before) {
      throw_source_error({"penstock: ", call, ": no file in the directory ", path,
                          " has a name that ends in ", ending, ": name the files."},
                         path, 0);
    }
  }
  return taken;
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::string ending_of(std::string_view path) {
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

PENSTOCK_INLINE void check_one_ending(const char* call, const std::string& directory,
                                      std::span<const FoundFile> files, std::string_view beside) {
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

PENSTOCK_INLINE void check_whole(const char* call, const std::string& file,
                                 const std::vector<std::string>& all, std::string_view ending) {
  const std::size_t at = ending == ".tar" && file.ends_with(".tgz")
                             ? file.size() - 4
                             : file.rfind(joined({ending, "."}));
  if (at == std::string::npos || at < file.rfind('/') || file.ends_with(".json")) {
    return;
  }
  const std::string whole = joined({std::string_view{file}.substr(0, at), ending});
  if (std::find(all.begin(), all.end(), whole) == all.end()) {
    throw_source_error({"penstock: ", call, ": ", file, " lies in the directory, and ", whole,
                        " does not: fetch or unpack the whole file, or name the files that you "
                        "mean in a list."},
                       file, 0);
  }
}
#endif

} // namespace penstock::detail
