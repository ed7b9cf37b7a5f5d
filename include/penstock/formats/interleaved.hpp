// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/column.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/origin.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/codec.hpp>
#include <penstock/formats/detail/compressed_file.hpp>
#include <penstock/formats/detail/side_by_side.hpp>
#include <penstock/formats/detail/stream_part.hpp>
#include <penstock/formats/detail/stream_records.hpp>
#include <penstock/formats/detail/stream_samples.hpp>
#include <penstock/formats/detail/tar_columns.hpp>
#include <penstock/formats/lines.hpp>
#include <penstock/formats/tfrecord.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/folder.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/machine/usable.hpp>
#include <penstock/order/order.hpp>
#include <penstock/order/permutation.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::detail {

/// How the records of a stream are cut, by their type.
template <class T, class Stream> struct stream_form {
  static_assert(std::is_trivially_copyable_v<T>,
                "penstock: interleaved<T>: T is ps::Line, ps::TfRecord, the columns of a tar "
                "archive's samples, or a trivially copyable record.");
  using type = StreamValues<Stream>;
  static constexpr std::uint64_t usual_longest = sizeof(T);
};
template <class Stream> struct stream_form<Line, Stream> {
  using type = StreamLines<Stream>;
  static constexpr std::uint64_t usual_longest = std::uint64_t{1} << 20;
};
template <class Stream> struct stream_form<TfRecord, Stream> {
  using type = StreamTfRecords<Stream>;
  static constexpr std::uint64_t usual_longest = std::uint64_t{64} << 20;
};
template <HasColumns T, class Stream> struct stream_form<T, Stream> {
  using Fields = typename columns_of<T>::type;
  static_assert(tar_columns<Fields>::all_hold && tar_columns<Fields>::any_member,
                "penstock: interleaved<T>: columns are those of tar(): Ragged bytes, one number, "
                "or the key, and at least one that is no key.");
  using type = StreamSamples<Fields, Stream>;
  static constexpr std::uint64_t usual_longest = std::uint64_t{64} << 20;
};

/// Puts the bytes of a part's records from number `first` on into a column's, from `at` on.
template <class Value>
void put_values(const StreamPart& part, std::size_t first, std::size_t count,
                const Column<Ragged<Value>>& values, std::size_t at) {
  for (const StreamPart::Place& place : std::span{part.places}.subspan(first, count)) {
    Value* const to = values.put(at++, place.bytes);
    if (place.bytes != 0) {
      std::memcpy(to, part.bytes.data() + place.begin, place.bytes);
    }
  }
}
/// Puts a sample of a part as record `at` of a batch.
template <class T, class Where, class... F>
void put_sample(const StreamPart& part, std::size_t record, const Batch<T, Where>& into,
                std::size_t at, const Columns<F...>*) {
  const StreamPart::Place* place = &part.places[record * sizeof...(F)];
  const auto put_one = [&]<class N, class Held>(const NamedColumn<N, Held>*) {
    const auto column = lookup<N, T, false>::view::make(into.view());
    const std::byte* const from = part.bytes.data() + place->begin;
    if constexpr (tar_holds<NamedColumn<N, Held>> == TarHolds::number) {
      Held value;
      std::memcpy(&value, from, sizeof value);
      column[at] = value;
    } else {
      auto* const to = column.put(at, place->bytes);
      if (place->bytes != 0) {
        std::memcpy(to, from, place->bytes);
      }
    }
    ++place;
  };
  (put_one(static_cast<const F*>(nullptr)), ...);
}

} // namespace penstock::detail

