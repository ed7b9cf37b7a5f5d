// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>

#include <cstdint>
namespace ps = penstock;

void count(ps::Stream<ps::CudaDevice> stream, ps::Batch<const std::uint8_t, ps::Device> bytes,
           std::uint64_t* counts, ps::Workspace<ps::CudaDevice>& scratch) {
  ps::histogram(stream, bytes.data(), bytes.size(), counts, scratch);
}
