// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/capture_mode.hpp>

#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include <nccl.h>

namespace penstock::detail {

/// Has NCCL end what is enqueued on a communicator, and give it back. NCCL does the first at once,
/// and may wait with the second: for graphs that have captured calls, which are to be destroyed
/// meanwhile, and for other ranks. So a thread of its own calls it, which this outlives.
class NcclAborting {
 public:
  /// Returns at once. Throws std::system_error if there can be no thread.
  explicit NcclAborting(ncclComm_t communicator)
      : thread_{[communicator] {
          const RelaxedCapture relaxed;
          static_cast<void>(ncclCommAbort(communicator));
        }} {}

 private:
  std::jthread thread_;
};

/// Begins to abort; does all of it if there can be no thread.
[[gnu::cold]] inline std::unique_ptr<NcclAborting> nccl_abort(ncclComm_t communicator) noexcept {
  try {
    return std::make_unique<NcclAborting>(communicator);
  } catch (const std::exception&) {
    static_cast<void>(ncclCommAbort(communicator));
    return nullptr;
  }
}

/// Gives a communicator back; waits for no rank if that may be in vain.
struct NcclGiveBack {
  int exceptions = std::uncaught_exceptions();

  void operator()(ncclComm_t communicator) const noexcept {
    ncclResult_t state = ncclSuccess;
    if (std::uncaught_exceptions() > exceptions ||
        ncclCommGetAsyncError(communicator, &state) != ncclSuccess || state != ncclSuccess) {
      nccl_abort(communicator);
    } else {
      static_cast<void>(ncclCommDestroy(communicator));
    }
  }
};

/// The owner of a communicator.
using NcclOwner = std::unique_ptr<std::remove_pointer_t<ncclComm_t>, NcclGiveBack>;

} // namespace penstock::detail
