// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/file.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include <cuda_bf16.h>

namespace penstock_bench {

/// Returns the checksum that light.cuh's kernels compute of the bytes that begin at `at` of a
/// sequence in batches of `batch_bytes`: the sum of what is written for each byte, times an odd
/// number that depends on its place in the batch.
inline std::uint64_t checksum_of(std::span<const std::uint8_t> bytes, std::uint64_t at,
                                 std::size_t batch_bytes) {
  static const std::array<std::uint64_t, 256> bits = [] {
    std::array<std::uint64_t, 256> all{};
    for (std::size_t byte = 0; byte < all.size(); ++byte) {
      all[byte] = __bfloat16_as_ushort(__float2bfloat16_rn(static_cast<float>(byte) * (1 / 255.F)));
    }
    return all;
  }();
  std::uint64_t sum = 0;
  std::uint64_t place = at % batch_bytes;
  for (const std::uint8_t byte : bytes) {
    sum += bits[byte] * (2 * place + 1);
    place = place + 1 == batch_bytes ? 0 : place + 1;
  }
  return sum;
}

/// The checksums of a right run. Remembered by batch size.
class Expected {
 public:
  /// `fill` writes the bytes from `at` on; several threads call it.
  Expected(std::uint64_t bytes,
           std::function<void(std::uint64_t at, std::span<std::uint8_t> into)> fill)
      : bytes_{bytes}, fill_{std::move(fill)} {}

  /// Returns the checksum in batches of `batch_bytes`, the last of which may be short.
  std::uint64_t sum(std::size_t batch_bytes) {
    const auto [entry, is_new] = sums_.try_emplace(batch_bytes, 0);
    if (is_new) {
      entry->second = compute(batch_bytes);
    }
    return entry->second;
  }
  /// Returns a function that returns sum(batch_bytes), for add().
  std::function<std::uint64_t()> of(std::size_t batch_bytes) {
    return [this, batch_bytes] { return sum(batch_bytes); };
  }

 private:
  std::uint64_t compute(std::size_t batch_bytes) const {
    std::atomic<std::uint64_t> total{0};
    in_chunks(bytes_, [&](std::uint64_t at, std::span<std::uint8_t> buffer) {
      fill_(at, buffer);
      total.fetch_add(checksum_of(buffer, at, batch_bytes));
    });
    return total;
  }

  std::uint64_t bytes_;
  std::function<void(std::uint64_t, std::span<std::uint8_t>)> fill_;
  std::map<std::size_t, std::uint64_t> sums_;
};

} // namespace penstock_bench
