// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/meeting.hpp"
#include "host_reducer.hpp"
#include "reducer.hpp"
#if defined(EXAMPLES_HAVE_NCCL)
#include "../support/nccl_id.hpp"
#include "nccl_reducer.hpp"
#endif

#include <penstock/host/device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/device.hpp>
#endif

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

namespace transformer {

/// Makes what adds up what ranks have; null for one rank. Returns when all ranks are here.
/// `patience`: for how long a rank waits for the others; 0: for ever. Throws std::runtime_error if
/// nothing can, and penstock::NcclError.
/// @{
template <class W>
std::unique_ptr<Reducer<W, penstock::HostDevice>>
make_reducer(penstock::HostDevice&, Meeting& meeting, std::chrono::seconds patience) {
  if (meeting.ranks().world == 1) {
    return nullptr;
  }
  return std::make_unique<HostReducer<W>>(meeting, patience);
}
#if defined(__CUDACC__)
template <class W>
std::unique_ptr<Reducer<W, penstock::CudaDevice>>
make_reducer([[maybe_unused]] penstock::CudaDevice& gpu, Meeting& meeting,
             [[maybe_unused]] std::chrono::seconds patience) {
  if (meeting.ranks().world == 1) {
    return nullptr;
  }
#if defined(EXAMPLES_HAVE_NCCL)
  return std::make_unique<NcclReducer<W>>(gpu, meeting.ranks(), nccl_id(meeting),
                                          penstock::NcclOptions{.timeout = patience});
#else
  throw std::runtime_error{"this program was built without NCCL, so the GPUs of " +
                           std::to_string(meeting.ranks().world) +
                           " ranks cannot add up their gradients: install NCCL and build anew, "
                           "start one process, or give --device host"};
#endif
}
#endif
/// @}

} // namespace transformer
