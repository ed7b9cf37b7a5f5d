// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/packed_values.hpp"

#include <penstock/host/unpack.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace ps = penstock;
using ps::tests::Bytes;
using ps::tests::packed_in_memory;
using ps::tests::PackedInMemory;

namespace {

/// Unpacks all chunks; empty if one is not whole.
Bytes unpacked(const PackedInMemory& packed, std::size_t bytes) {
  Bytes out(bytes);
  for (std::size_t i = 0; i != packed.size(); ++i) {
    if (!ps::unpack(packed.chunk(i, out.data() + i * PackedInMemory::chunk_bytes))) {
      return {};
    }
  }
  return out;
}

/// A chunk with bytes of its own, in memory of just their size, so that a sanitizer sees any other
/// access.
struct Copied {
  explicit Copied(const ps::PackedChunk& of)
      : bytes{static_cast<std::byte*>(::operator new(of.packed_bytes, std::align_val_t{16}))},
        chunk{of} {
    std::memcpy(bytes.get(), of.packed, of.packed_bytes);
    chunk.packed = bytes.get();
  }
  struct Free {
    void operator()(std::byte* at) const { ::operator delete(at, std::align_val_t{16}); }
  };
  std::unique_ptr<std::byte[], Free> bytes;
  ps::PackedChunk chunk;
};

} // namespace

