// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Columns as kernels see them: by name, with static and dynamic extents, and of variable length.

#include "support/catch.hpp"

#include <penstock/cuda.hpp>
#include <penstock/device/device_array.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

using namespace penstock;

namespace {

struct Sample : Columns<Field<"image", std::uint8_t, 3, 4, 5>, Field<"label", std::int32_t>,
                        Field<"tokens", std::uint16_t, dynamic, 2>, Field<"text", Ragged<char>>,
                        Field<"abcdefghijklmnopqrstuvwxyz012345", double>> {};

// What the kernel read from a record.
struct Found {
  std::uint64_t image, tokens, text, text_size, extent, index;
  double last;
  bool operator==(const Found&) const = default;
};

// Written once for the kernel and for the host, and therefore with get<>() in generic code.
template <class Where>
PENSTOCK_HD Found look(const Batch<const Sample, Where>& batch, std::size_t i) {
  Found found{};
  const auto image = get<"image">(batch);
  static_assert(std::is_same_v<decltype(image[i]), const std::uint8_t(&)[3][4][5]>);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t y = 0; y < 4; ++y) {
      for (std::size_t x = 0; x < 5; ++x) {
        found.image = found.image * 31 + image[i][c][y][x];
      }
    }
  }
  const auto tokens = batch.template get<"tokens">();
  for (std::size_t k = 0; k < tokens.elements(); ++k) {
    found.tokens = found.tokens * 31 + tokens[i][k];
  }
  const auto text = get<"text">(batch)[i];
  for (std::size_t k = 0; k < text.size(); ++k) {
    found.text = found.text * 31 + static_cast<unsigned char>(text[k]);
  }
  found.text_size = text.size();
  found.extent = tokens.extent(0) * 10 + tokens.extent(1);
  found.index = batch.index() + batch.source_index() + i;
  found.last = get<"abcdefghijklmnopqrstuvwxyz012345">(batch)[i];
  return found;
}

__global__ void look_at_all(Batch<const Sample, Device> batch, Found* found) {
  for (std::size_t i = threadIdx.x; i < batch.size(); i += blockDim.x) {
    found[i] = look(batch, i);
  }
}

// Writes all but the offsets, through a batch that may be written.
__global__ void write_all(Batch<Sample, Device> batch) {
  const auto tokens = get<"tokens">(batch);
  const auto text = get<"text">(batch);
  for (std::size_t i = threadIdx.x; i < batch.size(); i += blockDim.x) {
    get<"image">(batch)[i][2][3][4] = static_cast<std::uint8_t>(i);
    get<"label">(batch)[i] = -static_cast<std::int32_t>(i);
    tokens[i][tokens.elements() - 1] = static_cast<std::uint16_t>(i + 7);
    for (std::size_t k = 0; k < text[i].size(); ++k) {
      text[i][k] = static_cast<char>('A' + i % 26);
    }
  }
}

// The arrays of a batch one after the other, and where each begins.
constexpr std::size_t rows = 100, extent = 6, capacity = 2000;
constexpr std::size_t image_at = 0, label_at = 8192, tokens_at = label_at + 1024,
                      offsets_at = tokens_at + 4096, text_at = offsets_at + 1024,
                      last_at = text_at + 2048, all_bytes = last_at + 4096;

template <class S, class Where> Batch<S, Where> batch_in(std::byte* memory) {
  return Batch<S, Where>{
      typename Batch<S, Where>::View{{memory + image_at, memory + label_at, memory + tokens_at,
                                      memory + offsets_at, memory + text_at, memory + last_at},
                                     {extent, capacity},
                                     rows,
                                     5000,
                                     300,
                                     1}};
}

// A batch's bytes in pinned and in device memory.
struct Both {
  Both()
      : stream{device.stream()}, memory{device, all_bytes},
        pinned{static_cast<std::byte*>(device.allocate_pinned(pinned_bytes))} {
    for (std::size_t i = 0; i < all_bytes; ++i) {
      pinned[i] = static_cast<std::byte>(i * 167 + i / 251);
    }
    const auto batch = batch_in<Sample, Pinned>(pinned);
    const auto offsets = reinterpret_cast<std::int64_t*>(pinned + offsets_at);
    offsets[0] = 0;
    for (std::size_t i = 1; i <= rows; ++i) {
      offsets[i] = -1;
    }
    for (std::size_t i = 0; i < rows; ++i) {
      get<"abcdefghijklmnopqrstuvwxyz012345">(batch)[i] = static_cast<double>(i) / 3;
      const std::size_t count = i * 5 % 23;
      std::memset(get<"text">(batch).put(i, count), static_cast<int>('a' + i % 26), count);
    }
  }
  Both(const Both&) = delete;
  Both& operator=(const Both&) = delete;
  ~Both() { device.deallocate_pinned(pinned, pinned_bytes); }

  static constexpr std::size_t pinned_bytes = (all_bytes + 4095) / 4096 * 4096;
  CudaDevice device;
  CudaStream stream;
  DeviceArray<std::byte, CudaDevice> memory;
  std::byte* pinned;
};

} // namespace

TEST_CASE("a kernel finds columns by name, as the host does") {
  Both both;
  DeviceArray<Found, CudaDevice> found{both.device, rows};
  both.device.copy_to_device(both.memory.data(), both.pinned, all_bytes, both.stream);
  look_at_all<<<1, 64, 0, both.stream.get()>>>(batch_in<const Sample, Device>(both.memory.data()),
                                               found.data());
  REQUIRE(cudaGetLastError() == cudaSuccess);
  const std::vector<Found> on_device = found.read(both.stream);
  const auto batch = batch_in<const Sample, Pinned>(both.pinned);
  for (std::size_t i = 0; i < rows; ++i) {
    CAPTURE(i);
    REQUIRE(on_device[i] == look(batch, i));
    REQUIRE(on_device[i].text_size == i * 5 % 23);
    REQUIRE(on_device[i].extent == 62);
    REQUIRE(on_device[i].index == 5300 + i);
  }
}

TEST_CASE("a kernel writes columns by name") {
  Both both;
  both.device.copy_to_device(both.memory.data(), both.pinned, all_bytes, both.stream);
  write_all<<<1, 64, 0, both.stream.get()>>>(batch_in<Sample, Device>(both.memory.data()));
  REQUIRE(cudaGetLastError() == cudaSuccess);
  const std::vector<std::byte> before(both.pinned, both.pinned + all_bytes);
  both.device.copy_to_host(both.pinned, both.memory.data(), all_bytes, both.stream);
  both.device.sync(both.stream);

  std::vector<std::byte> expected = before;
  const auto batch = batch_in<Sample, Pageable>(expected.data());
  for (std::size_t i = 0; i < rows; ++i) {
    get<"image">(batch)[i][2][3][4] = static_cast<std::uint8_t>(i);
    get<"label">(batch)[i] = -static_cast<std::int32_t>(i);
    get<"tokens">(batch)[i][11] = static_cast<std::uint16_t>(i + 7);
    const auto text = get<"text">(batch)[i];
    std::memset(text.data(), static_cast<int>('A' + i % 26), text.size());
  }
  CHECK(std::memcmp(both.pinned, expected.data(), all_bytes) == 0);
  CHECK(std::memcmp(before.data(), expected.data(), all_bytes) != 0);
}