namespace penstock {

/// Options of interleaved().
struct InterleavedOptions {
  std::size_t at_once = 16; ///< How many files are taken in turn. It sets the order of records.
  std::uint64_t block = 64; ///< How many records of a file come together. It sets the order, too.
  /// Shuffles the list of files, each time that all have come in another way.
  Seed shuffle = {};
  /// How many records the source has: files come again and again until it has so many. Several
  /// ranks then can share it, by Order::ranks. 0: each file comes once, and nobody knows the
  /// number.
  std::uint64_t records = 0;
  /// How many threads decode, at most one a file; 0: one for each processor, and no more than files
  /// are taken in turn.
  unsigned threads = 0;
  /// The longest line, TFRecord or member of a tar archive's column that is taken, in bytes; a
  /// line's without its end. 0: 1 MiB for lines, else 64 MiB.
  std::uint64_t longest = 0;
};

/// A source of the records of compressed files, several of which are decoded side by side and taken
/// in turn. Made by interleaved(). Its records come in order, and a run can begin at any: see
/// begins_anywhere(). Copies share threads and what was decoded, so one run at a time reads. Io
/// makes the system calls: see PosixIo.
template <class T, Codec C, class Io = PosixIo> class Interleaved {
  static_assert(C::streams,
                "penstock: interleaved takes files that are streams of frames, and this "
                "codec takes whole frames only: see ps::decompressed.");
  using Stream = detail::CompressedStream<C, detail::CompressedInput<Io>>;
  using Form = detail::stream_form<T, Stream>;
  using Records = typename Form::type;
  using Decoding = detail::SideBySide<Records>;

 public:
  /// The type of its records.
  using schema = T;

  /// Takes files and directories; touches none before open().
  Interleaved(std::vector<std::string> paths, C codec, InterleavedOptions options, Io io = {})
      : paths_{std::move(paths)}, codec_{std::move(codec)}, options_{options}, io_{std::move(io)} {}

  /// Finds the files, in the order of the paths, those of a directory in that of their names'
  /// bytes, and asks for their sizes. Reads none. Throws OptionError for options that cannot work,
  /// SourceError for a path that leads nowhere, and if there is none. Does nothing the second time.
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
    shared->identity = identity_of_files(shared->files);
    shared_ = std::move(shared);
  }
  /// Returns InterleavedOptions::records, or unknown_size if that is 0.
  std::uint64_t size() const noexcept {
    return options_.records == 0 ? unknown_size : options_.records;
  }
  /// Returns false.
  bool random_access() const noexcept { return false; }
  /// Returns true: read() may be asked for any records. What lies before them in their files is
  /// decoded, once more if it came before. With InterleavedOptions::records no other file is
  /// opened.
  bool begins_anywhere() const noexcept { return true; }
  /// Returns a number for the names and sizes of the files, and the options that set the order.
  /// After open().
  std::uint64_t identity() const noexcept { return shared_->identity; }

  /// Puts the records from into.index() on. After open(). Blocks while they are decoded, or until
  /// `patience` ends; one thread at a time. If they lie before those that came last, as in another
  /// run, it begins anew. Throws SourceError with file, the byte where decoding stood, and record,
  /// for a file that is damaged, cut, or followed by what is no frame; Error if the batch has no
  /// room, and in a child of the process that opened it.
  template <HostSpace Where>
  std::size_t read(Batch<T, Where> into, const Patience& patience = {}) const {
    Shared& shared = *shared_;
    if (!shared.origin.is_here()) {
      throw Error{
          "penstock: interleaved: the source was opened before a fork, and a child has none "
          "of its parent's threads: make the child's sources after the fork."};
    }
    const std::lock_guard lock{shared.reading};
    std::size_t done = 0;
    try {
      if (!shared.decoding || into.index() < shared.decoding->at()) {
        begin(shared);
      }
      Decoding& decoding = *shared.decoding;
      decoding.go_to(into.index(), patience);
      if (decoding.at() == into.index()) {
        fill(decoding, into, done, patience);
      }
    } catch (const SourceError& e) {
      shared.decoding = {};
      detail::throw_of_record(e, e.offset(), into.index() + done);
    } catch (...) {
      shared.decoding = {};
      throw;
    }
    return done;
  }

 private:
  struct Shared {
    std::vector<std::string> files;
    std::uint64_t identity{};
    std::mutex reading;
    detail::Owned<Decoding> decoding;
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

