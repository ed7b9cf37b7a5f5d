// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/io/descriptors.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/many_reads.hpp>
#include <penstock/sources/detail/held_bytes.hpp>
#include <penstock/sources/detail/optional_members.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace penstock::detail {

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
    const std::size_t each = this->empty() ? 0 : Descriptors<Io>::most / this->size();
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

} // namespace penstock::detail
