// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/fixed_path.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/io/detail/opening.hpp>
#include <penstock/io/folder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

/// The regular files in a folder and in all folders below it, or those of a list: where each lies
/// and how many bytes it has. It keeps 24 bytes and the name of each file.
class FolderTree {
 public:
  std::size_t size() const noexcept { return files_.size(); }
  /// Returns how many bytes file `i` had when it was found.
  std::uint64_t bytes(std::size_t i) const noexcept { return files_[i].bytes; }
  /// Returns the path of file `i`: an absolute one, so that a program may change its folder.
  std::string path(std::size_t i) const;
  /// Returns the name of file `i` in its folder.
  const char* name(std::size_t i) const noexcept;
  /// Returns where below the topmost folder the folder of file `i` lies; nothing for a list's
  /// files.
  std::string_view folder(std::size_t i) const noexcept;
  /// Returns which of outermost() file `i` lies in, at any depth; -1 if it lies in none.
  std::int32_t branch(std::size_t i) const noexcept { return folders_[files_[i].folder].branch; }
  /// Returns the names of the folders in the topmost one, whether they have files or not.
  const std::vector<std::string>& outermost() const noexcept { return outermost_; }
  /// Returns the first of outermost() that has no file, at any depth; null if there is none.
  const std::string* empty() const noexcept;

  /// Finds the files below the folder `root` whose names `wanted` accepts, folder by folder in the
  /// order of the names' bytes. Follows links; passes over hidden entries and over what is neither
  /// file nor folder. Many threads look at once. Throws SourceError for what cannot be looked at,
  /// and for a link that leads to a folder that it lies in.
  template <class Io, class Wanted>
  [[gnu::cold]] static FolderTree below(const Io& io, const std::string& root, Wanted wanted,
                                        OpeningProgress& progress) {
    FolderTree tree;
    std::vector<Inner> inner(1);
    inner[0].status = status_of(io, root);
    tree.folders_.push_back({FixedPath{root}.absolute(), {}, -1});
    for (std::size_t begin = 0; begin != inner.size();) {
      const std::size_t end = inner.size();
      tree.look_into(io, inner, begin, wanted, progress);
      begin = end;
    }
    tree.put_in_order(inner, 0);
    return tree;
  }
  /// Looks at the files of a list, in its order.
  template <class Io>
  [[gnu::cold]] static FolderTree of(const Io& io, const std::vector<std::string>& list,
                                     OpeningProgress& progress) {
    Vector<FileStatus> seen(list.size());
    const FirstFailure failure = look_at(io, list, seen, progress);
    FolderTree tree;
    std::string here = FixedPath{"."}.absolute();
    here.pop_back();
    tree.folders_.push_back({std::move(here), {}, -1});
    tree.folders_.push_back({"/", {}, -1});
    for (std::size_t i = 0; i != list.size(); ++i) {
      failure.rethrow_at(i);
      if (seen[i].kind != FileKind::regular) {
        throw_source_error({"penstock: files: ", list[i],
                            " is not a regular file: name regular files in a list, or one folder."},
                           list[i], 0, i);
      }
      const bool absolute = list[i].front() == '/';
      tree.add(absolute ? 1 : 0, std::string_view{list[i]}.substr(absolute ? 1 : 0), seen[i].size);
    }
    return tree;
  }

 private:
  struct Folder {
    std::string path;
    std::string names; // of its files, each behind the other with a zero byte
    std::int32_t branch;
  };
  struct File {
    std::uint64_t bytes;
    std::size_t name;
    std::uint32_t folder;
  };
  // What lies in a folder, until all are found.
  struct Entry {
    std::string name;
    std::uint64_t bytes;
    std::size_t folder; // 0: it is a file
  };
  struct Inner {
    std::size_t parent{};
    FileStatus status{};
    std::vector<Entry> entries{};
  };

