// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/error.hpp>
#include <penstock/io/descriptors.hpp>
#include <penstock/io/detail/opening.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/folder.hpp>
#include <penstock/io/many_reads.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/endings.hpp>
#include <penstock/sources/detail/held_bytes.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/detail/reads.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Whether an Io's files take nothing of the system's, so that all may stay open.
template <class Io>
concept CountsNoFiles = requires { Io::most_open; };

/// Where a file's records lie: so many from byte `offset` on, of the file or of bytes in memory
/// that were made of it.
struct RecordsAt {
  std::uint64_t offset;
  std::uint64_t records;
  Shared<const HeldBytes> in_memory{};
};

/// A file that has records: those from `first` to before `end`.
template <class Io> struct FilePart {
  DirectFile<Io> file;
  std::uint64_t offset; // of its first record
  std::uint64_t first;
  std::uint64_t end;
  Shared<const HeldBytes> in_memory;
  Owned<Descriptors<Io>> more{}; // for small reads; null where there are many files

  bool is_direct() const noexcept { return !in_memory && file.is_direct(); }
};

/// The files of a source that have records, opened, and what reads them.
template <class Io> struct FileParts : Vector<FilePart<Io>>, ManyReadsOf<Io> {
  using Part = FilePart<Io>;

  /// Returns the file that has this record, or the end.
  const Part* with(std::uint64_t number) const noexcept {
    return std::upper_bound(this->begin(), this->end(), number,
                            [](std::uint64_t record, const Part& p) { return record < p.end; });
  }
  /// Lets each file have more descriptors. Where there are few files, threads that read small
  /// records would meet at each of them.
  [[gnu::cold]] void add_descriptors() {
    const bool none = this->empty() || CountsNoFiles<Io>;
    const std::size_t each = none ? 0 : Descriptors<Io>::most / this->size();
    for (std::size_t i = 0; each > 1 && i != this->size(); ++i) {
      (*this)[i].more = Owned<Descriptors<Io>>{new Descriptors<Io>{each}};
    }
  }
  /// Lets many parts of the first `most` files be read at once. Files that are read past the page
  /// cache, or opened by each read for itself, are read one by one.
  [[gnu::cold]] void add_many_reads(const Io& io, std::size_t most)
    requires ReadsMany<Io>
  {
    Vector<int> files(std::min(this->size(), most), -1);
    for (std::size_t i = 0; i != files.size(); ++i) {
      const DirectFile<Io>& file = (*this)[i].file;
      files[i] = file.is_direct() ? -1 : file.file().descriptor().number();
    }
    if (std::any_of(files.begin(), files.end(), [](int file) { return file >= 0; })) {
      this->many = Owned<typename Io::ManyReads>{
          new typename Io::ManyReads{io, std::span<const int>{files.data(), files.size()}}};
    }
  }
  /// Appends how they are read, by what the user called `call`.
  [[gnu::cold]] void note(const char* call, std::string& to) const {
    if constexpr (ReadsMany<Io>) {
      const std::string words = this->many ? this->many->note() : std::string{};
      if (!words.empty()) {
        add_note(to, words);
      }
    }
    for (const Part& part : *this) {
      if (part.more && part.more->any()) {
        add_note(to, "small records by a descriptor a thread");
      }
      if (part.in_memory) {
        add_note(to, "inflated when it was opened");
      }
      if (part.is_direct()) {
        const bool in_vain = asked_in_vain.load(StdAtomics::relaxed);
        add_note(to, in_vain ? joined({"reads past the page cache, so no window is read ahead: "
                                       "give ",
                                       call, "() .direct = ps::DirectReads::none"})
                             : "reads past the page cache");
      }
    }
  }

  StdAtomics::Atomic<bool> asked_in_vain{false}; // to read ahead into the page cache
};

