// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Takes any bytes for a packed file, and with right checksums of its header and its index, which a
// fuzzer never finds; unpacks its chunks, also at a wrong place, of other sizes and by another
// codec. And takes any bytes for a chunk alone, with tables made of them.

#include "fuzz/target.hpp"

#include <penstock/data/packed.hpp>
#include <penstock/formats/detail/safetensors_header.hpp>
#include <penstock/formats/packed/detail/column_code.hpp>
#include <penstock/formats/packed/detail/packed_reader.hpp>
#include <penstock/formats/packed/detail/packed_tensors.hpp>
#include <penstock/formats/packed/detail/rans_encoder.hpp>
#include <penstock/host/unpack.hpp>
#include <penstock/io/crc32c.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

namespace penstock::tests {
namespace {

/// Bytes at a multiple of 16, and none behind them that a sanitizer would let pass.
class Exact {
 public:
  explicit Exact(std::size_t size)
      : at_{static_cast<std::byte*>(::operator new(size, alignment))}, size_{size} {
    std::memset(at_, 0x5A, size);
  }
  explicit Exact(std::span<const std::byte> bytes) : Exact{bytes.size()} {
    std::copy(bytes.begin(), bytes.end(), at_);
  }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  ~Exact() { ::operator delete(at_, alignment); }
  std::byte* data() const { return at_; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t alignment{16};
  std::byte* at_;
  std::size_t size_;
};

/// Unpacks a chunk into memory of just its size: all of it, and a part, which must be the same.
void unpack_twice(PackedChunk chunk) {
  const std::size_t width = chunk.code.value_bytes;
  const Exact all{chunk.values * width};
  chunk.first = 0;
  chunk.wanted = chunk.values;
  chunk.out = all.data();
  const bool whole = unpack(chunk);
  chunk.first = chunk.values / 3;
  chunk.wanted = chunk.values / 2;
  const Exact part{chunk.wanted * width};
  chunk.out = part.data();
  must(unpack(chunk) == whole);
  must(!whole || std::memcmp(part.data(), all.data() + chunk.first * width, part.size()) == 0);
}

void unpack_all(const detail::PackedFile& file, std::span<const std::byte> bytes) {
  std::uint64_t chunks = 0;
  for (const detail::PackedColumn& column : file.columns) {
    const detail::CodeTables tables{column.type, column.code};
    const std::uint64_t values = column.record_values() * file.records;
    must(values * column.type.bytes <= bytes.size() * 2731); // no more than the page says
    for (std::uint64_t i = 0; i != column.chunks.size() && chunks != 64; ++i, ++chunks) {
      const detail::PackedPlace& place = column.chunks[i];
      must(place.at >= 64 && place.at + place.bytes <= bytes.size());
      const Exact packed{bytes.subspan(place.at, place.bytes)};
      const std::uint64_t begin = i * column.chunk_values;
      must(begin < values);
      PackedChunk chunk{.packed = packed.data(),
                        .packed_bytes = place.bytes,
                        .codec = place.codec,
                        .code = tables.code(),
                        .values = static_cast<std::uint32_t>(
                            std::min<std::uint64_t>(column.chunk_values, values - begin))};
      unpack_twice(chunk);
      chunk.codec = column.code.codec; // also those that are raw
      unpack_twice(chunk);
    }
  }
}

void as_packed_file(std::span<const std::byte> bytes) {
  as_file(bytes, bytes.size(), [&](const detail::HeaderFile& file) {
    unpack_all(detail::PackedFileReader{file}.read(), bytes);
  });
}

/// Takes the first bytes for a chunk's numbers and tables, and the others for what it is packed in.
void as_chunk(std::span<const std::byte> input) {
  constexpr std::size_t numbers = 8;
  if (input.size() < numbers) {
    return;
  }
  const auto number = [&](std::size_t i) { return std::to_integer<std::uint32_t>(input[i]); };
  constexpr std::uint32_t classes = 3;
  std::vector<std::uint32_t> table(classes * detail::rans_entries);
  std::vector<std::uint32_t> symbols(detail::rans_symbols);
  std::uint32_t state = number(4) | number(5) << 8;
  const auto fill = [&](std::vector<std::uint32_t>& entries, std::uint32_t mask) {
    for (std::uint32_t& entry : entries) { // any: a device may be given a damaged table
      state = state * 1664525 + 1013904223;
      entry = number(6) % 2 == 0 ? state : state & mask;
    }
  };
  fill(table, 0xFFFFF);
  fill(symbols, 0x17000FF); // ranks that there may be, few bits behind them, and two classes
  const std::vector<std::uint32_t> ranked(1 + number(7), 0x12345678);
  const Exact packed{input.subspan(numbers)};
  const std::uint32_t width = 1U << number(0) % 4;
  unpack_twice({.packed = packed.data(),
                .packed_bytes = static_cast<std::uint32_t>(packed.size()),
                .codec = PackedCodec{static_cast<std::uint8_t>(
                    number(1) % (static_cast<unsigned>(detail::packed_last_codec) + 2))},
                .code = {.value_bytes = width,
                         .turned = number(6) % 4 > 1,
                         .table = table.data(),
                         .ranked = ranked.data(),
                         .ranks = static_cast<std::uint32_t>(ranked.size()),
                         .symbols = symbols.data(),
                         .classes = classes},
                .values = (number(2) | number(3) << 8) % (detail::packed_chunk_bytes / width) + 1});
}

/// Takes the bytes up to the first line's end for the plain header of a packed safetensors file,
/// and the others for its index, with right checksums.
void as_packed_tensors(std::span<const std::byte> input) {
  const auto line = std::find(input.begin(), input.end(), std::byte{'\n'});
  const auto text = input.first(static_cast<std::size_t>(line - input.begin()));
  const auto index = input.subspan(std::min(text.size() + 1, input.size()));
  std::vector<std::byte> bytes(detail::packed_header_bytes);
  bytes.insert(bytes.end(), text.begin(), text.end()); // in which chunks lie
  bytes.resize((bytes.size() + 15) / 16 * 16);
  const std::uint64_t numbers[]{1, bytes.size(), index.size()}; // records, and where the index lies
  bytes.insert(bytes.end(), index.begin(), index.end());
  std::memcpy(bytes.data(), detail::packed_magic.data(), detail::packed_magic.size());
  std::memcpy(bytes.data() + 8, &detail::packed_version, 4);
  bytes[12] = static_cast<std::byte>(1 + text.size() % 2); // columns
  std::memcpy(bytes.data() + 16, numbers, sizeof numbers);
  const std::uint32_t index_crc = crc32c(index);
  std::memcpy(bytes.data() + 56, &index_crc, sizeof index_crc);
  const std::uint32_t crc = crc32c(std::span{bytes}.first(60));
  std::memcpy(bytes.data() + 60, &crc, sizeof crc);
  const std::string size = std::to_string(8 + text.size() + 1000);
  detail::SafetensorsHeader outer;
  outer.metadata.emplace(detail::packed_tensors_name,
                         size + ' ' +
                             std::string{reinterpret_cast<const char*>(text.data()), text.size()});
  outer.tensors.push_back({.name = std::string{detail::packed_tensors_name}, .shape = {}});
  as_file(bytes, bytes.size(), [&](const detail::HeaderFile& file) {
    for (const detail::PackedFile& its : detail::packed_tensors_in(outer, file).columns) {
      unpack_all(its, bytes);
    }
  });
}

} // namespace
} // namespace penstock::tests

PENSTOCK_FUZZ_TARGET(fuzz_packed) {
  using namespace penstock;
  as_packed_file(input);
  as_chunk(input);
  as_packed_tensors(input);
  if (input.size() < detail::packed_header_bytes) {
    return;
  }
  std::vector<std::byte> right{input.begin(), input.end()};
  const auto put = [&](std::size_t at, auto number) {
    std::memcpy(right.data() + at, &number, sizeof number);
  };
  std::memcpy(right.data(), detail::packed_magic.data(), detail::packed_magic.size());
  put(8, detail::packed_version);
  std::uint64_t index = detail::number_at<std::uint64_t>(right.data() + 24, false);
  if (index > right.size()) {
    index = right.size() / 32 * 16;
    put(24, index);
  }
  put(32, right.size() - index);
  put(56, crc32c(std::span{right}.subspan(index)));
  put(60, crc32c(std::span{right}.first(60)));
  as_packed_file(right);
}
