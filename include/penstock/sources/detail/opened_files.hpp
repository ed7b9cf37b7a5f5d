// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/opening.hpp>
#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/io/descriptors.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/folder.hpp>
#include <penstock/prepare_options.hpp>
#include <penstock/sources/detail/told.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// The files of a source that finds its records by what is in them, all open: any bytes of any of
/// them, at any time. Any number of threads may call the const members at once.
template <class Io> class OpenedFiles {
 public:
  /// Opens what find_files() has found, many by several threads at once. Throws SourceError for the
  /// first in order that cannot be opened. Blocks.
  [[gnu::cold]] OpenedFiles(const Io& io, Vector<FoundFile> found, DirectReads reads,
                            OpeningProgress& progress) {
    const bool fit = reads == DirectReads::automatic && fit_into_memory(io, found);
    const DirectReads direct = fit ? DirectReads::none : reads;
    Vector<std::optional<DirectFile<Io>>> files(found.size());
    const auto open_one = [&](std::size_t i) {
      DirectFile<Io>& file = files[i].emplace(io, std::move(found[i].path), direct);
      if (i >= (file.is_direct() ? most_open / 2 : most_open)) {
        file.close();
      }
      progress.opened();
    };
    const FirstFailure failure = for_all(files.size(), open_one, [&] { progress.look(); });
    // Where there are few files, threads that read small records would meet at each of them.
    const std::size_t each = files.empty() ? 0 : Descriptors<Io>::most / files.size();
    files_.reserve(files.size());
    for (std::size_t i = 0; i < files.size(); ++i) {
      failure.rethrow_at(i);
      files_.push_back({std::move(*files[i]), {}});
      if (each > 1) {
        files_.back().more = Owned<Descriptors<Io>>{new Descriptors<Io>{each}};
      }
    }
    progress.tell();
  }

  std::size_t size() const noexcept { return files_.size(); }
  const std::string& path(std::size_t file) const noexcept { return files_[file].file.path(); }
  /// Returns a file's bytes when it was opened.
  std::uint64_t bytes(std::size_t file) const noexcept { return files_[file].file.size(); }
  std::size_t direct_files() const noexcept {
    return static_cast<std::size_t>(std::count_if(
        files_.begin(), files_.end(), [](const One& one) { return one.file.is_direct(); }));
  }

  /// Fills `into` from byte `offset` of a file on. Throws SourceError. Blocks.
  void read(std::size_t file, std::uint64_t offset, std::span<std::byte> into) const {
    read_full(files_[file].file, files_[file].more.get(), offset, into);
  }
  /// Has the system read these bytes into the page cache, as Records::will_read() does.
  void will_read(std::size_t file, std::uint64_t offset, std::uint64_t bytes) const noexcept
    requires requires(const Io& io) { io.will_read(0, offset, bytes); }
  {
    const DirectFile<Io>& one = files_[file].file;
    if (!one.is_direct() && one.file().is_open()) {
      one.file().descriptor().will_read(offset, bytes);
    }
  }
  /// Appends how the files are read, where it is not through the page cache by a descriptor each.
  [[gnu::cold]] void note(std::string& to) const {
    for (const One& one : files_) {
      if (one.more && one.more->any()) {
        add_note(to, "small records by a descriptor a thread");
      }
      if (one.file.is_direct()) {
        add_note(to, "reads past the page cache");
      }
    }
  }

 private:
  struct One {
    DirectFile<Io> file;
    Owned<Descriptors<Io>> more; // for small reads; null where there are many files
  };
  // See Records: the others are opened by each read for itself.
  static constexpr std::size_t most_open = 256;

  Vector<One> files_;
};

/// Returns the regular files that paths name. Throws SourceError for an empty list, in the name of
/// `call`, and what find_files() throws.
template <class Io>
[[gnu::cold]] Vector<FoundFile> found_files(const char* call, const Io& io,
                                            const std::vector<std::string>& paths,
                                            OpeningProgress& progress) {
  if (paths.empty()) {
    throw_source_error({"penstock: ", call, ": the list of files is empty: name at least one."}, {},
                       0);
  }
  return find_files(io, paths, progress);
}

} // namespace penstock::detail
