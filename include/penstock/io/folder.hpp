// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/error.hpp>
#include <penstock/io/file.hpp>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

namespace penstock {
namespace detail {

/// What lies in a folder, but for hidden entries. Not sorted.
template <class Io> std::vector<std::string> names_in(const Io& io, const std::string& path) {
  typename Io::Folder folder{};
  if (persist(io, [&] { return io.open_folder(path.c_str(), folder); }) < 0) {
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
      names.emplace_back(name);
    }
  }
}

template <class Io> FileKind kind_of(const Io& io, const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    throw SourceError{"penstock: the path \"" + std::string{path.c_str()} +
                          "\" goes on after a zero byte, which the system would not see: check how "
                          "it was made.",
                      path, 0};
  }
  FileStatus status;
  if (persist(io, [&] { return io.status(path.c_str(), status); }) < 0) {
    throw_io_error("find", path, errno);
  }
  return status.kind;
}

} // namespace detail

/// The regular files that `path` names: itself, or if it is a directory those in it, in the order
/// of their names' bytes. Links count as what they lead to; hidden files and folders within are
/// passed over. Opens no file. Blocks; any thread. Throws SourceError for what is neither, for a
/// directory without files, and for a link that leads nowhere.
template <class Io = PosixIo>
std::vector<std::string> files_at(const Io& io, const std::string& path) {
  const FileKind kind = detail::kind_of(io, path);
  if (kind == FileKind::other) {
    detail::throw_not_a_file(path);
  }
  if (kind == FileKind::regular) {
    return {path};
  }
  std::vector<std::string> files = detail::names_in(io, path);
  for (std::string& file : files) {
    file.insert(0, path.back() == '/' ? path : path + '/');
  }
  std::erase_if(files, [&](const std::string& file) {
    return detail::kind_of(io, file) != FileKind::regular;
  });
  if (files.empty()) {
    throw SourceError{"penstock: there is no file to read in the directory " + path +
                          "; hidden files and those in folders below do not count. Check the path.",
                      path, 0};
  }
  std::sort(files.begin(), files.end());
  return files;
}

} // namespace penstock
