// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include <penstock/cuda.hpp>
#include <penstock/cuda/unpack.cuh>
#include <penstock/device/device_array.hpp>
#include <penstock/host/unpack.hpp>
#include <penstock/io/crc32c.hpp>

#include "support/catch.hpp"
#include "support/packed_values.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

// Damaged chunks on a device: each must come out as on the host, which decodes the same bytes one
// after the other, and none may touch what lies around its place. A wrong one must be refused, or
// have packed bytes whose checksum is wrong, which the host checks before it copies them.

using namespace penstock;
using penstock::tests::Bytes;
using penstock::tests::PackedInMemory;

namespace {

enum class Damage : std::uint8_t {
  none,
  flipped,
  cut,
  random,
  swapped, // another chunk of the column
  foreign, // another column's chunk
  tables,  // another column's tables
  entries, // a table of any numbers
  numbers, // of values, of bytes, a width, a codec
};
constexpr std::size_t damages = 9;

/// Columns of all codecs, and what their chunks are made of.
class Columns {
 public:
  Columns() {
    for (const auto& values : tests::some_values(100'000)) {
      columns_.push_back({tests::packed_in_memory(values), values.bytes});
    }
  }

  std::size_t size() const { return columns_.size(); }
  const PackedInMemory& packed(std::size_t column) const { return columns_[column].first; }
  /// Returns what a chunk's values are.
  std::span<const std::byte> values(std::size_t column, std::size_t chunk) const {
    const std::span all{columns_[column].second};
    const std::size_t at = chunk * PackedInMemory::chunk_bytes;
    return all.subspan(at, std::min(PackedInMemory::chunk_bytes, all.size() - at));
  }

 private:
  std::vector<std::pair<PackedInMemory, Bytes>> columns_;
};

/// Tables as they lie on one side, the host or the device: of each column, and one of any numbers.
struct Tables {
  std::vector<PackedCode> codes;
  const std::uint32_t* any;
};

/// A chunk that was damaged: where its bytes lie among all, its numbers, and what it was.
struct Case {
  PackedChunk chunk;
  std::size_t at;
  std::size_t tables;
  std::size_t column, number;
  Damage damage;
  bool crc_fits;
};

constexpr std::size_t guard = 64; // bytes around each chunk's values
constexpr std::size_t place_bytes = PackedInMemory::chunk_bytes + 2 * guard;
constexpr std::byte untouched{0xA5};

class Cases {
 public:
  Cases(const Columns& columns, std::uint64_t seed, std::size_t count) : random_{seed} {
    for (std::size_t i = 0; i != count; ++i) {
      add(columns, Damage{static_cast<std::uint8_t>(i % damages)});
    }
  }

  const std::vector<Case>& all() const { return all_; }
  const std::vector<std::uint64_t>& packed() const { return packed_; }
  /// Returns the chunks as they are where bytes, tables and places lie.
  std::vector<PackedChunk> chunks(const void* packed, const Tables& tables, std::byte* out) const {
    std::vector<PackedChunk> made;
    for (const Case& its : all_) {
      PackedChunk chunk = its.chunk;
      chunk.packed = static_cast<const std::byte*>(packed) + its.at;
      const PackedCode& code = tables.codes[its.tables];
      chunk.code.table = its.damage == Damage::entries ? tables.any : code.table;
      chunk.code.symbols = code.symbols;
      chunk.code.ranked = code.ranked;
      chunk.out = out + made.size() * place_bytes + guard;
      made.push_back(chunk);
    }
    return made;
  }

