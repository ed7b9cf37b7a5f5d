// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include <penstock/cuda/unpack.cuh>
#include <penstock/device/device_array.hpp>
#include <penstock/host/unpack.hpp>

#include "gate.hpp"
#include "support/catch.hpp"
#include "support/packed_values.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

// Typed over both devices, which must give the bytes that were packed, and say the same of damaged
// chunks.

using namespace penstock;
using penstock::tests::Bytes;
using penstock::tests::PackedInMemory;

namespace {

/// Brings bytes to the device and back.
template <class D> class Carrier {
 public:
  explicit Carrier(D& device) : device_{device}, stream_{device.stream()} {}

  auto& stream() { return stream_; }
  template <class T> DeviceArray<T, D> there(std::span<const T> values) {
    DeviceArray<T, D> array{device_, std::max<std::size_t>(values.size(), 1)};
    with_pinned(values.size_bytes(), [&](void* pinned) {
      std::memcpy(pinned, values.data(), values.size_bytes());
      device_.copy_to_device(array.data(), pinned, values.size_bytes(), stream_);
    });
    return array;
  }
  template <class T> std::vector<T> back(const DeviceArray<T, D>& array, std::size_t count) {
    std::vector<T> values(count);
    with_pinned(count * sizeof(T), [&](void* pinned) {
      device_.copy_to_host(pinned, array.data(), count * sizeof(T), stream_);
      device_.sync(stream_);
      std::memcpy(values.data(), pinned, count * sizeof(T));
    });
    return values;
  }

 private:
  template <class F> void with_pinned(std::size_t bytes, F f) {
    const std::size_t whole = (bytes + 4095) / 4096 * 4096;
    if (whole != 0) {
      void* const pinned = device_.allocate_pinned(whole);
      f(pinned);
      device_.sync(stream_);
      device_.deallocate_pinned(pinned, whole);
    }
  }

  D& device_;
  decltype(std::declval<D&>().stream()) stream_;
};

struct Unpacked {
  Bytes bytes;
  std::vector<std::uint8_t> whole;
};

/// Unpacks all of `packed`, whose chunks `change(i, chunk, bytes)` may have changed before.
template <class D, class Change>
Unpacked unpacked(D& device, const PackedInMemory& packed, std::size_t bytes, Change change) {
  Carrier<D> carrier{device};
  std::vector<std::uint64_t> all;
  std::vector<PackedChunk> chunks;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i != packed.size(); ++i) {
    PackedChunk chunk = packed.chunk(i, nullptr);
    places.push_back(8 * all.size());
    all.resize(all.size() + (chunk.packed_bytes + 15U) / 16 * 2);
    std::memcpy(reinterpret_cast<std::byte*>(all.data()) + places.back(), chunk.packed,
                chunk.packed_bytes);
    change(i, chunk, reinterpret_cast<std::byte*>(all.data()) + places.back());
    chunks.push_back(chunk);
  }
  const auto there = carrier.there(std::span<const std::uint64_t>{all});
  const auto tables = carrier.there(std::span<const std::uint32_t>{packed.tables().numbers()});
  const Bytes before(bytes, std::byte{0xA5});
  const auto out = carrier.there(std::span<const std::byte>{before});
  for (std::size_t i = 0; i != chunks.size(); ++i) {
    chunks[i].packed = reinterpret_cast<const std::byte*>(there.data()) + places[i];
    chunks[i].code = packed.tables().code(tables.data());
    chunks[i].out = out.data() + i * PackedInMemory::chunk_bytes;
  }
  const auto given = carrier.there(std::span<const PackedChunk>{chunks});
  const std::vector<std::uint8_t> unknown(chunks.size(), 7);
  const auto whole = carrier.there(std::span<const std::uint8_t>{unknown});
  unpack(carrier.stream(), given.data(), chunks.size(), whole.data());
  return {carrier.back(out, bytes), carrier.back(whole, chunks.size())};
}

} // namespace

TEMPLATE_TEST_CASE("chunks come out of both devices as they were packed", "", CudaDevice,
                   HostDevice) {
  TestType device;
  for (const std::size_t count : {1'000'000U, 5000U, 1U}) {
    for (const auto& values : tests::some_values(count)) {
      INFO(values.name << ", " << count);
      const PackedInMemory packed = tests::packed_in_memory(values);
      const Unpacked got = unpacked(device, packed, values.bytes.size(),
                                    [](std::size_t, PackedChunk&, std::byte*) {});
      CHECK(got.whole == std::vector<std::uint8_t>(packed.size(), 1));
      CHECK(got.bytes == values.bytes);
    }
  }
}

TEST_CASE("both devices say the same of damaged chunks, and write the same") {
  CudaDevice gpu;
  HostDevice host;
  for (const auto& values : tests::some_values(300'000)) {
    INFO(values.name);
    const PackedInMemory packed = tests::packed_in_memory(values);
    const auto change = [](std::size_t i, PackedChunk& chunk, std::byte* bytes) {
      std::mt19937_64 random{i};
      for (std::uint64_t flips = random() % 8; flips != 0; --flips) {
        bytes[random() % chunk.packed_bytes] ^= std::byte(1U << random() % 8);
      }
      if (i % 3 == 0) {
        chunk.packed_bytes = static_cast<std::uint32_t>(random() % chunk.packed_bytes);
      }
      if (i % 3 == 1) {
        chunk.first = static_cast<std::uint32_t>(random() % chunk.values);
        chunk.wanted = (chunk.values - chunk.first) / 2;
      }
    };
    const Unpacked there = unpacked(gpu, packed, values.bytes.size(), change);
    const Unpacked here = unpacked(host, packed, values.bytes.size(), change);
    CHECK(there.whole == here.whole);
    CHECK(there.bytes == here.bytes);
  }
}
