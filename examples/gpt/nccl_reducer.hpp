// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reducer.hpp"

#include <penstock/cuda/device.hpp>
#include <penstock/cuda/nccl.hpp>
#include <penstock/rank_watch.hpp>

#include <cstddef>

#include <cuda_runtime_api.h>

namespace transformer {

/// Adds up what ranks have on GPUs, by NCCL. Include it only where that is linked.
template <class W> class NcclReducer final : public Reducer<W, penstock::CudaDevice> {
 public:
  /// Returns when all ranks of the watch are here. Throws penstock::NcclError.
  template <class D> NcclReducer(D& gpu, penstock::RankWatch& watch) : nccl_{gpu, watch} {}

  void sum(cudaStream_t stream, W* values, std::size_t count) override {
    nccl_.all_reduce(stream, values, count, values);
  }

 private:
  penstock::Nccl nccl_;
};

} // namespace transformer
