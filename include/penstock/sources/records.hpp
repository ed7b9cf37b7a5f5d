// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/opening.hpp>
#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/shared.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/error.hpp>
#include <penstock/io/descriptors.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/folder.hpp>
#include <penstock/io/whole_records.hpp>
#include <penstock/prepare_options.hpp>
#include <penstock/schema.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/told.hpp>
#include <penstock/sources/records_options.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock {

/// A source of records that lie back to back in files, as they lie in memory. Made by records().
/// Copies share what open() has opened. Io makes the system calls: see PosixIo.
template <class T, class Io = PosixIo> class Records {
  static_assert(!std::is_const_v<T>, "penstock: records<T> writes T's into memory, so T must not "
                                     "be const.");
  static constexpr bool plain = !detail::HasColumns<T>;
  static_assert(plain, "penstock: records<T>(path) reads T's as they lie in the files, and T has "
                       "columns: read each from files of its own by zip<T>(...), or read structs, "
                       "and let a Decoder fill T.");

 public:
  /// Whether it was refused, so that a Reader says no more about it.
  static constexpr bool refused = !plain;
  /// The type of its records.
  using schema = T;

  /// Takes files and directories, to be read one after the other; touches none before open().
  explicit Records(std::vector<std::string> paths, RecordsOptions options = {}, Io io = {})
      : paths_{std::move(paths)}, options_{options}, io_{std::move(io)} {}

  /// Opens the files, many by several threads at once, and refuses those that cannot be read in
  /// whole records, naming the first in order: one that is missing or no regular file, a directory
  /// without files, a file that ends in the middle of a record or before the offset. A file that
  /// ends at the offset has no records. Blocks. Throws SourceError; OptionError for record_bytes;
  /// what progress throws. Does nothing the second time.
  void open(const PrepareOptions& preparing = {}) {
    if (!parts_) {
      open_files(preparing);
    }
  }

  /// Returns how many records all files have. After open().
  std::uint64_t size() const { return parts().empty() ? 0 : parts().back().end; }
  /// Returns how many of the files that have records are read directly: see RecordsOptions::direct.
  /// After open().
  std::size_t direct_files() const {
    return static_cast<std::size_t>(std::count_if(
        parts().begin(), parts().end(), [](const Part& part) { return part.file.is_direct(); }));
  }
  /// Returns the bytes of one record.
  std::size_t record_bytes() const noexcept {
    return options_.record_bytes != 0 ? options_.record_bytes : sizeof(T);
  }

  /// Reads the records from into.index() on, which are numbered through all files. After open().
  /// Blocks; any number of threads at once. Throws SourceError with file, offset and record.
  template <HostSpace Where> std::size_t read(Batch<T, Where> into) const {
    detail::check_range("records", into, size(), record_bytes());
    read_bytes(into.index() * record_bytes(),
               {reinterpret_cast<std::byte*>(into.data()), into.size_bytes()});
    return into.size();
  }
  /// Reads the bytes from `at` on, counted over all records.
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const {
    const Parts& all = parts();
    detail::check_bytes("records", at, into.size(), size(), record_bytes());
    auto part =
        std::upper_bound(all.begin(), all.end(), at / record_bytes(),
                         [](std::uint64_t record, const Part& p) { return record < p.end; });
    for (; !into.empty(); ++part) {
      const auto here = static_cast<std::size_t>(
          std::min<std::uint64_t>(part->end * record_bytes() - at, into.size()));
      read_part(*part, at, into.first(here));
      into = into.subspan(here);
      at += here;
    }
  }
  /// Has the system read these records into the page cache, so that it reads them in one run. Files
  /// that are read past it, and those that are opened for each read, are left alone. Any thread.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires requires(const Io& io) { io.will_read(0, first, count); }
  {
    for (const Part& part : *parts_) {
      const std::uint64_t from = std::max(first, part.first);
      const std::uint64_t end = std::min(first + count, part.end);
      if (from < end && part.file.is_direct()) {
        parts_->asked_in_vain.store(true, StdAtomics::relaxed);
      } else if (from < end && part.file.file().is_open()) {
        part.file.file().descriptor().will_read(
            options_.offset + (from - part.first) * record_bytes(), (end - from) * record_bytes());
      }
    }
  }
  /// Appends how the files are read, where it is not through the page cache by a descriptor each.
  [[gnu::cold]] void note(std::string& to) const {
    for (const Part& part : parts()) {
      if (part.more && part.more->any()) {
        detail::add_note(to, "small records by a descriptor a thread");
      }
      if (part.file.is_direct()) {
        const bool in_vain = parts().asked_in_vain.load(StdAtomics::relaxed);
        detail::add_note(to, in_vain
                                 ? "reads past the page cache, so no window is read ahead: give "
                                   "records() .direct = ps::DirectReads::none"
                                 : "reads past the page cache");
      }
    }
  }

 private:
  // A file that has records: those from `first` to before `end`.
  struct Part {
    DirectFile<Io> file;
    std::uint64_t first;
    std::uint64_t end;
    detail::Owned<Descriptors<Io>> more{}; // for small reads; null where there are many files
  };
  struct Parts : detail::Vector<Part> {
    StdAtomics::Atomic<bool> asked_in_vain{false}; // to read ahead into the page cache
  };
  // Systems allow a process 1024 open files or more, and one that is read directly takes two. The
  // files beyond this many are opened by each read for itself, which needs no lock.
  static constexpr std::size_t most_open = 256;

  const Parts& parts() const {
    if (!parts_) {
      const std::string_view first = paths_.empty() ? std::string_view{} : paths_.front();
      detail::throw_source_error(
          {"penstock: records: ", first, " is not open yet: call open() first."}, first, 0);
    }
    return *parts_;
  }

  std::uint64_t whole_records(std::uint64_t size) const {
    return detail::whole_records(size, options_.offset, record_bytes());
  }
  [[gnu::cold]] void open_files(const PrepareOptions& preparing) {
    detail::checked_record_bytes<T>("records", options_.record_bytes);
    if (paths_.empty()) {
      detail::throw_source_error(
          {"penstock: records: the list of files is empty: name at least one."}, {}, 0);
    }
    detail::OpeningProgress progress{preparing};
    detail::Vector<detail::FoundFile> found = detail::find_files(io_, paths_, progress);
    const bool once =
        options_.direct != DirectReads::automatic || !detail::fit_into_memory(io_, found);
    const DirectReads direct = once ? options_.direct : DirectReads::none;
    detail::Vector<std::optional<DirectFile<Io>>> files(found.size());
    const auto first = [&](std::size_t most) {
      return detail::behind_first(most, found, options_.offset, record_bytes());
    };
    const std::size_t stay = first(most_open);
    const std::size_t stay_direct = first(most_open / 2);
    const auto open_one = [&](std::size_t i) {
      DirectFile<Io>& file = files[i].emplace(io_, std::move(found[i].path), direct);
      if (i >= (file.is_direct() ? stay_direct : stay) || whole_records(file.size()) == 0) {
        file.close();
      }
      progress.opened();
    };
    const detail::FirstFailure failure =
        detail::for_all(files.size(), open_one, [&] { progress.look(); });
    auto parts = detail::new_shared<Parts>();
    for (std::size_t i = 0; i < files.size(); ++i) {
      failure.rethrow_at(i);
      add(*parts, std::move(*files[i]));
    }
    progress.tell();
    add_descriptors(*parts);
    parts_ = std::move(parts);
  }
  // Where there are few files, threads that read small records would meet at each of them.
  [[gnu::cold]] static void add_descriptors(Parts& parts) {
    const std::size_t each = parts.empty() ? 0 : Descriptors<Io>::most / parts.size();
    for (std::size_t i = 0; each > 1 && i != parts.size(); ++i) {
      parts[i].more = detail::Owned<Descriptors<Io>>{new Descriptors<Io>{each}};
    }
  }
  [[gnu::cold]] void add(Parts& parts, DirectFile<Io> file) const {
    const std::uint64_t before = parts.empty() ? 0 : parts.back().end;
    const std::uint64_t records = detail::checked_whole_records(
        file.path(), file.size(), options_.offset, record_bytes(), before, options_.drop_partial);
    if (records != 0) {
      parts.push_back({std::move(file), before, before + records});
    }
  }

  void read_part(const Part& part, std::uint64_t at, std::span<std::byte> into) const {
    // No overflow: the sum is less than the file's size.
    const std::uint64_t offset = options_.offset + (at - part.first * record_bytes());
    try {
      read_full(part.file, part.more.get(), offset, into);
    } catch (const SourceError& e) {
      // The file knows only bytes.
      const std::uint64_t failed =
          (at + (e.offset() > offset ? e.offset() - offset : 0)) / record_bytes();
      detail::throw_source_error({e.what(), " This was record ", failed, "."}, e.file(),
                                 std::max(e.offset(), offset), failed);
    }
  }

  std::vector<std::string> paths_;
  RecordsOptions options_;
  Io io_;
  detail::Shared<Parts> parts_; // not changed once it is set
};

/// Makes a source of files of records: `records<Frame>("frames.bin")`,
/// `records<std::byte>(path, {.offset = 16, .record_bytes = 784})`. A directory stands for the
/// files in it, in the order of their names' bytes. It touches no file before open(), which
/// prepare() calls. The files must stay as they are while they are read.
template <class T, class Io = PosixIo>
Records<T, Io> records(std::string path, RecordsOptions options = {}, Io io = {}) {
  std::vector<std::string> paths;
  paths.push_back(std::move(path));
  return Records<T, Io>{std::move(paths), options, std::move(io)};
}
/// Makes a source of several files or directories, read one after the other.
template <class T, class Io = PosixIo>
Records<T, Io> records(std::vector<std::string> paths, RecordsOptions options = {}, Io io = {}) {
  return Records<T, Io>{std::move(paths), options, std::move(io)};
}
/// Makes a source of several files named in a list, `records<T>({"a.bin", "b.bin"})`, which could
/// else be one string's two ends.
template <class T, class Io = PosixIo>
Records<T, Io> records(std::initializer_list<std::string> paths, RecordsOptions options = {},
                       Io io = {}) {
  return Records<T, Io>{std::vector<std::string>{paths}, options, std::move(io)};
}

} // namespace penstock