TEST_CASE("each codec gives back what it was given, and pays for its kind of values") {
  for (const std::size_t count : {100'000U, 8192U, 513U, 512U, 1U}) {
    for (const auto& values : ps::tests::some_values(count)) {
      INFO(values.name << ", " << count);
      const PackedInMemory packed = packed_in_memory(values);
      CHECK(unpacked(packed, values.bytes.size()) == values.bytes);
      CHECK(packed.packed_bytes() <= values.bytes.size());
      if (count == 100'000) {
        CHECK(packed.chunk(0, nullptr).codec == values.pays);
        CHECK((packed.packed_bytes() < values.bytes.size()) ==
              (values.pays != ps::PackedCodec::raw));
      }
    }
  }
}

TEST_CASE("bits have any width from none to all but one, and any base") {
  for (unsigned width = 0; width != 64; ++width) {
    std::mt19937_64 random{width};
    std::vector<std::uint64_t> values(1000);
    const std::uint64_t base = random();
    for (std::uint64_t& value : values) {
      value = base + (random() & ((std::uint64_t{1} << width) - 1)); // goes on from 0
    }
    const Bytes bytes = ps::tests::bytes_of(values);
    const PackedInMemory packed{{'u', 8}, bytes, {ps::PackedCodec::bits}};
    INFO(width);
    CHECK(unpacked(packed, bytes.size()) == bytes);
  }
}

TEST_CASE("any part of a chunk is unpacked, to any place, and nothing beside it") {
  std::mt19937_64 random{3};
  for (const auto& values : ps::tests::some_values(5000)) {
    const PackedInMemory packed = packed_in_memory(values);
    for (int i = 0; i != 20; ++i) {
      ps::PackedChunk chunk = packed.chunk(0, nullptr);
      const std::size_t width = values.type.bytes;
      chunk.first = static_cast<std::uint32_t>(random() % chunk.values);
      chunk.wanted = static_cast<std::uint32_t>(random() % (chunk.values - chunk.first + 1));
      const std::size_t before = width * (random() % 40);
      Bytes out(before + chunk.wanted * width + 64, std::byte{0xA5});
      Bytes expected = out;
      if (chunk.wanted != 0) {
        std::memcpy(expected.data() + before, values.bytes.data() + chunk.first * width,
                    chunk.wanted * width);
      }
      chunk.out = out.data() + before;
      INFO(values.name);
      CHECK(ps::unpack(chunk));
      CHECK(out == expected);
    }
  }
}

TEST_CASE("a damaged chunk is refused or gives other values, and touches nothing outside") {
  std::mt19937_64 random{5};
  for (const auto& values : ps::tests::some_values(3000)) {
    const PackedInMemory packed = packed_in_memory(values);
    std::size_t refused = 0;
    for (int i = 0; i != 200; ++i) {
      Copied copied{packed.chunk(0, nullptr)};
      Bytes out(copied.chunk.values * values.type.bytes);
      copied.chunk.out = out.data();
      for (std::uint64_t flips = random() % 4; flips != ~std::uint64_t{0}; --flips) {
        copied.bytes[random() % copied.chunk.packed_bytes] ^= std::byte(1U << random() % 8);
      }
      if (i % 2 == 0) { // cut, too
        copied.chunk.packed_bytes =
            static_cast<std::uint32_t>(random() % copied.chunk.packed_bytes);
        copied = Copied{copied.chunk};
      }
      refused += ps::unpack(copied.chunk) ? 0U : 1U;
    }
    INFO(values.name);
    CHECK(refused >= 100); // each cut one
  }
}

TEST_CASE("a stream of bytes sees most flipped bits, and each word too many or missing") {
  const auto values = ps::tests::some_values(100'000)[1];
  const PackedInMemory packed = packed_in_memory(values);
  const ps::PackedChunk whole = packed.chunk(0, nullptr);
  REQUIRE(whole.codec == ps::PackedCodec::bytes);
  Bytes out(PackedInMemory::chunk_bytes);
  std::size_t flips = 0;
  std::size_t seen = 0;
  for (std::uint32_t bit = 0; bit < 8 * whole.packed_bytes; bit += 37, ++flips) {
    Copied flipped{whole};
    flipped.chunk.out = out.data();
    flipped.bytes[bit / 8] ^= std::byte(1U << bit % 8);
    seen += ps::unpack(flipped.chunk) ? 0U : 1U;
  }
  CHECK(seen > flips / 10 * 9);
  for (const std::uint32_t less : {1U, 2U, 3U, 4U}) {
    Copied cut{whole};
    cut.chunk.out = out.data();
    cut.chunk.packed_bytes -= less;
    CHECK(!ps::unpack(cut.chunk));
  }
  Copied more{whole};
  more.chunk.out = out.data();
  std::vector<std::uint64_t> longer(whole.packed_bytes / 8 + 4); // 16 bytes and on are aligned
  std::memcpy(longer.data(), whole.packed, whole.packed_bytes);
  more.chunk.packed = reinterpret_cast<const std::byte*>(longer.data());
  more.chunk.packed_bytes += 2;
  CHECK(!ps::unpack(more.chunk));
}

TEST_CASE("numbers that fit no chunk, and tables that do not fit, are refused") {
  const auto values = ps::tests::some_values(100'000)[7];
  const PackedInMemory packed = packed_in_memory(values);
  Bytes out(PackedInMemory::chunk_bytes);
  const ps::PackedChunk good = packed.chunk(0, out.data());
  REQUIRE(good.codec == ps::PackedCodec::ranked);
  REQUIRE(ps::unpack(good));
  const auto refused = [&](auto change) {
    ps::PackedChunk bad = good;
    change(bad);
    return !ps::unpack(bad);
  };
  CHECK(refused([](auto& c) { c.code.value_bytes = 3; }));
  CHECK(refused([](auto& c) { c.code.value_bytes = 8; }));
  CHECK(refused([](auto& c) { c.values = 0; }));
  CHECK(refused([](auto& c) { c.values = 40'000; }));
  CHECK(refused([](auto& c) { c.first = 1; }));
  CHECK(refused([](auto& c) { c.first = ~0U; }));
  CHECK(refused([](auto& c) { c.wanted = 8193; }));
  CHECK(refused([](auto& c) { c.packed += 2; }));
  CHECK(refused([](auto& c) { ++c.out; }));
  CHECK(refused([](auto& c) { c.codec = ps::PackedCodec{200}; }));
  CHECK(refused([](auto& c) { c.codec = ps::PackedCodec::classes; }));
  CHECK(refused([](auto& c) { c.codec = ps::PackedCodec::bytes; }));
  CHECK(refused([](auto& c) { c.code.table = nullptr; }));
  CHECK(refused([](auto& c) { c.code.ranked = nullptr; }));
  CHECK(refused([](auto& c) { c.code.ranks = 10; }));
  std::vector<std::uint32_t> wrong = packed.tables().numbers();
  std::fill(wrong.begin(), wrong.end(), ~0U);
  CHECK(refused([&](auto& c) { c.code.table = wrong.data(); }));
}

TEST_CASE("a host stream unpacks many chunks, and says of each whether it was whole") {
  ps::HostDevice device;
  auto stream = device.stream();
  const auto values = ps::tests::some_values(100'000)[5];
  const PackedInMemory packed = packed_in_memory(values);
  Bytes out(values.bytes.size());
  std::vector<ps::PackedChunk> chunks;
  for (std::size_t i = 0; i != packed.size(); ++i) {
    chunks.push_back(packed.chunk(i, out.data() + i * PackedInMemory::chunk_bytes));
  }
  std::vector<std::uint8_t> whole(chunks.size(), 7);
  ps::unpack(stream, chunks.data(), chunks.size(), whole.data());
  ps::unpack(stream, chunks.data(), 0, nullptr);
  stream.sync();
  CHECK(whole == std::vector<std::uint8_t>(chunks.size(), 1));
  CHECK(out == values.bytes);
  chunks[3].packed_bytes -= 2;
  ps::unpack(stream, chunks.data(), chunks.size(), whole.data());
  stream.sync();
  CHECK(std::count(whole.begin(), whole.end(), 1) == static_cast<int>(chunks.size()) - 1);
  CHECK(whole[3] == 0);
}
