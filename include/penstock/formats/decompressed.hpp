// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/column.hpp>
#include <penstock/data/row.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/codec.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock {

/// A record of bytes, in one column of this name.
template <Name name> struct Bytes : Columns<Field<name, Ragged<std::byte>>> {};

/// Options of decompressed().
struct DecompressedOptions {
  /// The most bytes that may come out of a record. A frame that does not say its size is refused
  /// without it. One that does may have 64 MiB if this is 0.
  std::uint64_t most = 0;
};

namespace detail {

/// Decompresses single frames. One thread at a time.
template <Codec C> class FrameDecompresser {
 public:
  FrameDecompresser(C codec, DecompressedOptions options)
      : codec_{std::move(codec)}, options_{options} {}

  /// Decompresses a frame into `place(size)`, which returns room for so many bytes, and may throw.
  /// Calls it once, when the size is known and allowed. Throws Error if the frame is not whole, is
  /// followed by anything, or has another size than it claims.
  template <class Place> void operator()(std::span<const std::byte> frame, Place place) {
    codec_.restart();
    const std::optional<std::uint64_t> claimed = codec_.claimed(frame);
    if (!claimed && options_.most == 0) {
      throw_error<Error>({"penstock: decompressed: a record is a ", C::name,
                          " frame that does not say how many bytes it holds: set .most to the most "
                          "that one may hold, or compress it with its size."});
    }
    constexpr std::uint64_t usual_most = std::uint64_t{64} << 20;
    const std::uint64_t most = options_.most == 0 ? usual_most : options_.most;
    if (claimed && *claimed > most) {
      throw_error<Error>({"penstock: decompressed: a record is a ", C::name,
                          " frame that says it holds ", *claimed, " bytes, and .most allows ", most,
                          ": set .most if that is right. If it is not, the record is damaged or "
                          "was cut: copy or download the file again."});
    }
    if (claimed) {
      const std::size_t made =
          decompress(frame, place(static_cast<std::size_t>(*claimed)), *claimed);
      if (made != *claimed) {
        throw_error<Error>({"penstock: decompressed: a record is a ", C::name,
                            " frame that says it "
                            "holds ",
                            *claimed, " bytes, and ", made,
                            " came out: it is damaged. Copy or download it again."});
      }
      return;
    }
    const std::size_t made = decompress_unknown(frame, static_cast<std::size_t>(most));
    const std::span<std::byte> into = place(made);
    std::copy_n(room_.begin(), made, into.begin());
  }

 private:
  // Returns how many bytes came out. Throws if the frame does not end with its bytes, or if more
  // would come than `into` has room for, which is where `most` bytes end.
  std::size_t decompress(std::span<const std::byte> frame, std::span<std::byte> into,
                         std::uint64_t most) {
    const std::size_t size = into.size();
    std::byte beyond{}; // the end may lie behind the last byte that has room
    for (bool full = false;;) {
      const Decompressed got = codec_.feed(frame, full ? std::span{&beyond, 1} : into);
      if (got.state == Decompressed::State::damaged) {
        throw_error<Error>({"penstock: decompressed: a record is no whole ", C::name,
                            " frame: it has ", got.why, "."});
      }
      if (full && got.made != 0) {
        throw_error<Error>({"penstock: decompressed: more than ", most, " bytes come out of a ",
                            C::name,
                            " frame, which says that it holds fewer or is larger than "
                            ".most: set .most, or copy the file again."});
      }
      frame = frame.subspan(got.used);
      into = full ? into : into.subspan(got.made);
      if (got.state == Decompressed::State::end) {
        check_end(frame.size());
        return size - into.size();
      }
      if (got.used == 0 && got.made == 0 && (full || !into.empty())) {
        throw_error<Error>({"penstock: decompressed: a record ends in the middle of its ", C::name,
                            " frame: it was cut. Copy or download the file again."});
      }
      full = into.empty();
    }
  }
  // Into room_, which grows: a frame of few bytes need not take memory for the most.
  std::size_t decompress_unknown(std::span<const std::byte> frame, std::size_t most) {
    if constexpr (!C::streams) {
      room_.resize(most);
      return decompress(frame, room_, most);
    } else {
      constexpr std::size_t first = std::size_t{64} << 10;
      room_.resize(std::max(room_.size(), std::min(first, most)));
      std::size_t made = 0;
      for (;;) {
        const Decompressed got = codec_.feed(frame, std::span{room_}.subspan(made));
        if (got.state == Decompressed::State::damaged) {
          throw_error<Error>({"penstock: decompressed: a record is no whole ", C::name,
                              " frame: it has ", got.why, "."});
        }
        frame = frame.subspan(got.used);
        made += got.made;
        if (got.state == Decompressed::State::end) {
          check_end(frame.size());
          return made;
        }
        if (made == room_.size() && made < most) {
          room_.resize(made > most / 2 ? most : made * 2);
        } else if (made == most || (got.used == 0 && got.made == 0)) {
          return made + decompress(frame, std::span{room_}.subspan(made), most);
        }
      }
    }
  }
  static void check_end(std::size_t left) {
    if (left != 0) {
      throw_error<Error>({"penstock: decompressed: a record has ", left, " bytes behind its ",
                          C::name,
                          " frame: a record is one frame, so split it, or cut off what is no part "
                          "of it."});
    }
  }

  C codec_;
  DecompressedOptions options_;
  std::vector<std::byte> room_;
};

} // namespace detail

/// What decompressed() returns: a callable for a Decoder, one object a worker.
template <Name name, Codec C, class From, class To> class DecompressedRecords {
  static constexpr bool to_columns = detail::HasColumns<To>;
  using Into = typename std::conditional_t<to_columns, std::type_identity<Row<To>>,
                                           std::type_identity<To&>>::type;

 public:
  /// For decompressed().
  DecompressedRecords(C codec, DecompressedOptions options)
      : decompress_{std::move(codec), options} {}

  /// Decompresses one record. Throws Error.
  void operator()(Row<const From> in, Into out) {
    const auto compressed = get<name>(in);
    decompress_(std::as_bytes(std::span{compressed.data(), compressed.size()}),
                [&](std::size_t size) {
                  if constexpr (to_columns) {
                    auto* const at = put<name>(out, size);
                    static_assert(sizeof *at == 1,
                                  "penstock: decompressed: the column of what comes out is of "
                                  "single bytes: ps::Ragged<std::byte>, char or similar.");
                    return std::as_writable_bytes(std::span{at, size});
                  } else {
                    if (size != sizeof(To)) {
                      detail::throw_error<Error>({"penstock: decompressed: a record holds ", size,
                                                  " bytes, and one of these records has ",
                                                  sizeof(To), ": check the record's type."});
                    }
                    return std::as_writable_bytes(std::span{&out, 1});
                  }
                });
  }

 private:
  detail::FrameDecompresser<C> decompress_;
};

/// Makes a callable for a Decoder whose records are compressed, each as one frame in the column
/// `name`: `ps::Decoder{ps::decompressed<"bytes", ps::TfRecord>(ps::Zstd{})}`. `From` has a Ragged
/// column of bytes of this name. `To` has one too, and no other column, or is the type of a record
/// of fixed size. A size that a frame claims is capped before anything is done with it, and
/// compared afterwards. A frame that is damaged or cut, that anything follows, or that holds
/// another number of bytes than `To` has, throws Error: it is the record's failure, see OnError.
template <Name name, class From = Bytes<name>, class To = Bytes<name>, Codec C>
DecompressedRecords<name, C, From, To> decompressed(C codec, DecompressedOptions options = {}) {
  return {std::move(codec), options};
}

} // namespace penstock
