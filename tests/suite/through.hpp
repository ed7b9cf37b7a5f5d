// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

namespace penstock::tests {}

namespace suite {

namespace ps = penstock;
namespace tests = penstock::tests;

/// Returns bytes whose values tell where they belong.
inline std::vector<std::byte> some_bytes(std::size_t n, std::uint64_t seed = 1) {
  std::vector<std::byte> bytes(n);
  std::uint64_t x = seed * 0x9E3779B97F4A7C15U + 1;
  for (std::size_t i = 0; i < n; ++i) {
    if (i % 8 == 0) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
    }
    bytes[i] = static_cast<std::byte>(x >> (8 * (i % 8)));
  }
  return bytes;
}

/// Brings the batches that arrive on the device back, each to where its index says.
template <class D> class Collector {
 public:
  Collector(D& device, std::size_t bytes)
      : device_{device}, bytes_{bytes}, pinned_bytes_{(bytes / page + 1) * page},
        pinned_{static_cast<std::byte*>(device.allocate_pinned(pinned_bytes_))} {
    clear();
  }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  ~Collector() { device_.deallocate_pinned(pinned_, pinned_bytes_); }

  void operator()(ps::Batch<const std::byte, ps::Device> batch, ps::Stream<D> stream) {
    const std::size_t at = batch.index() * batch.record_bytes();
    if (at + batch.size_bytes() > bytes_) {
      throw std::runtime_error{"a batch beyond the end, at record " +
                               std::to_string(batch.index())};
    }
    in_order = in_order && batch.index() == records;
    records += batch.size();
    sizes.push_back(batch.size());
    aligned = aligned && reinterpret_cast<std::uintptr_t>(batch.data()) % batch.alignment() == 0;
    device_.copy_to_host(pinned_ + at, batch.data(), batch.size_bytes(), stream);
  }

  void clear() {
    std::memset(pinned_, 0xEE, pinned_bytes_);
    sizes.clear();
    records = 0;
    in_order = aligned = true;
  }
  std::span<const std::byte> bytes() const { return {pinned_, bytes_}; }
  bool holds(std::span<const std::byte> expected) const {
    return expected.size() == bytes_ &&
           (bytes_ == 0 || std::memcmp(pinned_, expected.data(), bytes_) == 0);
  }

  std::vector<std::size_t> sizes;
  std::uint64_t records{};
  bool in_order{true};
  bool aligned{true};

 private:
  static constexpr std::size_t page = 4096;

  D& device_;
  std::size_t bytes_;
  std::size_t pinned_bytes_;
  std::byte* pinned_;
};

} // namespace suite
