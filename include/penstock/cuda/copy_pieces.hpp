// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/error.hpp>
#include <penstock/device/device.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

#include <cuda_runtime_api.h>

namespace penstock::detail {

/// Enqueues several copies from pinned memory to a GPU's, up to 16 of them by one call: columns are
/// few.
inline void copy_pieces(std::span<const CopyPiece> pieces, cudaStream_t stream) {
  constexpr std::size_t most = 16;
  void* to[most];
  const void* from[most];
  std::size_t bytes[most];
  while (!pieces.empty()) {
    const std::size_t count = std::min(pieces.size(), most);
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = pieces[i].to;
      from[i] = pieces[i].from;
      bytes[i] = pieces[i].bytes;
    }
    std::size_t first = 0;
    cudaMemcpyAttributes in_order{};
    in_order.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    cuda_check(cudaMemcpyBatchAsync(to, from, bytes, count, &in_order, &first, 1, stream),
               "cudaMemcpyBatchAsync", bytes[0], " and more to the device");
    pieces = pieces.subspan(count);
  }
}

} // namespace penstock::detail
