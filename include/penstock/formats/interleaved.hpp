// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/column.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/origin.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/codec.hpp>
#include <penstock/formats/detail/compressed_file.hpp>
#include <penstock/formats/detail/side_by_side.hpp>
#include <penstock/formats/detail/stream_records.hpp>
#include <penstock/formats/lines.hpp>
#include <penstock/io/folder.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/machine/usable.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock {

/// Options of interleaved().
struct InterleavedOptions {
  std::size_t at_once = 16; ///< How many files are taken in turn. It sets the order of records.
  std::uint64_t block = 64; ///< How many records of a file come together. It sets the order, too.
  /// How many records of that order are left out at its beginning: a program that has seen so many
  /// goes on behind them. All before are decoded again.
  std::uint64_t skip = 0;
  /// How many threads decode, at most one a file; 0: one for each processor, and no more than files
  /// are taken in turn.
  unsigned threads = 0;
  /// The longest line that is taken, in bytes without its end: see LinesOptions.
  std::uint64_t longest = std::uint64_t{1} << 20;
};

/// A source of the records of compressed files, several of which are decoded side by side and taken
/// in turn. Made by interleaved(). Its size is unknown, and its records come in order only. Copies
/// share threads and what was decoded, so one run at a time reads. T is Line, or the type of
/// records of fixed size that lie back to back. Io makes the system calls: see PosixIo.
template <class T, Codec C, class Io = PosixIo> class Interleaved {
  static constexpr bool of_lines = std::is_same_v<T, Line>;
  static_assert(of_lines || (!detail::HasColumns<T> && std::is_trivially_copyable_v<T>),
                "penstock: interleaved<T>: T is ps::Line, or a trivially copyable record.");
  static_assert(C::streams,
                "penstock: interleaved takes files that are streams of frames, and this "
                "codec takes whole frames only: see ps::decompressed.");
  using Stream = detail::CompressedStream<C, detail::CompressedInput<Io>>;
  using Records = detail::StreamRecords<Stream>;
  using Decoding = detail::SideBySide<Records>;

 public:
  /// The type of its records.
  using schema = T;

  /// Takes files and directories; touches none before open().
  Interleaved(std::vector<std::string> paths, C codec, InterleavedOptions options, Io io = {})
      : paths_{std::move(paths)}, codec_{std::move(codec)}, options_{options}, io_{std::move(io)} {}

  /// Finds the files, in the order of the paths, those of a directory in that of their names'
  /// bytes. Reads none. Throws OptionError for options that cannot work, SourceError for a path
  /// that leads nowhere, and if there is none. Does nothing the second time.
  void open() {
    if (shared_) {
      return;
    }
    if (options_.at_once == 0 || options_.block == 0) {
      throw OptionError{"penstock: interleaved: .at_once and .block must be at least 1."};
    }
    if (options_.longest >= std::numeric_limits<std::uint32_t>::max()) {
      throw OptionError{"penstock: interleaved: .longest must be less than 4 GiB."};
    }
    auto shared = detail::new_shared<Shared>();
    for (const std::string& path : paths_) {
      const auto found = files_at(io_, path);
      shared->files.insert(shared->files.end(), found.begin(), found.end());
    }
    if (shared->files.empty()) {
      detail::throw_source_error(
          {"penstock: interleaved: the list of files is empty: name at least one."}, {}, 0);
    }
    shared_ = std::move(shared);
  }
  /// Returns unknown_size.
  std::uint64_t size() const noexcept { return unknown_size; }
  /// Returns false.
  bool random_access() const noexcept { return false; }

  /// Puts the records from into.index() on. After open(). Blocks while they are decoded; one thread
  /// at a time. If they are not those behind the ones that came last, as in another run, it
  /// begins anew. Throws SourceError with file, the byte where decoding stood, and record, for a
  /// file that is damaged, cut, or followed by what is no frame; Error if the batch has no room.
  template <HostSpace Where> std::size_t read(Batch<T, Where> into) const {
    Shared& shared = *shared_;
    const std::lock_guard lock{shared.reading};
    if (!shared.decoding || shared.next != into.index()) {
      begin(shared, into.index());
    }
    std::size_t done = 0;
    try {
      fill(*shared.decoding, into, done);
    } catch (const SourceError& e) {
      shared.decoding = {};
      detail::throw_of_record(e, e.offset(), into.index() + done);
    } catch (...) {
      shared.decoding = {};
      throw;
    }
    shared.next += done;
    return done;
  }

 private:
  struct Shared {
    std::vector<std::string> files;
    std::mutex reading;
    detail::Owned<Decoding> decoding;
    std::uint64_t next{}; // record
    const detail::Origin origin;

    Shared() = default;
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared() {
      if (!origin.is_here()) { // in a forked child, which has none of its threads
        static_cast<void>(decoding.release());
      }
    }
  };

  static std::size_t bytes_of(const detail::StreamPart& part, std::size_t first,
                              std::size_t count) {
    std::size_t bytes = 0;
    for (std::size_t i = first; i != first + count; ++i) {
      bytes += part.lengths[i];
    }
    return bytes;
  }
  // Starts the threads, and passes over what was to be left out, and what has been read.
  void begin(Shared& shared, std::uint64_t number) const {
    const auto usual = static_cast<unsigned>(std::min<std::size_t>(
        {std::size_t{usable_processors()}, options_.at_once, shared.files.size()}));
    shared.decoding = {};
    shared.decoding = detail::Owned<Decoding>{new Decoding{
        shared.files.size(), options_.at_once, options_.block,
        options_.threads == 0
            ? usual
            : static_cast<unsigned>(std::min<std::size_t>(options_.threads, shared.files.size())),
        [&shared, io = io_, codec = codec_, longest = options_.longest](std::size_t file) {
          return detail::Owned<Records>{new Records{Stream{{io, shared.files[file]}, codec},
                                                    of_lines ? 0 : sizeof(T),
                                                    static_cast<std::size_t>(longest)}};
        }}};
    shared.next = number;
    const auto pass = [](const detail::StreamPart& part, std::size_t first, std::size_t count,
                         std::size_t) {
      return of_lines ? bytes_of(part, first, count) : count * sizeof(T);
    };
    constexpr std::uint64_t many = std::uint64_t{1} << 20;
    for (std::uint64_t left = options_.skip + number; left != 0;) {
      const std::size_t passed =
          shared.decoding->next(static_cast<std::size_t>(std::min(left, many)), pass);
      left = passed == 0 ? 0 : left - passed;
    }
  }
  template <class Where>
  static void fill(Decoding& decoding, Batch<T, Where> into, std::size_t& done) {
    const auto take = [&](const detail::StreamPart& part, std::size_t first, std::size_t count,
                          std::size_t byte) { return copy(part, first, count, byte, into, done); };
    while (done != into.size()) {
      const std::size_t got = decoding.next(into.size() - done, take);
      if (got == 0) {
        return;
      }
      done += got;
    }
  }
  template <class Where>
  static std::size_t copy(const detail::StreamPart& part, std::size_t first, std::size_t count,
                          std::size_t byte, Batch<T, Where> into, std::size_t at) {
    if constexpr (of_lines) {
      const Column<Ragged<char>> text = get<"text">(into);
      char* to = nullptr;
      for (std::size_t i = 0; i != count; ++i) {
        char* const place = text.put(at + i, part.lengths[first + i]);
        to = i == 0 ? place : to;
      }
      const std::size_t bytes = bytes_of(part, first, count);
      if (bytes != 0) { // all of them, since they lie together in both
        std::memcpy(to, part.bytes.data() + byte, bytes);
      }
      return bytes;
    } else {
      std::memcpy(into.data() + at, part.bytes.data() + byte, count * sizeof(T));
      return count * sizeof(T);
    }
  }

  std::vector<std::string> paths_;
  C codec_;
  InterleavedOptions options_;
  Io io_;
  detail::Shared<Shared> shared_;
};

/// Makes a source of the records of files that are streams of zstd, LZ4 or gzip, many of which are
/// decoded side by side: `interleaved<Line>({"a.jsonl.zst", "b.jsonl.zst"}, Zstd{})`. It takes
/// .block records of the first file, as many of the second, and so on to number .at_once, then of
/// the first again; the next file takes the place of one that has ended. So which record is number
/// n depends on the files, .at_once and .block alone, and not on how fast which thread is.
template <class T, Codec C, class Io = PosixIo>
Interleaved<T, C, Io> interleaved(std::vector<std::string> paths, C codec,
                                  InterleavedOptions options = {}, Io io = {}) {
  return {std::move(paths), std::move(codec), options, std::move(io)};
}

} // namespace penstock
