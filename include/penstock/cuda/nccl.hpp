// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Include this only where you want it, and link -lnccl: NCCL 2.13 or later.

#include <penstock/cuda/detail/capture_mode.hpp>
#include <penstock/cuda/error.hpp>
#include <penstock/cuda/event.hpp>
#include <penstock/data/float16.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace penstock::detail {

/// Returns NCCL's name of a type.
template <class T> constexpr ncclDataType_t nccl_type() noexcept {
  if constexpr (std::is_same_v<T, float>) {
    return ncclFloat32;
  } else if constexpr (std::is_same_v<T, double>) {
    return ncclFloat64;
  } else if constexpr (std::is_same_v<T, Half>) {
    return ncclFloat16;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return ncclBfloat16;
  } else if constexpr (std::is_same_v<T, std::byte>) {
    return ncclUint8;
  } else {
    static_assert(std::is_integral_v<T> && sizeof(T) != 2,
                  "NCCL knows float, double, ps::Half, ps::BFloat16, std::byte, and whole numbers "
                  "of 8, 32 and 64 bits: cast the pointer to one of them");
    constexpr bool is_signed = std::is_signed_v<T>;
    return sizeof(T) == 1   ? (is_signed ? ncclInt8 : ncclUint8)
           : sizeof(T) == 4 ? (is_signed ? ncclInt32 : ncclUint32)
                            : (is_signed ? ncclInt64 : ncclUint64);
  }
}

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

namespace penstock {

/// A call of NCCL failed: call() is the function's name, code() an ncclResult_t.
class [[gnu::visibility("default")]] NcclError : public DeviceError {
 public:
  /// `call` is the function's name. After an error of CUDA's the GPU may be unusable.
  NcclError(const std::string& what, std::string call, ncclResult_t status)
      : DeviceError{what, std::move(call), static_cast<int>(status),
                    status == ncclUnhandledCudaError} {}
};

/// What becomes of the ranks' values in an all_reduce().
enum class Reduction {
  sum,  ///< Their sum.
  mean, ///< Their sum, divided by the number of ranks.
  min,  ///< The smallest.
  max   ///< The largest.
};

namespace detail {

/// Returns what NCCL says of its latest error, on one line, with a space behind; empty if nothing.
[[gnu::cold]] inline std::string nccl_said(ncclComm_t communicator) {
  const char* const more = ncclGetLastError(communicator);
  std::string said = more != nullptr ? more : "";
  std::replace_if(
      said.begin(), said.end(), [](unsigned char c) { return c < ' ' || c == '\x7f'; }, '?');
  return said + (said.empty() ? "" : " ");
}

/// Throws NcclError: `call`, asked for what `asked` says (" of 42 values"), has failed.
[[noreturn, gnu::cold]] inline void nccl_fail(ncclResult_t status, const char* call,
                                              const std::string& asked, ncclComm_t communicator) {
  cudaGetLastError(); // the next launch would report it as its own
  throw NcclError{joined({"penstock: ", call, asked, " failed: ", ncclGetErrorString(status), ". ",
                          nccl_said(communicator), "NCCL_DEBUG=WARN has NCCL say more."}),
                  call, status};
}

inline ncclRedOp_t nccl_operation(Reduction reduction) noexcept {
  return reduction == Reduction::mean  ? ncclAvg
         : reduction == Reduction::min ? ncclMin
         : reduction == Reduction::max ? ncclMax
                                       : ncclSum;
}

} // namespace detail

/// Options of an Nccl.
struct NcclOptions {
  /// For how long a sync() may wait, what other ranks take included; 0: for ever. Ten minutes, as
  /// with PyTorch. Give more than a rank may keep the others waiting, as for a checkpoint.
  std::chrono::milliseconds timeout{600'000};
};

/// What this rank shares with the others, each of which has a GPU: `ps::Nccl nccl{gpu, ranks, id};`
/// Each call enqueues on a stream, and is done when all ranks' are: all must make the same calls in
/// the same order. sync() waits for them, and is an error if a rank does not come.
///
/// It owns NCCL's communicator, and moves; one moved from may only be assigned to or destroyed.
/// Graphs that have captured its calls must be destroyed before it: NCCL waits for them. One thread
/// at a time. Calls throw NcclError; after a sync() that does, each throws that error again, at
/// once.
class Nccl {
 public:
  /// Makes what tells these ranks from others. Rank 0 calls it, and brings it to all by MPI_Bcast,
  /// a file, or what there is. Rank 0's process must live until all have their communicator.
  static ncclUniqueId new_id() {
    leave_multicast_off();
    ncclUniqueId id{};
    if (const ncclResult_t status = ncclGetUniqueId(&id); status != ncclSuccess) {
      detail::nccl_fail(status, "ncclGetUniqueId", {}, nullptr);
    }
    return id;
  }

  /// Makes the communicator of all ranks, on this GPU; blocks until all do. `id` is what new_id()
  /// returned on rank 0. NCCL's multicast over NVLink stays off, unless the environment has
  /// NCCL_NVLS_ENABLE; this sets that variable to 0, and no other thread may look at the
  /// environment meanwhile.
  template <AnyDevice D>
  Nccl(D& device, const Ranks& ranks, const ncclUniqueId& id, const NcclOptions& options = {})
      : ranks_{ranks}, options_{options} {
    const auto here = device.attach();
    const detail::RelaxedCapture relaxed;
    leave_multicast_off();
    ncclComm_t made{};
    if (const ncclResult_t status = ncclCommInitRank(&made, static_cast<int>(ranks.world), id,
                                                     static_cast<int>(ranks.rank));
        status != ncclSuccess) {
      detail::nccl_fail(status, latest_, {}, nullptr);
    }
    communicator_.reset(made);
  }
  /// Takes over what the other owns.
  Nccl(Nccl&&) noexcept = default;
  /// Takes over what the other owns, and gives up its own.
  Nccl& operator=(Nccl&&) noexcept = default;
  /// Gives the communicator back: enqueued calls are still done, which it may wait for. If an
  /// exception is on its way, or a call has failed, they are not. Graphs that have captured calls
  /// must be destroyed before. Never throws.
  ~Nccl() = default;

