// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/column.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/array_header.hpp>
#include <penstock/formats/detail/npy_header.hpp>
#include <penstock/formats/detail/tar_columns.hpp>
#include <penstock/formats/detail/tar_files.hpp>
#include <penstock/formats/detail/tar_index.hpp>
#include <penstock/formats/detail/tar_samples.hpp>
#include <penstock/formats/shards.hpp>
#include <penstock/formats/tar_member.hpp>
#include <penstock/formats/tar_options.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/paths.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/renumbered.hpp>
#include <penstock/sources/detail/utf8.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Reads the samples of an archive up to number `end`, in order.
template <class Its, class Part, class Io> class TarReading {
 public:
  TarReading(const RecordFiles<Io>& files, const Part& part, std::uint64_t end)
      : files_{files}, part_{part}, end_{end} {}

  // Goes to a sample: reads it, and with it those behind it, if it is small.
  void look_at(std::uint64_t sample) {
    sample_ = sample;
    const auto places = part_.samples[sample];
    std::uint64_t from = ~std::uint64_t{0};
    std::uint64_t to = 0;
    for (std::size_t i = 0; i != places.size(); ++i) {
      if (Its::holds[i] != TarHolds::key) {
        check(places[i], Its::names[i]);
        from = std::min(from, places[i].data);
        to = std::max(to, places[i].end());
      }
    }
    if (to - from <= most_gathered && (from < begin_ || to > begin_ + held_.size())) {
      for (const TarPlace& place : part_.samples[end_ - 1]) {
        to = std::max(to, place.end());
      }
      begin_ = from;
      held_ = thread_buffer();
      held_ = held_.first(std::min<std::uint64_t>(held_.size(), to - from));
      const std::span<std::byte> into = std::exchange(held_, {}); // none if it throws
      read(begin_, into);
      held_ = into;
    }
  }
  // Copies a column's bytes.
  void copy(std::size_t column, std::byte* to) const { copy(part_.samples[sample_][column], to); }
  void copy(const TarPlace& place, std::byte* to) const {
    if (place.bytes == 0) {
      return;
    }
    if (place.data >= begin_ && place.end() <= begin_ + held_.size()) {
      std::memcpy(to, held_.data() + (place.data - begin_), place.bytes);
    } else {
      read(place.data, {to, static_cast<std::size_t>(place.bytes)});
    }
  }
  std::size_t bytes(std::size_t column) const noexcept {
    return part_.samples[sample_][column].bytes;
  }
  std::string_view key() const noexcept { return part_.samples.key(sample_); }
  // Copies the values of a .npy file.
  template <class T> void array(std::size_t column, std::span<const std::size_t> extents,
                                std::span<std::byte> to) const {
    const TarPlace& place = part_.samples[sample_][column];
    const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
      copy({place.data + at, into.size()}, into.data());
    };
    const std::string name = joined({shown(key()), ".", Its::names[column]});
    const HeaderFile file{part_.path, {name, place.data, true}, place.bytes, read};
    try {
      const WantedArray wanted{value_type_of<T>(), false, extents.subspan(1)};
      const CheckedArray its = checked_array(file, npy_header(file), wanted);
      if (its.records != extents[0]) {
        file.refuse(0, {"begins an array whose first extent is ", its.records,
                        ", and that of the column is ", extents[0],
                        ": give the column all extents of the array."});
      }
      file.read(its.offset, to);
      if (its.swapped) {
        swap_values(to, sizeof(T));
      }
    } catch (const SourceError& e) {
      if (e.record()) {
        throw;
      }
      throw_of_record(e, e.offset(), part_.first + sample_);
    }
  }
  template <class T> T number(std::size_t column) const {
    char text[64];
    T value{};
    const std::size_t count = bytes(column);
    if (count <= sizeof text) {
      copy(column, reinterpret_cast<std::byte*>(text));
    }
    if (count > sizeof text || !number_in({text, count}, value)) {
      refuse(part_.samples[sample_][column].data, Its::names[column],
             count > sizeof text ? joined({"has ", count, " bytes"})
                                 : joined({"is \"", shown({text, count}), "\""}),
             joined({"where a number of type ", name_of(value_type_of<T>()), " should be"}));
    }
    return value;
  }

 private:
  static constexpr std::uint64_t most_gathered = std::uint64_t{32} << 10;

  void check(const TarPlace& place, std::string_view column) const {
    if (!place.is_there()) {
      const bool none = place.data == TarPlace::none;
      refuse(0, column, none ? "is not there" : "is there more than once",
             none ? "beside the sample's other members: write it next to them, or leave such "
                    "samples out by .on_error"
                  : "and a sample has one: write the archive again without the others, or leave "
                    "such samples out by .on_error");
    }
  }
  [[noreturn, gnu::cold]] void refuse(std::uint64_t at, std::string_view column,
                                      const std::string& is, const std::string& why) const {
    const std::uint64_t record = part_.first + sample_;
    throw_source_error({"penstock: tar: the member ", shown(key()), ".", column, " of ", part_.path,
                        at == 0 ? "" : ", at byte ", at == 0 ? "" : std::to_string(at),
                        at == 0 ? " " : ", ", is, ", ", why, ". This was record ", record, "."},
                       part_.path, at, record);
  }
  void read(std::uint64_t from, std::span<std::byte> into) const {
    const auto here = [&](std::uint64_t) { return std::optional{part_.first + sample_}; };
    renumbered("tar", here, [&] { files_.read_bytes(part_.first_byte + from, into, 1); });
  }

  const RecordFiles<Io>& files_;
  const Part& part_;
  std::uint64_t end_;
  std::uint64_t sample_{};
  std::uint64_t begin_{}; // of what is held of the file
  std::span<std::byte> held_{};
};

} // namespace penstock::detail