  void add(std::size_t folder, std::string_view name, std::uint64_t bytes);
  // Lists the folders from number `begin` on, all of one depth, and appends those in them.
  template <class Io, class Wanted>
  void look_into(const Io& io, std::vector<Inner>& inner, std::size_t begin, Wanted wanted,
                 OpeningProgress& progress) {
    std::vector<std::vector<std::string>> names(inner.size() - begin);
    const auto list = [&](std::size_t i) { names[i] = names_in(io, folders_[begin + i].path); };
    const FirstFailure unlisted = for_all(names.size(), list, [&] { progress.look(); });
    unlisted.rethrow_at(unlisted.at);
    std::vector<std::string> paths;
    for (std::size_t i = 0; i != names.size(); ++i) {
      const std::string& path = folders_[begin + i].path;
      for (const std::string& name : names[i]) {
        paths.push_back(joined({path, path.ends_with('/') ? "" : "/", name}));
      }
    }
    Vector<FileStatus> seen(paths.size());
    const FirstFailure failure = look_at(io, paths, seen, progress);
    failure.rethrow_at(failure.at);
    std::size_t at = 0;
    for (std::size_t i = 0; i != names.size(); ++i) {
      for (std::string& name : names[i]) {
        const FileStatus& status = seen[at];
        if (status.kind == FileKind::directory) {
          check_no_loop(inner, begin + i, status, paths[at]);
          inner[begin + i].entries.push_back({std::move(name), 0, inner.size()});
          inner.push_back({begin + i, status});
          folders_.push_back({std::move(paths[at]), {}, -1});
        } else if (status.kind == FileKind::regular && wanted(std::string_view{name})) {
          inner[begin + i].entries.push_back({std::move(name), status.size, 0});
        }
        ++at;
      }
    }
  }
  static void check_no_loop(const std::vector<Inner>& inner, std::size_t in,
                            const FileStatus& status, const std::string& path);
  void put_in_order(std::vector<Inner>& inner, std::size_t folder);

  std::vector<Folder> folders_;
  std::vector<File> files_;
  std::vector<std::string> outermost_;
  std::size_t empty_ = 0; // place in outermost_
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::string FolderTree::path(std::size_t i) const {
  const Folder& folder = folders_[files_[i].folder];
  return joined({folder.path, folder.path.ends_with('/') ? "" : "/", name(i)});
}

PENSTOCK_INLINE const char* FolderTree::name(std::size_t i) const noexcept {
  return folders_[files_[i].folder].names.c_str() + files_[i].name;
}

PENSTOCK_INLINE std::string_view FolderTree::folder(std::size_t i) const noexcept {
  const std::string_view root = folders_.front().path;
  std::string_view below = folders_[files_[i].folder].path;
  below.remove_prefix(below.starts_with(root) ? root.size() : below.size());
  below.remove_prefix(below.starts_with('/') ? 1 : 0);
  return below;
}

PENSTOCK_INLINE const std::string* FolderTree::empty() const noexcept {
  return empty_ == outermost_.size() ? nullptr : &outermost_[empty_];
}

PENSTOCK_INLINE void FolderTree::add(std::size_t folder, std::string_view name,
                                     std::uint64_t bytes) {
  std::string& names = folders_[folder].names;
  files_.push_back({bytes, names.size(), static_cast<std::uint32_t>(folder)});
  names += name;
  names += '\0';
}

PENSTOCK_INLINE void FolderTree::check_no_loop(const std::vector<Inner>& inner, std::size_t in,
                                               const FileStatus& status, const std::string& path) {
  for (std::size_t above = in;; above = inner[above].parent) {
    if (inner[above].status.inode == status.inode && inner[above].status.device == status.device) {
      throw_source_error({"penstock: files: ", path,
                          " leads to a folder that it lies in, and so on without end: remove "
                          "the link."},
                         path, 0);
    }
    if (above == 0) {
      return;
    }
  }
}

PENSTOCK_INLINE void FolderTree::put_in_order(std::vector<Inner>& inner, std::size_t folder) {
  std::vector<Entry> entries = std::move(inner[folder].entries);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  for (Entry& entry : entries) {
    if (entry.folder == 0) {
      add(folder, entry.name, entry.bytes);
      continue;
    }
    const std::size_t before = files_.size();
    folders_[entry.folder].branch =
        folder == 0 ? static_cast<std::int32_t>(outermost_.size()) : folders_[folder].branch;
    put_in_order(inner, entry.folder);
    if (folder == 0) {
      const bool is_first = empty_ == outermost_.size();
      outermost_.push_back(std::move(entry.name));
      empty_ += is_first && files_.size() != before ? 1U : 0U;
    }
  }
}
#endif

} // namespace penstock::detail
