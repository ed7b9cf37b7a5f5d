// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Reads any bytes as a compressed file of lines, values, TFRecords and samples of a tar archive,
// as one compressed record, and
// as a file of many frames, by each codec. What comes out is bounded by what was asked for.

#include "fuzz/target.hpp"

#include <penstock/data/schema.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/codec.hpp>
#include <penstock/formats/decompressed.hpp>
#include <penstock/formats/detail/compressed_file.hpp>
#include <penstock/formats/detail/stream_part.hpp>
#include <penstock/formats/detail/stream_records.hpp>
#include <penstock/formats/detail/stream_samples.hpp>
#include <penstock/formats/frames.hpp>
#include <penstock/formats/gzip.hpp>
#include <penstock/formats/lz4.hpp>
#include <penstock/formats/zstd.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock::tests {
namespace {

constexpr std::size_t longest = 1000;
constexpr std::size_t most = 100'000;

class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_{bytes} {}

  const std::string& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return bytes_.size(); }
  void read(std::uint64_t at, std::span<std::byte> into) const {
    must(at <= bytes_.size() && into.size() <= bytes_.size() - at);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at), into.size(), into.begin());
  }

 private:
  std::string path_ = "FILE";
  std::span<const std::byte> bytes_;
};

struct Sample : Columns<Field<"txt", Ragged<char>>, Field<"n", int>> {};

// Takes parts of an input, whose records all end within their bytes.
template <class Records> void as_parts(Records&& records, std::size_t bytes, std::size_t each) {
  detail::StreamPart part;
  for (std::size_t parts = 0; parts != 20 && !part.last; ++parts) { // a bomb has more
    part.clear();
    bool failed = false;
    try {
      records.next(part);
    } catch (const SourceError& e) {
      failed = true;
      must(e.file() == "FILE" && e.offset() <= bytes);
    }
    must(part.records * each <= part.bytes.size());
    for (const detail::StreamPart::Place& place : part.places) {
      must(place.bytes <= longest && place.begin + place.bytes <= part.bytes.size());
    }
    if (failed) {
      return;
    }
    must(part.records != 0 || part.last);
  }
}

template <Codec C> void as_stream(std::span<const std::byte> input, const C& codec) {
  const detail::CompressedStream stream{Bytes{input}, codec};
  as_parts(detail::StreamLines{stream, longest}, input.size(), 0);
  as_parts(detail::StreamValues{stream, 3}, input.size(), 3);
  as_parts(detail::StreamTfRecords{stream, longest}, input.size(), 0);
  using Samples =
      detail::StreamSamples<detail::columns_of<Sample>::type, detail::CompressedStream<C, Bytes>>;
  as_parts(Samples{stream, longest}, input.size(), 0);
}
template <Codec C> void as_record(std::span<const std::byte> input, const C& codec) {
  std::vector<std::byte> room;
  detail::FrameDecompresser<C> decompress{codec, {.most = most}};
  try {
    decompress(input, [&](std::size_t size) {
      must(size <= most && room.empty());
      room.resize(size);
      return std::span{room};
    });
  } catch (const Error& e) {
    must(std::string{e.what()}.starts_with("penstock: decompressed: "));
  }
}

// Finds frames, and decompresses each by itself.
template <FramedCodec C> void as_frames(std::span<const std::byte> input, C codec) {
  const Bytes bytes{input};
  FrameIndex index{most};
  const auto read = [&](std::uint64_t at, std::span<std::byte> into) { bytes.read(at, into); };
  try {
    codec.index(FrameFile{bytes.path(), C::name, bytes.size(), read}, index);
  } catch (const SourceError& e) {
    must(e.file() == "FILE" && e.offset() <= input.size());
  }
  std::uint64_t at = 0;
  std::size_t frames = 0;
  for (const Frame& frame : index.frames()) {
    must(frame.at == at && frame.bytes != 0 && frame.bytes <= most);
    must(frame.begin <= input.size() && frame.packed <= input.size() - frame.begin);
    at += frame.bytes;
    if (++frames < 20) {
      std::vector<std::byte> room(frame.bytes);
      const Decompressed got = codec.whole(frame, input.subspan(frame.begin, frame.packed), room);
      must(got.used <= frame.packed && got.made <= frame.bytes);
    }
  }
  must(at == index.bytes());
}

} // namespace
} // namespace penstock::tests

PENSTOCK_FUZZ_TARGET(fuzz_compressed) {
  const ZstdOptions small{.window_log = 20};
  as_stream(input, Zstd{small});
  as_stream(input, Lz4{});
  as_stream(input, Gzip{});
  as_frames(input, Zstd{small});
  as_frames(input, Lz4{});
  as_frames(input, Gzip{});
  as_record(input, Zstd{small});
  as_record(input, Lz4{});
  as_record(input, Gzip{});
  as_record(input, Lz4Block{});
  as_record(input, Lz4Block{{.sized = true}});
}
