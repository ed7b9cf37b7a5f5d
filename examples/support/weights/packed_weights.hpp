// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../link.hpp"

#include <penstock/formats/packed.hpp>
#include <penstock/formats/packed/packed_tensors.hpp>
#include <penstock/formats/packed/unpack.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/penstock.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/unpack.cuh>
#endif

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace weights {

/// The tensors of a packed model in one piece of a device's memory, which unpacks all of it itself.
template <penstock::AnyDevice D> class PackedWeights {
  static constexpr std::uint64_t record = 256; // bytes of what packed<std::byte>() gives of a model

 public:
  PackedWeights(D& device, const std::vector<std::string>& files,
                std::span<const penstock::TensorInfo> tensors, std::uint64_t piece)
      : device_{device}, tensors_{tensors},
        source_{penstock::packed<std::byte>(files, {.batch = (piece + record - 1) / record})},
        memory_{device, bytes_of(tensors), false} {}

  std::byte* memory() const { return memory_.at; }
  /// Returns where the tensor of this number lies.
  std::byte* tensor(std::size_t number) const { return memory_.at + tensors_[number].at; }

  /// Brings the model to the device. Blocks until it is there. Returns the seconds since `begin`.
  /// `copy(stream, to, from, bytes)` copies on the device.
  template <class Copy>
  double load(Copy copy, std::chrono::steady_clock::time_point begin, const std::stop_token& stop) {
    auto pipeline =
        penstock::Reader{source_, penstock::to_pinned} | penstock::AsyncCopier{device_} |
        penstock::unpack(source_) |
        penstock::Consumer{[&](penstock::Batch<const std::byte, penstock::Device> batch,
                               penstock::Stream<D> stream) {
          copy(stream, memory_.at + batch.index() * record, batch.data(), batch.size_bytes());
        }};
    report = pipeline.run(stop);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  penstock::Report report;

 private:
  static std::uint64_t bytes_of(std::span<const penstock::TensorInfo> tensors) {
    std::uint64_t bytes = record;
    for (const penstock::TensorInfo& tensor : tensors) {
      bytes = std::max(bytes, (tensor.at + tensor.bytes + record - 1) / record * record);
    }
    return bytes;
  }

  D& device_;
  std::span<const penstock::TensorInfo> tensors_;
  penstock::Packed<std::byte> source_;
  DeviceMemory<D> memory_;
};

/// Returns the CRC-32C of each tensor, as the host unpacks it.
inline std::vector<std::uint32_t> crcs_unpacked(const std::vector<std::string>& files,
                                                std::span<const penstock::TensorInfo> tensors) {
  std::vector<std::uint32_t> crcs(tensors.size());
  std::uint64_t at = 0;
  auto pipeline =
      penstock::Reader{penstock::unpacked<std::byte>(files)} |
      penstock::Consumer{[&](penstock::Batch<const std::byte, penstock::Pageable> batch) {
        const std::uint64_t end = at + batch.size_bytes();
        for (std::size_t i = 0; i != tensors.size(); ++i) {
          const std::uint64_t first = std::max(at, tensors[i].at);
          const std::uint64_t last = std::min(end, tensors[i].at + tensors[i].bytes);
          if (first < last) {
            crcs[i] = penstock::crc32c({batch.data() + (first - at), last - first}, crcs[i]);
          }
        }
        at = end;
      }};
  pipeline.run();
  return crcs;
}

} // namespace weights