namespace penstock {

/// A source of the samples in tar archives, as WebDataset writes them. Made by tar(). Copies share
/// what open() has found. Io makes the system calls: see PosixIo.
template <detail::HasColumns Schema, class Io = PosixIo> class Tar {
  using Files = detail::TarFiles<Io>;
  using Part = typename Files::Part;
  using Holds = detail::TarHolds;
  using Fields = typename detail::columns_of<Schema>::type;
  using Its = detail::tar_columns<Fields>;
  using Reading = detail::TarReading<Its, Part, Io>;
  static_assert(Its::all_hold,
                "penstock: a column of tar() is Ragged<std::uint8_t>, Ragged<char> or "
                "Ragged<std::byte>, for a member's bytes, one number, for its text, or numbers "
                "with extents, for a .npy file.");
  static_assert(Its::any_member, "penstock: a schema of tar() has a column beside \"__key__\", "
                                 "whose name is the ending of members.");

 public:
  /// The type of its records.
  using schema = Schema;

  /// Takes archives and directories; touches none before open().
  explicit Tar(std::vector<std::string> paths, TarOptions options = {}, Io io = {})
      : closed_{"tar", std::move(paths), std::move(io)}, options_{options} {}

  /// Opens the archives and goes through each from header to header, many side by side; it reads no
  /// member. Keeps 16 bytes a column of a sample, 8 more and its key. Blocks. Throws SourceError
  /// with file and offset for what is no tar archive, is compressed, damaged or cut; for a link or
  /// another member that is no regular file and has a column's ending; for a column whose ending no
  /// member has, and a member larger than `largest`; what progress throws. Does nothing the second
  /// time.
  void open(const PrepareOptions& preparing = {}) {
    if (!files_) {
      files_ = detail::new_shared<Files>(closed_, preparing, options_, Its::names, Its::holds);
    }
  }

  /// Returns how many samples all archives have. After open().
  std::uint64_t size() const { return files().size(); }
  /// Returns the key of a sample: its members' name up to the first dot. After open(). Throws
  /// OptionError unless the number is less than size().
  std::string key(std::uint64_t number) const {
    return of_sample(number, [](const Part& part, std::uint64_t sample) {
      return std::string{part.samples.key(sample)};
    });
  }
  /// Returns its archive and its key, for errors. After open(); any thread. Throws as key() does.
  std::string name(std::uint64_t number) const {
    return of_sample(number, [](const Part& part, std::uint64_t sample) {
      return part.path + ": " + detail::shown(part.samples.key(sample));
    });
  }

  /// Puts the samples from into.index() on, which are numbered through all archives. After open().
  /// Blocks; any number of threads at once, each of which keeps 256 KiB of memory for it. Throws
  /// SourceError with file, offset and record, also for a sample that lacks a column, has two
  /// members for one, or text where a number should be; Error if the batch has no room.
  template <HostSpace Where> std::size_t read(Batch<Schema, Where> into) const {
    detail::check_range("tar", into.index(), into.size(), 0, size(), 0);
    std::size_t done = 0;
    files().each_part(into.index(), into.size(),
                      [&](const Part& part, std::uint64_t first, std::uint64_t count) {
                        Reading reading{files_->files(), part, first + count};
                        for (std::uint64_t i = 0; i != count; ++i) {
                          reading.look_at(first + i);
                          put(reading, into, done + i, static_cast<const Fields*>(nullptr));
                        }
                        done += count;
                      });
    return into.size();
  }
  /// Tells how many bytes the Ragged columns of each sample from number `first` on have. After
  /// open(); any thread. Throws SourceError if there are not so many.
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const
    requires detail::schema_traits<Schema>::ragged
  {
    const std::size_t samples = into.size() / detail::ragged_columns<Schema>;
    detail::check_range("tar", first, samples, 0, size(), 0);
    auto to = into.begin();
    files().each_part(first, samples,
                      [&](const Part& part, std::uint64_t number, std::uint64_t count) {
                        for (; count-- != 0; ++number) {
                          const auto places = part.samples[number];
                          for (std::size_t i = 0; i != places.size(); ++i) {
                            if (Its::holds[i] == Holds::bytes || Its::holds[i] == Holds::key) {
                              *to++ = Its::holds[i] == Holds::key ? part.samples.key(number).size()
                                                                  : places[i].bytes;
                            }
                          }
                        }
                      });
  }
  /// Returns how many bytes one column of any `records` samples has at most. After open().
  std::uint64_t value_bytes(std::uint64_t records) const { return files().sums().of(records); }
  /// Returns a number for where the columns of all samples lie. After open().
  std::uint64_t identity() const { return files().identity(); }
  /// Returns why each archive that is left out is, in order: see TarOptions. After open().
  const std::vector<SourceError>& left_out() const { return files().left_out(); }
  /// Appends how the archives are read, which were left out, how many members were passed over that
  /// are no regular files, and why an index could not be kept.
  [[gnu::cold]] void note(std::string& to) const { files().note(to); }

 private:
  const Files& files() const {
    if (!files_) {
      static_cast<void>(closed_.size()); // throws
    }
    return *files_;
  }

  template <class F> std::string of_sample(std::uint64_t number, F f) const {
    detail::check_number("tar", number, size());
    std::string text;
    files().each_part(number, 1, [&](const Part& part, std::uint64_t sample, std::uint64_t) {
      text = f(part, sample);
    });
    return text;
  }

  template <HostSpace Where, class... F>
  static void put(const Reading& reading, const Batch<Schema, Where>& into, std::size_t at,
                  const Columns<F...>*) {
    std::size_t number = 0;
    const auto put_one = [&]<class N, class T, std::size_t... E>(const NamedColumn<N, T, E...>*) {
      const auto column = detail::lookup<N, Schema, false>::view::make(into.view());
      constexpr Holds holds = detail::tar_holds<NamedColumn<N, T, E...>>;
      if constexpr (holds == Holds::number) {
        column[at] = reading.template number<T>(number);
      } else if constexpr (holds == Holds::array) {
        constexpr std::size_t extents[]{E...};
        reading.template array<T>(number, extents,
                                  std::as_writable_bytes(std::span{&column[at], 1}));
      } else if constexpr (holds == Holds::key) {
        const std::string_view key = reading.key();
        std::memcpy(column.put(at, key.size()), key.data(), key.size());
      } else if constexpr (holds == Holds::bytes) {
        reading.copy(number, reinterpret_cast<std::byte*>(column.put(at, reading.bytes(number))));
      }
      ++number;
    };
    (put_one(static_cast<const F*>(nullptr)), ...);
  }

  /// @cond
  detail::RecordFiles<Io> closed_;
  TarOptions options_;
  detail::Shared<const Files> files_;
  /// @endcond
};

/// Makes a source of the samples in a tar archive, in those of a pattern, see shards(), in those of
/// a directory whose names end in `.tar`, in the order of their names' bytes, or in a list of such:
/// `tar<Sample>("train-{0000..0127}.tar")`. Members that lie
/// next to one another and have one name up to the first dot are a sample, and a column has the
/// member whose ending, behind that dot, is the column's name: `Field<"jpg", Ragged<std::uint8_t>>`
/// its bytes, `Field<"cls", std::int32_t>` the number that its text says, `Field<"npy", float, 16>`
/// the values of a .npy file, of that type and with these extents. `"jpg;png"` takes either;
/// the case of letters does not matter. `Field<"__key__", Ragged<char>>` has the name up to the
/// dot. Other members are passed over. No file is opened or made by a member's name. The archives
/// must stay as they are while they are read; compressed ones are refused.
template <detail::HasColumns Schema, class Io = PosixIo>
Tar<Schema, Io> tar(detail::Paths paths, TarOptions options = {}, Io io = {}) {
  return Tar<Schema, Io>{shards(std::move(paths).take()), options, std::move(io)};
}
/// Returns the regular members of a tar archive, in its order. Reads their headers alone. Blocks;
/// any thread. Throws SourceError for what is no tar archive, is compressed, damaged or cut.
template <class Io = PosixIo> std::vector<TarMember> tar_members(std::string path, Io io = {}) {
  const File<Io> file{io, std::move(path)};
  std::vector<TarMember> members;
  detail::find_index(io, file, false)
      .index.each([&](std::string_view name, std::uint64_t offset, std::uint64_t bytes, char type) {
        if (type == '0') {
          members.push_back({std::string{name}, offset, bytes});
        }
      });
  return members;
}

} // namespace penstock