  /// Puts the `count` values of each rank behind each other, by rank: `to` has room for world times
  /// as many. `from` may be this rank's part of `to`. Pointers are to GPU memory.
  template <class T>
  void all_gather(cudaStream_t stream, const T* from, std::size_t count, T* to) {
    check(ncclAllGather(from, to, count, detail::nccl_type<T>(), usable(), stream), "ncclAllGather",
          count);
  }
  /// Makes one value of all ranks' for each of `count`, the same on all ranks. `to` may be `from`.
  /// Pointers are to GPU memory.
  template <class T>
  void all_reduce(cudaStream_t stream, const T* from, std::size_t count, T* to,
                  Reduction reduction = Reduction::sum) {
    check(ncclAllReduce(from, to, count, detail::nccl_type<T>(), detail::nccl_operation(reduction),
                        usable(), stream),
          "ncclAllReduce", count);
  }
  /// Gives all ranks the `count` values that rank `from` has. `data` points to GPU memory.
  template <class T>
  void broadcast(cudaStream_t stream, T* data, std::size_t count, std::uint32_t from = 0) {
    check(ncclBroadcast(data, data, count, detail::nccl_type<T>(), static_cast<int>(from), usable(),
                        stream),
          "ncclBroadcast", count);
  }

  /// Blocks until all that was enqueued on `stream` is done. If NCCL reports an error meanwhile, or
  /// the time of the options is over, it calls abort() and throws. Naps between its questions, a
  /// millisecond at most.
  void sync(cudaStream_t stream) {
    wait_until([stream] {
      const detail::RelaxedCapture relaxed;
      return detail::cuda_is_done(cudaStreamQuery(stream), "cudaStreamQuery");
    });
  }
  /// Does the same for the point of a stream that an event marks.
  void sync(const CudaEvent& event) {
    wait_until([&event] { return event.is_done(); });
  }
  /// Waits for no rank any more: what is enqueued ends, its values are lost, and the other ranks'
  /// calls of it fail or outlast their time. Each later call throws. Returns at once, and never
  /// throws itself: a thread calls NCCL, which the destructor joins.
  void abort() noexcept {
    if (communicator_) {
      aborting_ = detail::nccl_abort(communicator_.release());
    }
  }

  /// Returns NCCL's handle, for all else that it can; this stays its owner. Null once it is lost.
  ncclComm_t get() const noexcept { return communicator_.get(); }

 private:
  using Clock = std::chrono::steady_clock;

  static void leave_multicast_off() {
    ::setenv("NCCL_NVLS_ENABLE", "0", 0); // as it is, if it is set
  }
  ncclComm_t usable() const {
    if (!communicator_) {
      throw lost_ ? *lost_
                  : NcclError{"penstock: this Nccl was given up by abort(), or moved from: make "
                              "another one.",
                              latest_, ncclInvalidUsage};
    }
    return communicator_.get();
  }
  template <class F> void wait_until(F is_done) {
    using namespace std::chrono_literals;
    const ncclComm_t communicator = usable();
    const Clock::time_point begun = Clock::now();
    for (;;) {
      const bool done = is_done();
      ncclResult_t state = ncclSuccess;
      const ncclResult_t asked = ncclCommGetAsyncError(communicator, &state);
      if (const ncclResult_t failed = asked != ncclSuccess ? asked : state; failed != ncclSuccess) {
        lose({"failed: ", ncclGetErrorString(failed), ". ", detail::nccl_said(communicator)},
             failed);
      }
      if (done) {
        return;
      }
      const auto took = Clock::now() - begun;
      if (options_.timeout != 0ms && took > options_.timeout) {
        lose({"has outlasted ", static_cast<std::uint64_t>(options_.timeout.count()),
              " ms. Give NcclOptions::timeout more if a rank may need that. "},
             ncclRemoteError);
      }
      std::this_thread::sleep_for(std::clamp<Clock::duration>(took / 16, 5us, 1ms));
    }
  }
  [[noreturn, gnu::cold]] void lose(std::initializer_list<detail::TextPart> how,
                                    ncclResult_t status) {
    lost_.emplace(detail::joined({"penstock: rank ", ranks_.rank, " of ", ranks_.world, ": ",
                                  latest_, " ", detail::joined(how),
                                  "Another rank may be gone, or make other calls: see what the "
                                  "ranks have printed, and start all anew."}),
                  latest_, status);
    abort();
    throw *lost_;
  }
  void check(ncclResult_t status, const char* call, std::size_t values) {
    latest_ = call;
    if (status != ncclSuccess) {
      detail::nccl_fail(status, call, detail::joined({" of ", values, " values"}), get());
    }
  }

  Ranks ranks_;
  NcclOptions options_;
  detail::NcclOwner communicator_;
  std::unique_ptr<detail::NcclAborting> aborting_;
  const char* latest_ = "ncclCommInitRank"; // of the calls here
  std::optional<NcclError> lost_;
};

} // namespace penstock
