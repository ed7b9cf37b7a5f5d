// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/labelled_file.hpp>
#include <penstock/io/detail/opening.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/folder_tree.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/largest_sums.hpp>
#include <penstock/sources/detail/optional_members.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// Options of files().
struct FilesOptions {
  /// The endings of the names that count, such as `{".jpg", ".jpeg"}`, whatever the case of their
  /// letters; none: all files count.
  std::vector<std::string> endings = {};
  /// The largest file that is taken, in bytes.
  std::uint64_t largest = std::uint64_t{64} << 20;
  /// Whether a folder in the given one may have no file that counts. It has its number in either
  /// case; without this it is refused, since a class without files is seldom meant.
  bool empty_classes = false;
};

/// A source that has a file's bytes as each record. Made by files(). Copies share what open() has
/// found. Io makes the system calls: see PosixIo.
template <class Io = PosixIo> class Files {
 public:
  /// The type of its records.
  using schema = LabelledFile;

  /// Takes a folder, or the path of one file; touches nothing before open().
  explicit Files(std::string folder, FilesOptions options = {}, Io io = {})
      : folder_{std::move(folder)}, options_{std::move(options)}, io_{std::move(io)} {}
  /// Takes the paths of files, and a label for each, or none.
  explicit Files(std::vector<std::string> list, std::vector<std::int32_t> labels = {},
                 FilesOptions options = {}, Io io = {})
      : list_{std::move(list)}, labels_{std::move(labels)}, options_{std::move(options)},
        io_{std::move(io)}, listed_{true} {}

  /// Finds the files, and asks for their sizes, by many threads at once; opens none. Blocks. Throws
  /// SourceError where there is no file, for a class without one, where one is larger than
  /// `largest`, for what cannot be looked at, and for labels that are not as many as files; what
  /// progress throws. Does nothing the second time.
  void open(const PrepareOptions& preparing = {}) {
    if (!found_) {
      detail::OpeningProgress progress{preparing};
      found_ = detail::new_shared<Found>(found(progress));
      progress.tell();
    }
  }

  /// Returns how many files there are. After open().
  std::uint64_t size() const { return found_here().tree.size(); }
  /// Returns the names of the folders in the given one, in the order of their bytes: a label is a
  /// place in this list. After open().
  const std::vector<std::string>& classes() const { return found_here().tree.outermost(); }
  /// Returns the path of a file. After open(). Throws OptionError unless the number is less than
  /// size().
  std::string path(std::uint64_t number) const {
    detail::check_number("files", number, size());
    return found_->tree.path(number);
  }
  /// Returns the path of a file, for errors: see path().
  std::string name(std::uint64_t number) const { return path(number); }
  /// Returns the label of a file: its folder's place in classes(), or what the list of labels says;
  /// -1 if neither does. After open(). Throws OptionError unless the number is less than size().
  std::int32_t label(std::uint64_t number) const {
    detail::check_number("files", number, size());
    return labels_.empty() ? found_->tree.branch(number) : labels_[number];
  }

  /// Reads the files from into.index() on, each opened for the time it is read. After open().
  /// Blocks; any number of threads at once. Throws SourceError with file and record, also for one
  /// whose size has changed; Error if the batch has no room for the bytes.
  template <HostSpace Where> std::size_t read(Batch<LabelledFile, Where> into) const {
    const auto bytes = get<"bytes">(into);
    const auto labels = get<"label">(into);
    detail::check_range("files", into.index(), into.size(), 0, size(), 0);
    for (std::size_t i = 0; i != into.size(); ++i) {
      const std::uint64_t number = into.index() + i;
      const std::size_t count = found_->tree.bytes(number);
      read_file(number, {reinterpret_cast<std::byte*>(bytes.put(i, count)), count});
      labels[i] = label(number);
    }
    return into.size();
  }
  /// Tells how many bytes each file from number `first` on has. After open(); any thread. Throws
  /// SourceError if there are not so many.
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const {
    detail::check_range("files", first, into.size(), 0, size(), 0);
    for (std::uint64_t& length : into) {
      length = found_->tree.bytes(first++);
    }
  }
  /// Returns how many bytes any `records` files have together at most. After open().
  std::uint64_t value_bytes(std::uint64_t records) const { return found_here().sums.of(records); }
  /// Returns a number for the files' names and sizes. After open().
  std::uint64_t identity() const { return found_here().identity; }

 private:
  struct Found {
    detail::FolderTree tree;
    detail::LargestSums sums;
    std::uint64_t identity;
  };

  const Found& found_here() const {
    if (!found_) {
      const std::string_view first = listed_ && !list_.empty() ? list_.front() : folder_;
      detail::throw_source_error(
          {"penstock: files: ", first, " is not open yet: call open() first."}, first, 0);
    }
    return *found_;
  }

  [[gnu::cold]] Found found(detail::OpeningProgress& progress) const {
    Found all{listed_ ? listed(progress) : in_folder(progress), {}, 0};
    detail::Largest largest;
    const auto add = [&](std::string_view text) {
      for (const char c : text) {
        all.identity = (all.identity ^ static_cast<unsigned char>(c)) * 0x100000001b3;
      }
    };
    std::string_view folder;
    for (std::size_t i = 0; i != all.tree.size(); ++i) {
      const std::uint64_t bytes = all.tree.bytes(i);
      if (bytes > options_.largest) {
        const std::string path = all.tree.path(i);
        detail::throw_source_error({"penstock: files: ", path, " has ", bytes,
                                    " bytes, more than .largest, which is ", options_.largest,
                                    ": leave it out by .endings, or set .largest."},
                                   path, 0, i);
      }
      all.identity = detail::and_then(all.identity, bytes);
      largest.add(bytes);
      if (const std::string_view its = all.tree.folder(i); its != folder) {
        folder = its;
        add(folder);
        add("/"); // which no name has
      }
      add(all.tree.name(i));
    }
    all.sums = detail::LargestSums{std::move(largest)};
    return all;
  }
  detail::FolderTree listed(detail::OpeningProgress& progress) const {
    if (list_.empty()) {
      detail::throw_source_error({"penstock: files: the list of files is empty: name at least "
                                  "one."},
                                 {}, 0);
    }
    if (!labels_.empty() && labels_.size() != list_.size()) {
      detail::throw_source_error({"penstock: files: there are ", list_.size(), " files and ",
                                  labels_.size(), " labels: give each file one, or none any."},
                                 list_.front(), 0);
    }
    return detail::FolderTree::of(io_, list_, progress);
  }
  detail::FolderTree in_folder(detail::OpeningProgress& progress) const {
    if (detail::status_of(io_, folder_).kind != FileKind::directory) {
      return detail::FolderTree::of(io_, {folder_}, progress);
    }
    auto tree = detail::FolderTree::below(
        io_, folder_, [&](std::string_view name) { return counts(name); }, progress);
    if (tree.size() == 0) {
      detail::throw_source_error({"penstock: files: there is no file in the folder ", folder_,
                                  " or below it", of_endings(),
                                  "; hidden files do not count. Check the path."},
                                 folder_, 0);
    }
    if (const std::string* const empty = tree.empty(); empty && !options_.empty_classes) {
      const std::string path = detail::joined({folder_, folder_.ends_with('/') ? "" : "/", *empty});
      detail::throw_source_error(
          {"penstock: files: the class ", path, " has no file", of_endings(),
           ", in it or below it; hidden files do not count. Set .empty_classes: then it keeps its "
           "number. Or remove the folder from all parts of the data set."},
          path, 0);
    }
    return tree;
  }
  const char* of_endings() const noexcept {
    return options_.endings.empty() ? "" : " whose name has one of .endings";
  }
  bool counts(std::string_view name) const {
    const auto lower = [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const auto ends = [&](const std::string& ending) {
      return name.size() >= ending.size() &&
             std::equal(ending.rbegin(), ending.rend(), name.rbegin(),
                        [&](char a, char b) { return lower(a) == lower(b); });
    };
    return options_.endings.empty() ||
           std::any_of(options_.endings.begin(), options_.endings.end(), ends);
  }

  void read_file(std::uint64_t number, std::span<std::byte> into) const {
    try {
      const File<Io> file{io_, path(number)};
      if (file.size() != into.size()) {
        detail::throw_source_error({"penstock: ", file.path(), " had ", into.size(),
                                    " bytes when it was found and now has ", file.size(),
                                    ". Leave files alone as long as they are read."},
                                   file.path(), 0);
      }
      read_full(file, 0, into);
    } catch (const SourceError& e) {
      detail::throw_of_record(e, e.offset(), number);
    }
  }

  std::string folder_;
  std::vector<std::string> list_;
  std::vector<std::int32_t> labels_;
  FilesOptions options_;
  Io io_;
  bool listed_ = false;
  detail::Shared<const Found> found_;
};

/// Makes a source of the files in a folder and in all folders below it: `files("photos/")`, sorted
/// folder by folder by the names' bytes. A file's label is the place, among the names of the
/// folders that lie directly in the given one, of the one that it is in: as in PyTorch's
/// ImageFolder. Files that lie in none have -1. Links count as what they lead to. Hidden
/// files and folders, whose names begin with a dot, do not count, nor what is neither file nor
/// folder. The files must stay as they are while they are read. A path of one file is a source of
/// one record.
template <class Io = PosixIo>
Files<Io> files(std::string folder, FilesOptions options = {}, Io io = {}) {
  return Files<Io>{std::move(folder), std::move(options), std::move(io)};
}
/// Makes a source of the files of a list, in its order, which may name one more than once.
template <class Io = PosixIo>
Files<Io> files(std::vector<std::string> list, FilesOptions options = {}, Io io = {}) {
  return Files<Io>{std::move(list), {}, std::move(options), std::move(io)};
}
/// Makes a source of several files named in a list.
template <class Io = PosixIo>
Files<Io> files(std::initializer_list<std::string> list, FilesOptions options = {}, Io io = {}) {
  return Files<Io>{std::vector<std::string>{list}, {}, std::move(options), std::move(io)};
}
/// Makes a source of the files of a list, and gives each its label.
template <class Io = PosixIo>
Files<Io> files(std::vector<std::string> list, std::vector<std::int32_t> labels,
                FilesOptions options = {}, Io io = {}) {
  return Files<Io>{std::move(list), std::move(labels), std::move(options), std::move(io)};
}

} // namespace penstock
