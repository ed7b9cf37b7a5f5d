// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What GPUs share, by NCCL: include this only where you want it, and link -lnccl. It needs NCCL
// 2.13 or later, which CUDA's toolkit does not bring.

#include <penstock/cuda/detail/capture_mode.hpp>
#include <penstock/data/float16.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>
#include <penstock/rank_watch.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>
#include <nccl.h>

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

/// Throws NcclError: `call`, asked for what `asked` says (" of 42 values"), has failed.
[[noreturn, gnu::cold]] inline void nccl_fail(ncclResult_t status, const char* call,
                                              const std::string& asked, ncclComm_t communicator) {
  cudaGetLastError(); // the next launch would report it as its own
  const char* const more = ncclGetLastError(communicator);
  const std::string what =
      joined({"penstock: ", call, asked, " failed: ", ncclGetErrorString(status), ". ",
              more ? one_line(more) : std::string{}, more && *more != '\0' ? " " : "",
              "NCCL_DEBUG=WARN has NCCL say more."});
  throw NcclError{what, call, status};
}

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

inline ncclRedOp_t nccl_operation(Reduction reduction) noexcept {
  switch (reduction) {
  case Reduction::mean:
    return ncclAvg;
  case Reduction::min:
    return ncclMin;
  case Reduction::max:
    return ncclMax;
  default:
    return ncclSum;
  }
}

} // namespace detail

/// What this rank shares with the others: `ps::Nccl nccl{gpu, watch};`. Each call enqueues on a
/// stream, and is done when all ranks' are: all must make the same calls in the same order. A rank
/// that does not come holds up the others for ever, which is why it takes a RankWatch.
///
/// It owns NCCL's communicator, and moves; one moved from may only be assigned to or destroyed. One
/// thread at a time. Calls throw NcclError.
class Nccl {
 public:
  /// Makes the communicator of all ranks of the watch, on this GPU; blocks until all do. NCCL's
  /// multicast over NVLink stays off, unless the environment has NCCL_NVLS_ENABLE; this sets that
  /// variable to 0, and no other thread may look at the environment meanwhile.
  template <class D> Nccl(D& device, RankWatch& watch) {
    const auto here = device.attach();
    const detail::RelaxedCapture relaxed;
    constexpr int as_it_is = 0;
    ::setenv("NCCL_NVLS_ENABLE", "0", as_it_is);
    const Ranks ranks = watch.ranks();
    ncclUniqueId id{};
    static_assert(sizeof id <= detail::RankConnection::most_bytes);
    if (ranks.rank == 0) {
      check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    }
    watch.share(std::as_writable_bytes(std::span{&id, 1}));
    check(ncclCommInitRank(&communicator_, static_cast<int>(ranks.world), id,
                           static_cast<int>(ranks.rank)),
          "ncclCommInitRank");
  }
  /// Takes over what `other` owns.
  Nccl(Nccl&& other) noexcept
      : communicator_{std::exchange(other.communicator_, nullptr)}, exceptions_{other.exceptions_} {
  }
  /// Takes over what `other` owns, and gives up its own.
  Nccl& operator=(Nccl&& other) noexcept {
    Nccl taken{std::move(other)};
    std::swap(communicator_, taken.communicator_);
    return *this;
  }
  /// Gives the communicator back: enqueued calls are still done, which it may wait for. If an
  /// exception is on its way, or a call has failed on the GPU, it waits for no rank, and they are
  /// not. Never throws.
  ~Nccl() {
    if (communicator_ == nullptr) {
      return;
    }
    ncclResult_t state = ncclSuccess;
    const bool lost = std::uncaught_exceptions() > exceptions_ ||
                      ncclCommGetAsyncError(communicator_, &state) != ncclSuccess ||
                      state != ncclSuccess;
    static_cast<void>(lost ? ncclCommAbort(communicator_) : ncclCommDestroy(communicator_));
  }

  /// Puts the `count` values of each rank behind each other, by rank: `to` has room for world times
  /// as many. `from` may be this rank's part of `to`. Pointers are to GPU memory.
  template <class T>
  void all_gather(cudaStream_t stream, const T* from, std::size_t count, T* to) {
    check(ncclAllGather(from, to, count, detail::nccl_type<T>(), communicator_, stream),
          "ncclAllGather", count);
  }
  /// Makes one value of all ranks' for each of `count`, the same on all ranks. `to` may be `from`.
  /// Pointers are to GPU memory.
  template <class T>
  void all_reduce(cudaStream_t stream, const T* from, std::size_t count, T* to,
                  Reduction reduction = Reduction::sum) {
    check(ncclAllReduce(from, to, count, detail::nccl_type<T>(), detail::nccl_operation(reduction),
                        communicator_, stream),
          "ncclAllReduce", count);
  }
  /// Gives all ranks the `count` values that rank `from` has. `data` points to GPU memory.
  template <class T>
  void broadcast(cudaStream_t stream, T* data, std::size_t count, std::uint32_t from = 0) {
    check(ncclBroadcast(data, data, count, detail::nccl_type<T>(), static_cast<int>(from),
                        communicator_, stream),
          "ncclBroadcast", count);
  }

  /// Returns NCCL's handle, for all else that it can; this stays its owner.
  ncclComm_t get() const noexcept { return communicator_; }

 private:
  void check(ncclResult_t status, const char* call) const {
    if (status != ncclSuccess) {
      detail::nccl_fail(status, call, {}, communicator_);
    }
  }
  void check(ncclResult_t status, const char* call, std::size_t values) const {
    if (status != ncclSuccess) {
      detail::nccl_fail(status, call, detail::joined({" of ", values, " values"}), communicator_);
    }
  }

  ncclComm_t communicator_{};
  int exceptions_ = std::uncaught_exceptions();
};

} // namespace penstock
