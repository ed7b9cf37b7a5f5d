// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/error.hpp>
#include <penstock/io/detail/opening.hpp>
#include <penstock/io/file.hpp>
#include <penstock/run/options.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock {
namespace detail {

/// Returns the names of what lies in a folder, except hidden entries. Not sorted.
template <class Io> [[gnu::cold]] std::vector<std::string> names_in(const Io& io,
                                                                    const std::string& path) {
  typename Io::Folder folder{};
  if (open_patiently(io, [&] { return io.open_folder(path.c_str(), folder); }) < 0) {
    throw_io_error("list", path, errno);
  }
  struct Closer {
    const Io& io;
    typename Io::Folder folder;
    ~Closer() { io.close_folder(folder); }
  } const closer{io, folder};
  std::vector<std::string> names;
  for (;;) {
    const char* name = nullptr;
    if (persist(io, [&] { return io.next_name(folder, name); }) < 0) {
      throw_io_error("list", path, errno);
    }
    if (!name) {
      return names;
    }
    if (name[0] != '.') {
      names.push_back(std::string{name});
    }
  }
}

template <class Io> [[gnu::cold]] FileStatus status_of(const Io& io, const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    throw_source_error({"penstock: the path \"", path.c_str(),
                        "\" goes on after a zero byte, which the system would not see: check how "
                        "it was made."},
                       path, 0);
  }
  FileStatus status;
  if (persist(io, [&] { return io.status(path.c_str(), status); }) < 0) {
    throw_io_error("find", path, errno);
  }
  return status;
}

/// Looks at each of `paths`, by several threads.
template <class Io>
FirstFailure look_at(const Io& io, const std::vector<std::string>& paths, Vector<FileStatus>& seen,
                     OpeningProgress& progress) {
  const auto look = [&](std::size_t i) {
    seen[i] = status_of(io, paths[i]);
    if (seen[i].kind == FileKind::regular) {
      progress.found();
    }
  };
  return for_all(paths.size(), look, [&] { progress.look(); });
}

/// A regular file, and its size when it was looked at.
struct FoundFile {
  std::string path;
  std::uint64_t size;
};

template <class Io>
[[gnu::cold]] void find_in_folder(const Io& io, const std::string& path, OpeningProgress& progress,
                                  Vector<FoundFile>& files) {
  const std::vector<std::string> unsorted = names_in(io, path);
  Vector<const char*> in_order;
  in_order.reserve(unsorted.size());
  for (const std::string& name : unsorted) {
    in_order.push_back(name.c_str());
  }
  // Not std::sort, which takes longer to compile than the rest of this function. It takes no null.
  if (!in_order.empty()) {
    std::qsort(in_order.data(), in_order.size(), sizeof(const char*),
               [](const void* a, const void* b) {
                 return std::strcmp(*static_cast<const char* const*>(a),
                                    *static_cast<const char* const*>(b));
               });
  }
  std::vector<std::string> names;
  for (const char* name : in_order) {
    names.push_back(joined({path, path.back() == '/' ? "" : "/", name}));
  }
  Vector<FileStatus> seen(names.size());
  const FirstFailure failure = look_at(io, names, seen, progress);
  failure.rethrow_at(failure.at);
  const std::size_t before = files.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (seen[i].kind == FileKind::regular) {
      files.push_back({std::move(names[i]), seen[i].size});
    }
  }
  if (files.size() == before) {
    throw_source_error({"penstock: there is no file to read in the directory ", path,
                        "; hidden files and those in folders below do not count. Check the path."},
                       path, 0);
  }
}

/// Returns the regular files that `paths` name: see files_at(). Calls check(path, files) for each
/// directory. Throws what that does, and for the first in order that cannot be found.
template <class Io, class Check>
[[gnu::cold]] Vector<FoundFile> find_files(const Io& io, const std::vector<std::string>& paths,
                                           OpeningProgress& progress, Check check) {
  Vector<FileStatus> seen(paths.size());
  const FirstFailure failure = look_at(io, paths, seen, progress);
  Vector<FoundFile> files;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    failure.rethrow_at(i);
    if (seen[i].kind == FileKind::other) {
      throw_not_a_file(paths[i]);
    }
    if (seen[i].kind == FileKind::regular) {
      files.push_back({paths[i], seen[i].size});
    } else {
      const std::size_t before = files.size();
      find_in_folder(io, paths[i], progress, files);
      check(paths[i], std::span<const FoundFile>{files.begin() + before, files.size() - before});
    }
  }
  return files;
}

/// Returns whether all files together fit into half of the memory that is free: then only the first
/// run reads them from the disk.
template <class Io>
[[gnu::cold]] bool fit_into_memory(const Io& io, const Vector<FoundFile>& files) {
  const std::uint64_t room = io.available_memory() / 2;
  std::uint64_t sum = 0;
  for (auto file = files.begin(); file != files.end() && sum <= room; ++file) {
    sum += std::min(file->size, room + 1);
  }
  return sum <= room;
}

} // namespace detail

/// Returns the regular files that `path` names: itself, or if it is a directory those in it, in the
/// order of their names' bytes. Links count as what they lead to; it passes over hidden files and
/// inner folders. Opens no file. Asks about many files by several threads. Blocks; any thread.
/// Throws SourceError if `path` is neither, for a directory without files, and for a link that
/// leads nowhere.
template <class Io = PosixIo>
std::vector<std::string> files_at(const Io& io, const std::string& path) {
  const PrepareOptions quietly;
  detail::OpeningProgress progress{quietly};
  std::vector<std::string> paths;
  for (detail::FoundFile& file :
       detail::find_files(io, {path}, progress, [](const auto&, auto) {})) {
    paths.push_back(std::move(file.path));
  }
  return paths;
}

} // namespace penstock