/// Files of records of one length, one after the other: opens, numbers and reads them. Copies share
/// what open() has opened. What a file says of itself, its format knows: see RecordFilesOpening.
template <class Io> class RecordFiles {
 public:
  /// `call` names what the user called. The files of a directory must end alike, but for those that
  /// end in `beside`.
  RecordFiles(const char* call, std::vector<std::string> paths, Io io, const char* beside = "")
      : call_{call}, paths_{std::move(paths)}, io_{std::move(io)}, beside_{beside} {}

  const char* call() const noexcept { return call_; }
  const std::vector<std::string>& paths() const noexcept { return paths_; }
  const Io& io() const noexcept { return io_; }
  bool is_open() const noexcept { return static_cast<bool>(parts_); }

  /// Opens the files, many by several threads at once. `look(file, i)`, on any thread, returns what
  /// File number `i` says of itself; `settle(said, file, before)` then says where its records lie,
  /// in order: `before` are those of the files before it. A file of at most `empty` bytes has no
  /// records. Files that cannot be opened, or that `look` refuses by a SourceError, are left out
  /// and put into `left_out` in order, unless it is null. Throws what both throw, for the first
  /// file in order; SourceError; what progress throws. Blocks.
  template <class Look, class Settle>
  [[gnu::cold]] void open(const PrepareOptions& preparing, DirectReads direct, std::uint64_t empty,
                          Look look, Settle settle, std::size_t threads = 0,
                          std::vector<SourceError>* left_out = nullptr) {
    using Said = std::invoke_result_t<Look&, const File<Io>&, std::size_t>;
    if (paths_.empty()) {
      throw_source_error({"penstock: ", call_, ": the list of files is empty: name at least one."},
                         {}, 0);
    }
    OpeningProgress progress{preparing};
    Vector<FoundFile> found = find_files(
        io_, paths_, progress, [&](const std::string& path, std::span<const FoundFile> files) {
          check_one_ending(call_, path, files, beside_);
        });
    const bool once = direct != DirectReads::automatic || !fit_into_memory(io_, found);
    direct = once ? direct : DirectReads::none;
    Vector<std::optional<DirectFile<Io>>> files(found.size());
    Vector<std::optional<Said>> said(found.size());
    const std::size_t stay = behind_first(most_open, found, empty);
    const std::size_t stay_direct = behind_first(most_open / 2, found, empty);
    Vector<std::optional<SourceError>> refused(left_out ? found.size() : 0);
    const auto open_file = [&](std::size_t i) {
      DirectFile<Io>& file = files[i].emplace(io_, std::move(found[i].path), direct);
      said[i].emplace(look(file.file(), i));
      if (i >= (file.is_direct() ? stay_direct : stay) || file.size() <= empty ||
          !file.may_stay_open()) {
        file.close();
      }
    };
    const auto open_one = [&](std::size_t i) {
      try {
        open_file(i);
      } catch (const LacksRoom&) {
        throw; // which says nothing about this file
      } catch (const SourceError& e) {
        if (!left_out) {
          throw;
        }
        files[i].reset();
        refused[i].emplace(e);
      }
      progress.opened();
    };
    const FirstFailure failure = for_all(files.size(), open_one, [&] { progress.look(); }, threads);
    auto parts = new_shared<Parts>();
    for (std::size_t i = 0; i < files.size(); ++i) {
      failure.rethrow_at(i);
      if (!files[i]) {
        left_out->push_back(*refused[i]);
        continue;
      }
      const std::uint64_t before = parts->empty() ? 0 : parts->back().end;
      const RecordsAt at = settle(*said[i], std::as_const(*files[i]).file(), before);
      add(*parts, std::move(*files[i]), at, before);
    }
    progress.tell();
    parts->add_descriptors();
    if constexpr (ReadsMany<Io>) {
      parts->add_many_reads(io_, most_open);
    }
    parts_ = std::move(parts);
  }

  /// Returns how many records all files have. After open().
  std::uint64_t size() const { return parts().empty() ? 0 : parts().back().end; }
  /// Returns the path of the first file whose last record has another number than that of `other`'s
  /// file in its place; null if there is none. After open().
  const std::string* first_apart(const RecordFiles& other) const {
    for (std::size_t i = 0; i != parts().size(); ++i) {
      if (i == other.parts().size() || other.parts()[i].end != parts()[i].end) {
        return &parts()[i].file.path();
      }
    }
    return nullptr;
  }
  /// Returns how many of the files that have records are read directly. After open().
  std::size_t direct_files() const {
    return static_cast<std::size_t>(std::count_if(
        parts().begin(), parts().end(), [](const Part& part) { return part.is_direct(); }));
  }

  /// Reads the bytes from `at` on, counted over all records, of `bytes_each`; 0: of one byte
  /// each, which are parts of records that only the caller knows, so that errors name none.
  void read_bytes(std::uint64_t at, std::span<std::byte> into, std::size_t bytes_each) const {
    const Parts& all = parts();
    const std::size_t record_bytes = std::max<std::size_t>(bytes_each, 1);
    check_bytes(call_, at, into.size(), size(), record_bytes);
    for (const Part* part = all.with(at / record_bytes); !into.empty(); ++part) {
      const auto here = static_cast<std::size_t>(
          std::min<std::uint64_t>(part->end * record_bytes - at, into.size()));
      read_part(*part, at, into.first(here), bytes_each);
      into = into.subspan(here);
      at += here;
    }
  }
  /// Returns whether read_many() pays for records of so many bytes. After open().
  bool reads_many(std::size_t record_bytes) const
    requires ReadsMany<Io>
  {
    const auto& many = parts().many;
    return many && record_bytes <= Io::ManyReads::most_bytes && many->usable();
  }
  /// Reads the records of these numbers, which it has, one behind the other.
  void read_many(std::span<const std::uint64_t> numbers, std::span<std::byte> into,
                 std::size_t record_bytes) const
    requires ReadsMany<Io>
  {
    const Parts& all = parts();
    const auto find = [&](std::uint64_t number) -> RecordPlace {
      const Part* const part = all.with(number);
      return {static_cast<std::size_t>(part - all.begin()),
              part->offset + (number - part->first) * record_bytes, part->end - number};
    };
    const auto read_rest = [&](const FileRead& piece) {
      const Part& part = all[piece.file];
      const std::uint64_t at = part.first * record_bytes + (piece.offset - part.offset);
      read_part(part, at + piece.got, piece.into.subspan(piece.got), record_bytes);
    };
    if (all.many) {
      return detail::read_many(*all.many, numbers, into, record_bytes, find, read_rest);
    }
    for (std::size_t i = 0; i != numbers.size(); ++i) {
      read_bytes(numbers[i] * record_bytes, into.subspan(i * record_bytes, record_bytes),
                 record_bytes);
    }
  }
  /// Has the system read these records into the page cache. Files that are read past it, and those
  /// that are opened for each read, are left alone.
  void will_read(std::uint64_t first, std::uint64_t count,
                 std::size_t record_bytes) const noexcept {
    for (const Part& part : *parts_) {
      const std::uint64_t from = std::max(first, part.first);
      const std::uint64_t end = std::min(first + count, part.end);
      if (from < end && part.is_direct()) {
        parts_->asked_in_vain.store(true, StdAtomics::relaxed);
      } else if (from < end && part.file.file().is_open()) {
        part.file.file().descriptor().will_read(part.offset + (from - part.first) * record_bytes,
                                                (end - from) * record_bytes);
      }
    }
  }
  /// Appends how the files are read, where it is not through the page cache by a descriptor each.
  [[gnu::cold]] void note(std::string& to) const {
    parts().note(call_, to);
    if constexpr (requires { io_.note(); }) {
      if (const std::string words = io_.note(); !words.empty()) {
        add_note(to, words);
      }
    }
  }

 private:
  using Part = FilePart<Io>;
  using Parts = FileParts<Io>;
  // A file that is read directly takes two. The files beyond this many, or beyond what the process
  // may have, are opened by each read for itself, which needs no lock.
  static constexpr std::size_t most_open = CountsNoFiles<Io> ? ~std::size_t{0} : 256;

  const Parts& parts() const {
    if (!parts_) {
      const std::string_view first = paths_.empty() ? std::string_view{} : paths_.front();
      throw_source_error({"penstock: ", call_, ": ", first, " is not open yet: call open() first."},
                         first, 0);
    }
    return *parts_;
  }

  [[gnu::cold]] static void add(Parts& parts, DirectFile<Io> file, RecordsAt at,
                                std::uint64_t before) {
    if (at.records != 0) {
      check_countable(file.path(), file.size(), at.records, before);
      if (at.in_memory) {
        file.close();
      }
      parts.push_back(
          {std::move(file), at.offset, before, before + at.records, std::move(at.in_memory)});
    }
  }

  void read_part(const Part& part, std::uint64_t at, std::span<std::byte> into,
                 std::size_t bytes_each) const {
    const std::size_t record_bytes = std::max<std::size_t>(bytes_each, 1);
    // No overflow: the sum is less than the file's size.
    const std::uint64_t offset = part.offset + (at - part.first * record_bytes);
    if (part.in_memory) {
      const auto bytes = part.in_memory->bytes().subspan(std::size_t{offset}, into.size());
      std::copy(bytes.begin(), bytes.end(), into.begin());
      return;
    }
    try {
      read_full(part.file, part.more.get(), offset, into);
    } catch (const SourceError& e) {
      // The file knows only bytes.
      const std::uint64_t failed_at = std::max(e.offset(), offset);
      if (bytes_each == 0) {
        throw SourceError{text_of(e), e.file(), failed_at};
      }
      throw_of_record(e, failed_at, (at + (failed_at - offset)) / record_bytes);
    }
  }

  const char* call_;
  std::vector<std::string> paths_;
  Io io_;
  const char* beside_;
  Shared<Parts> parts_; // not changed once it is set
};

} // namespace penstock::detail
