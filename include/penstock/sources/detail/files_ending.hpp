// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/throwing.hpp>
#include <penstock/io/folder.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Returns these paths, and for a directory those of its files whose names end so: other files lie
/// beside them. `call` names what the user called. Throws SourceError if a directory has none.
template <class Io>
[[gnu::cold]] std::vector<std::string> files_ending(const char* call, const Io& io,
                                                    const std::vector<std::string>& paths,
                                                    std::string_view ending) {
  std::vector<std::string> taken;
  for (const std::string& path : paths) {
    if (status_of(io, path).kind != FileKind::directory) {
      taken.push_back(path);
      continue;
    }
    const std::size_t before = taken.size();
    for (std::string& file : files_at(io, path)) {
      if (file.ends_with(ending)) {
        taken.push_back(std::move(file));
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
