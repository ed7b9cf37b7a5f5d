// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/formats/packed.hpp>
#include <penstock/formats/packed/detail/packed_blobs.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/record_files.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

/// Options of packed().
struct PackedOptions {
  /// Records in a batch; 0: about 4 MiB of them. A batch carries whole chunks, also those of which
  /// it has a part: make it many times a chunk's records. Workers read it in equal pieces of about
  /// 1 MiB, if it can be divided so.
  std::size_t batch = 0;
};

/// A piece of a batch whose records are packed still: what packed() gives, and unpack() takes.
struct PackedRecords : Columns<Field<"packed", Ragged<std::byte>>> {};

/// A source whose records are pieces of packed batches, for unpack(). Made by packed(). Copies
/// share what open() has opened. Io makes the system calls: see PosixIo.
template <class Schema, class Io = PosixIo> class Packed {
  using Wanted = detail::packed_columns<Schema>;
  static constexpr bool has_numbers = Wanted::fit;
  static_assert(has_numbers,
                "penstock: a packed file holds numbers, bool, Half and BFloat16: packed<T>() takes "
                "one of these, or columns of them without Ragged.");

 public:
  /// The type of its records.
  using schema = PackedRecords;
  /// The type of the records in them.
  using unpacked_schema = Schema;
  /// For unpack().
  using Blobs = detail::PackedBlobs<Io>;

  /// Takes files and directories; touches none before open().
  explicit Packed(std::vector<std::string> paths, PackedOptions options = {}, Io io = {})
      : state_{detail::new_shared<State>(
            detail::RecordFiles<Io>{"packed", std::move(paths), std::move(io)}, options)} {}

  /// Opens the files and reads their headers and indexes, as Unpacked::open() does. Does nothing
  /// the second time, also of a copy.
  void open(const PrepareOptions& preparing = {}) {
    const std::scoped_lock lock{state_->opening}; // copies may be opened side by side
    if (!state_->blobs) {
      const auto wanted = Wanted::wanted();
      state_->blobs = detail::new_shared<const Blobs>(
          detail::PackedFiles<Io>{state_->closed, preparing,
                                  std::span<const detail::WantedColumn>{wanted}},
          state_->options.batch);
    }
  }

  /// Returns how many pieces there are. After open().
  std::uint64_t size() const { return blobs().size(); }
  /// Returns how many records these have together. After open().
  std::uint64_t records() const { return blobs().files().size(); }
  /// Returns how many records a batch has; the last may have fewer. After open().
  std::size_t batch() const { return blobs().batch(); }

  /// Returns how many pieces a Reader's slot has. After open().
  std::uint64_t together() const { return blobs().pieces(); }

  /// Reads packed pieces, and checks the packed bytes of each chunk. After open(). Blocks; any
  /// number of threads at once. Throws SourceError with file, offset and the piece's number.
  template <HostSpace Where> std::size_t read(Batch<PackedRecords, Where> into) const {
    const auto packed = get<"packed">(into);
    detail::check_range("packed", into.index(), into.size(), 0, size(), 0);
    for (std::size_t i = 0; i != into.size(); ++i) {
      const std::uint64_t number = into.index() + i;
      const std::size_t bytes = blobs().length(number);
      blobs().read(number, {packed.put(i, bytes), bytes});
    }
    return into.size();
  }
  /// Tells how many bytes each piece from number `first` on has. After open(); any thread. Throws
  /// SourceError if there are not so many.
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const {
    detail::check_range("packed", first, into.size(), 0, size(), 0);
    for (std::uint64_t& length : into) {
      length = blobs().length(first++);
    }
  }
  /// Returns how many bytes any so many pieces have together at most. After open().
  std::uint64_t value_bytes(std::uint64_t records) const { return blobs().value_bytes(records); }
  /// Has the system read the chunks of these pieces into the page cache. Any thread.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept {
    state_->blobs->will_read(first, count);
  }
  /// Appends how the files are read.
  [[gnu::cold]] void note(std::string& to) const { blobs().files().files().note(to); }

  /// For unpack(): returns what open() has opened.
  detail::Shared<const Blobs> opened() const {
    static_cast<void>(blobs());
    return state_->blobs;
  }

 private:
  struct State {
    State(detail::RecordFiles<Io> files, PackedOptions told)
        : closed{std::move(files)}, options{told} {}

    detail::RecordFiles<Io> closed;
    PackedOptions options;
    std::mutex opening{};
    detail::Shared<const Blobs> blobs{}; // set once
  };

  const Blobs& blobs() const {
    if (!state_->blobs) {
      static_cast<void>(state_->closed.size()); // throws
    }
    return *state_->blobs;
  }

  detail::Shared<State> state_;
};

/// Makes a source of the records of a packed file, or of all in a directory, which stay packed
/// until unpack() unpacks them on a device: `packed<Sample>(path, {.batch = 4096})`. A schema is
/// that of unpacked(). The files must stay as they are while they are read.
template <class Schema, class Io = PosixIo>
Packed<Schema, Io> packed(std::string path, PackedOptions options = {}, Io io = {}) {
  std::vector<std::string> paths;
  paths.push_back(std::move(path));
  return Packed<Schema, Io>{std::move(paths), options, std::move(io)};
}
/// Makes a source of several files or directories, read one after the other.
template <class Schema, class Io = PosixIo>
Packed<Schema, Io> packed(std::vector<std::string> paths, PackedOptions options = {}, Io io = {}) {
  return Packed<Schema, Io>{std::move(paths), options, std::move(io)};
}
/// Makes a source of several files named in a list.
template <class Schema, class Io = PosixIo>
Packed<Schema, Io> packed(std::initializer_list<std::string> paths, PackedOptions options = {},
                          Io io = {}) {
  return Packed<Schema, Io>{std::vector<std::string>{paths}, options, std::move(io)};
}

} // namespace penstock
