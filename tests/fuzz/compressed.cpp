// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Reads any bytes as a compressed file of lines and of records, and as one compressed record, by
// each codec. What comes out is bounded by what was asked for.

#include "fuzz/target.hpp"

#include <penstock/error.hpp>
#include <penstock/formats/codec.hpp>
#include <penstock/formats/decompressed.hpp>
#include <penstock/formats/detail/compressed_file.hpp>
#include <penstock/formats/detail/stream_records.hpp>
#include <penstock/formats/gzip.hpp>
#include <penstock/formats/lz4.hpp>
#include <penstock/formats/zstd.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <numeric>
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

void check_part(const detail::StreamPart& part, std::size_t record_bytes) {
  std::size_t bytes = part.records * record_bytes;
  if (record_bytes == 0) {
    must(part.lengths.size() == part.records);
    bytes = std::accumulate(part.lengths.begin(), part.lengths.end(), std::size_t{0});
    for (const std::uint32_t length : part.lengths) {
      must(length <= longest);
    }
  }
  must(part.failure || bytes <= part.bytes.size());
}

template <Codec C> void as_stream(std::span<const std::byte> input, const C& codec) {
  for (const std::size_t record_bytes : {std::size_t{0}, std::size_t{3}}) {
    detail::StreamRecords records{detail::CompressedStream{Bytes{input}, codec}, record_bytes,
                                  longest};
    for (std::size_t parts = 0; parts != 20; ++parts) { // a bomb has more
      const detail::StreamPart part = records.next();
      check_part(part, record_bytes);
      if (part.failure) {
        try {
          std::rethrow_exception(part.failure);
        } catch (const SourceError& e) {
          must(e.file() == "FILE" && e.offset() <= input.size());
        }
      }
      if (part.last || part.failure) {
        break;
      }
      must(part.records != 0);
    }
  }
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

} // namespace
} // namespace penstock::tests

PENSTOCK_FUZZ_TARGET(fuzz_compressed) {
  const ZstdOptions small{.window_log = 20};
  as_stream(input, Zstd{small});
  as_stream(input, Lz4{});
  as_stream(input, Gzip{});
  as_record(input, Zstd{small});
  as_record(input, Lz4{});
  as_record(input, Gzip{});
  as_record(input, Lz4Block{});
  as_record(input, Lz4Block{{.sized = true}});
}