 private:
  void add(const Columns& columns, Damage damage) {
    const auto some = [&](std::size_t below) {
      return static_cast<std::size_t>(random_() % below);
    };
    const std::size_t column = some(columns.size());
    const std::size_t number = some(columns.packed(column).size());
    const PackedChunk right = columns.packed(column).chunk(number, nullptr);
    PackedChunk chunk = right;
    const auto take = [&](std::size_t from) {
      const PackedInMemory& packed = columns.packed(from);
      const PackedChunk other = packed.chunk(some(packed.size()), nullptr);
      chunk.packed = other.packed;
      chunk.packed_bytes = other.packed_bytes;
    };
    std::size_t tables = column;
    if (damage == Damage::swapped) {
      take(column);
    } else if (damage == Damage::foreign) {
      take(some(columns.size()));
    } else if (damage == Damage::tables) {
      tables = some(columns.size());
      const PackedCode code = columns.packed(tables).tables().code();
      chunk.code.ranks = code.ranks;
      chunk.code.classes = code.classes;
    } else if (damage == Damage::cut) {
      chunk.packed_bytes = static_cast<std::uint32_t>(some(chunk.packed_bytes));
    } else if (damage == Damage::numbers) {
      const auto width = std::uint32_t{1} << some(4);
      chunk.code.value_bytes = some(8) == 0 ? static_cast<std::uint32_t>(random_()) : width;
      chunk.codec = static_cast<PackedCodec>(some(7));
      chunk.values = static_cast<std::uint32_t>(some(some(2) == 0 ? 1 << 20 : 9000));
      chunk.first = static_cast<std::uint32_t>(some(9000));
      chunk.wanted = static_cast<std::uint32_t>(some(PackedInMemory::chunk_bytes / width));
      chunk.code.ranks = some(2) == 0 ? chunk.code.ranks : chunk.code.ranks / 2;
    }
    Bytes bytes(chunk.packed, chunk.packed + chunk.packed_bytes);
    for (std::size_t flips = damage == Damage::flipped ? 1 + some(8) : 0; flips != 0; --flips) {
      bytes[some(bytes.size())] ^= std::byte(1U << some(8));
    }
    for (std::byte& byte : std::span{bytes}.first(damage == Damage::random ? bytes.size() : 0)) {
      byte = static_cast<std::byte>(random_());
    }
    const bool fits = crc32c(bytes) == crc32c({right.packed, right.packed_bytes});
    all_.push_back({chunk, 8 * packed_.size(), tables, column, number, damage, fits});
    packed_.resize(packed_.size() + (bytes.size() + 15) / 16 * 2);
    std::copy(bytes.begin(), bytes.end(),
              reinterpret_cast<std::byte*>(packed_.data()) + all_.back().at);
  }