  // A folder may be another one elsewhere, so a file's name is what stands behind it.
  std::uint64_t identity_of_files(const std::vector<std::string>& files) const {
    std::uint64_t all = detail::and_then(options_.at_once, options_.block);
    all = detail::and_then(all, options_.shuffle ? options_.shuffle.value() + 1 : 0);
    for (const std::string& path : files) {
      const File<Io> file{io_, path};
      for (const char c : std::string_view{path}.substr(path.rfind('/') + 1)) {
        all = (all ^ static_cast<unsigned char>(c)) * 0x100000001b3;
      }
      all = detail::and_then(all, file.size());
    }
    return all;
  }
  // Starts the threads.
  void begin(Shared& shared) const {
    const std::size_t files = shared.files.size();
    const std::size_t lanes = std::min(options_.at_once, files);
    const unsigned threads = options_.threads == 0 ? usable_processors() : options_.threads;
    const bool endless = options_.records != 0;
    const std::uint64_t longest = options_.longest == 0 ? Form::usual_longest : options_.longest;
    shared.decoding = {};
    shared.decoding = detail::Owned<Decoding>{new Decoding{
        // A turn of all lanes must be a number; nobody comes to the end of one so large.
        {lanes, std::min(options_.block, std::numeric_limits<std::uint64_t>::max() / lanes),
         endless},
        static_cast<unsigned>(std::min<std::size_t>(threads, lanes)),
        [&all = shared.files, io = io_, codec = codec_, shuffle = options_.shuffle, lanes, endless,
         longest](std::size_t lane, std::uint64_t number, std::uint64_t fruitless) {
          const std::uint64_t place = number * lanes + lane;
          if (!endless && place >= all.size()) {
            return detail::Owned<Records>{};
          }
          if (fruitless > all.size()) {
            detail::throw_source_error({"penstock: interleaved: no record comes of the files that "
                                        "are taken in turn: name files that have some."},
                                       all.front(), 0);
          }
          const std::uint64_t within = place % all.size();
          const std::uint64_t file =
              shuffle ? Permutation{all.size(), shuffle.value(), place / all.size()}(within)
                      : within;
          return detail::Owned<Records>{
              new Records{Stream{{io, all[file]}, codec}, static_cast<std::size_t>(longest)}};
        }}};
  }
  template <class Where>
  static void fill(Decoding& decoding, Batch<T, Where> into, std::size_t& done,
                   const Patience& patience) {
    const auto take = [&](const detail::StreamPart& part, std::size_t first, std::size_t count) {
      put(part, first, count, into, done);
    };
    while (done != into.size()) {
      const std::size_t got = decoding.next(into.size() - done, take, patience);
      if (got == 0) {
        return;
      }
      done += got;
    }
  }
  template <class Where>
  static void put(const detail::StreamPart& part, std::size_t first, std::size_t count,
                  const Batch<T, Where>& into, std::size_t at) {
    if constexpr (std::is_same_v<T, Line>) {
      detail::put_values(part, first, count, get<"text">(into), at);
    } else if constexpr (std::is_same_v<T, TfRecord>) {
      detail::put_values(part, first, count, get<"bytes">(into), at);
    } else if constexpr (detail::HasColumns<T>) {
      for (std::size_t i = 0; i != count; ++i) {
        detail::put_sample(part, first + i, into, at + i,
                           static_cast<const typename detail::columns_of<T>::type*>(nullptr));
      }
    } else {
      std::memcpy(into.data() + at, part.bytes.data() + first * sizeof(T), count * sizeof(T));
    }
  }

  std::vector<std::string> paths_;
  C codec_;
  InterleavedOptions options_;
  Io io_;
  detail::Shared<Shared> shared_;
};

/// Makes a source of the records of files that are streams of zstd, LZ4 or gzip, many of which are
/// decoded side by side: `interleaved<Line>({"a.jsonl.zst", "b.jsonl.zst"}, Zstd{})`. T is Line,
/// TfRecord, a schema of tar()'s for archives such as `.tar.gz`, or the type of records of fixed
/// size that lie back to back. It takes .block records of the first of .at_once files, as many of
/// the second, and so on, then of the first again. File number f of the list comes behind file
/// f - .at_once, where that has ended; where there is none, the others go on. So which record is
/// number n depends on the files and the options that say so, and not on how fast which thread is.
template <class T, Codec C, class Io = PosixIo>
Interleaved<T, C, Io> interleaved(std::vector<std::string> paths, C codec,
                                  InterleavedOptions options = {}, Io io = {}) {
  return {std::move(paths), std::move(codec), options, std::move(io)};
}

} // namespace penstock
