// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/throwing.hpp>
#include <penstock/error.hpp>
#include <penstock/io/folder.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::detail {

/// Throws SourceError if a file's name goes on behind the ending, as x.tar.gz and x.tar.part do, or
/// is short for that, as x.tgz, and the file of the name up to there is not among `all`: it is not
/// whole, or not unpacked.
[[gnu::cold]] inline void check_whole(const char* call, const std::string& file,
                                      const std::vector<std::string>& all,
                                      std::string_view ending) {
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

} // namespace penstock::detail