  std::mt19937_64 random_;
  std::vector<std::uint64_t> packed_; // chunks from multiples of 16 on
  std::vector<Case> all_;
};

/// What became of some cases: all places, and whether each chunk was whole.
struct Outcome {
  Bytes places;
  std::vector<std::uint8_t> whole;
};

const std::vector<std::uint32_t>& any_numbers() {
  static const std::vector<std::uint32_t> numbers = [] {
    std::mt19937 random{5};
    std::vector<std::uint32_t> made(std::size_t{detail::rans_entries} *
                                    detail::packed_most_classes);
    std::generate(made.begin(), made.end(), [&] { return static_cast<std::uint32_t>(random()); });
    return made;
  }();
  return numbers;
}

/// Unpacks on the host, on several threads.
Outcome on_host(const Columns& columns, const Cases& cases) {
  Tables tables{{}, any_numbers().data()};
  for (std::size_t i = 0; i != columns.size(); ++i) {
    tables.codes.push_back(columns.packed(i).tables().code());
  }
  // From a multiple of 16 on, as on the device.
  std::vector<detail::SixteenValues<std::uint64_t>> packed(cases.packed().size() / 16 + 1);
  std::memcpy(packed.data(), cases.packed().data(), 8 * cases.packed().size());
  Outcome got{Bytes(cases.all().size() * place_bytes + 16, untouched),
              std::vector<std::uint8_t>(cases.all().size())};
  const auto chunks = cases.chunks(packed.data(), tables, got.places.data());
  const std::size_t threads = std::max(std::thread::hardware_concurrency(), 1U);
  std::vector<std::thread> all;
  for (std::size_t thread = 0; thread != threads; ++thread) {
    all.emplace_back([&, thread] {
      for (std::size_t i = thread; i < chunks.size(); i += threads) {
        got.whole[i] = unpack(chunks[i]) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : all) {
    thread.join();
  }
  return got;
}

template <class T> DeviceArray<T, CudaDevice> there(CudaDevice& gpu, const std::vector<T>& values) {
  DeviceArray<T, CudaDevice> array{gpu, values.size()};
  detail::cuda_check(
      cudaMemcpy(array.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
      "cudaMemcpy");
  return array;
}

/// Unpacks on a GPU.
Outcome on_gpu(CudaDevice& gpu, const Columns& columns, const Cases& cases) {
  std::vector<DeviceArray<std::uint32_t, CudaDevice>> arrays;
  const auto table = [&](const std::vector<std::uint32_t>& numbers) -> const std::uint32_t* {
    arrays.push_back(there(gpu, numbers));
    return numbers.empty() ? nullptr : arrays.back().data();
  };
  Tables tables{{}, table(any_numbers())};
  for (std::size_t i = 0; i != columns.size(); ++i) {
    const detail::CodeTables& of_column = columns.packed(i).tables();
    tables.codes.push_back(of_column.code(table(of_column.numbers())));
  }
  const auto packed = there(gpu, cases.packed());
  const auto places = there(gpu, Bytes(cases.all().size() * place_bytes + 16, untouched));
  const auto chunks = there(gpu, cases.chunks(packed.data(), tables, places.data()));
  const auto whole = there(gpu, std::vector<std::uint8_t>(cases.all().size(), 7));
  const auto stream = gpu.stream();
  unpack(stream, chunks.data(), cases.all().size(), whole.data());
  return {places.read(stream), whole.read(stream)};
}

/// Returns what is wrong with an outcome; nothing if all is as it must be.
std::string flaw(const Columns& columns, const Cases& cases, const Outcome& got) {
  for (std::size_t i = 0; i != cases.all().size(); ++i) {
    const Case& its = cases.all()[i];
    const auto place = std::span{got.places}.subspan(i * place_bytes, place_bytes);
    const auto values = columns.values(its.column, its.number);
    const std::string name = "case " + std::to_string(i) + ", damage " +
                             std::to_string(static_cast<int>(its.damage)) + ", column " +
                             std::to_string(its.column);
    const auto is_untouched = [](std::byte byte) { return byte == untouched; };
    const std::size_t most = std::min<std::size_t>(
        std::size_t{its.chunk.wanted} * its.chunk.code.value_bytes, PackedInMemory::chunk_bytes);
    if (!std::all_of(place.begin(), place.begin() + guard, is_untouched) ||
        !std::all_of(place.begin() + guard + static_cast<std::ptrdiff_t>(most), place.end(),
                     is_untouched)) {
      return name + ": wrote outside";
    }
    const bool same = std::equal(values.begin(), values.end(), place.begin() + guard);
    if (its.damage == Damage::none && (got.whole[i] != 1 || !same)) {
      return name + ": refused, or wrong";
    }
    const bool of_bytes = its.damage != Damage::tables && its.damage != Damage::entries &&
                          its.damage != Damage::numbers; // else the index's checksum is wrong
    if (of_bytes && got.whole[i] == 1 && !same && its.crc_fits) {
      return name + ": wrong without a word";
    }
  }
  return {};
}

void check(std::size_t count, std::uint64_t seed) {
  CudaDevice gpu;
  const Columns columns;
  constexpr std::size_t at_once = 5000;
  for (std::size_t done = 0; done != count; done += std::min(at_once, count - done)) {
    INFO("from " << done << " of seed " << seed);
    const Cases cases{columns, seed + done, std::min(at_once, count - done)};
    const Outcome host = on_host(columns, cases);
    const Outcome device = on_gpu(gpu, columns, cases);
    CHECK(device.whole == host.whole);
    CHECK((device.places == host.places)); // not to be printed
    CHECK(flaw(columns, cases, device) == "");
  }
}

} // namespace

TEST_CASE("some damaged chunks come out of a GPU as of the host, or are refused") {
  check(900, 1);
}

TEST_CASE("100,000 damaged chunks come out of a GPU as of the host, or are refused", "[large]") {
  check(100'000, 2);
}
