// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reducer.hpp"

#include <penstock/cuda/device.hpp>
#include <penstock/cuda/event.hpp>
#include <penstock/cuda/nccl.hpp>
#include <penstock/order/order.hpp>

#include <cstddef>
#include <utility>

#include <cuda_runtime_api.h>

namespace transformer {

/// Adds up what ranks have on GPUs, by NCCL. Include it only where that is linked.
template <class W> class NcclReducer final : public Reducer<W, penstock::CudaDevice> {
 public:
  /// Returns when all ranks are here, `id` being rank 0's. Throws penstock::NcclError.
  template <class D>
  NcclReducer(D& gpu, const penstock::Ranks& ranks, const ncclUniqueId& id,
              const penstock::NcclOptions& options)
      : nccl_{gpu, ranks, id, options} {}

  void sum(cudaStream_t stream, W* values, std::size_t count) override {
    nccl_.all_reduce(stream, values, count, values);
  }
  void keep_pace(cudaStream_t stream) override {
    std::swap(before_, latest_);
    latest_.record(stream);
    nccl_.sync(before_);
  }
  void sync(cudaStream_t stream) override { nccl_.sync(stream); }

 private:
  penstock::Nccl nccl_;
  penstock::CudaEvent before_;
  penstock::CudaEvent latest_;
};

} // namespace transformer
