// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_reducer.hpp"
#include "reducer.hpp"
#if defined(EXAMPLES_HAVE_NCCL)
#include "nccl_reducer.hpp"
#endif

#include <penstock/host/device.hpp>
#include <penstock/rank_watch.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/device.hpp>
#endif

#include <memory>
#include <stdexcept>
#include <string>

namespace transformer {

/// Makes what adds up what the ranks of a watch have; null for one rank. Returns when all ranks are
/// here. Throws std::runtime_error if nothing can, and penstock::NcclError.
/// @{
template <class W>
std::unique_ptr<Reducer<W, penstock::HostDevice>> make_reducer(penstock::HostDevice&,
                                                               penstock::RankWatch& watch) {
  if (watch.ranks().world == 1) {
    return nullptr;
  }
  return std::make_unique<HostReducer<W>>(watch);
}
#if defined(__CUDACC__)
template <class W>
std::unique_ptr<Reducer<W, penstock::CudaDevice>>
make_reducer([[maybe_unused]] penstock::CudaDevice& gpu, penstock::RankWatch& watch) {
  if (watch.ranks().world == 1) {
    return nullptr;
  }
#if defined(EXAMPLES_HAVE_NCCL)
  return std::make_unique<NcclReducer<W>>(gpu, watch);
#else
  throw std::runtime_error{"this program was built without NCCL, so the GPUs of " +
                           std::to_string(watch.ranks().world) +
                           " ranks cannot add up their gradients: install NCCL and build anew, "
                           "start one process, or give --device host"};
#endif
}
#endif
/// @}

} // namespace transformer
