// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/detail/launch.cuh>
#include <penstock/data/packed.hpp>
#include <penstock/data/packed_batch.hpp>
#include <penstock/host/detail/lanes.hpp>
#include <penstock/host/detail/unpack_chunk.hpp>

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

// Work on a GPU's stream, with the signature that host/unpack.hpp has for a HostStream&. For nvcc
// alone.
namespace penstock {

namespace detail {

/// A warp on the GPU: each thread is a lane, and calls all of this together with the others.
struct GpuLanes {
  template <class T> class Own {
   public:
    PENSTOCK_HD T& operator[](unsigned) { return its_; }

   private:
    T its_;
  };

  PENSTOCK_HD static unsigned lane() {
#if defined(__CUDA_ARCH__)
    return threadIdx.x % warp_lanes;
#else
    return 0;
#endif
  }
  template <class F> PENSTOCK_HD static void each(F f) { f(lane()); }
  template <class F> PENSTOCK_HD static bool any(F f) { return ballot(f(lane())) != 0; }
  template <class Takes, class F> PENSTOCK_HD static unsigned in_turn(Takes takes, F f) {
    const bool its = takes(lane());
    const std::uint32_t all = ballot(its);
    f(lane(), its, bits_set(all & ((1U << lane()) - 1)));
    return bits_set(all);
  }

 private:
  // The host compiles these, and never calls them.
  PENSTOCK_HD static std::uint32_t ballot(bool its) {
#if defined(__CUDA_ARCH__)
    return __ballot_sync(~0U, its);
#else
    return its ? 1 : 0;
#endif
  }
  PENSTOCK_HD static unsigned bits_set(std::uint32_t mask) {
#if defined(__CUDA_ARCH__)
    return static_cast<unsigned>(__popc(mask));
#else
    return mask != 0 ? 1 : 0;
#endif
  }
};

/// Few threads a block, so that few chunks reach all multiprocessors.
inline constexpr unsigned unpack_threads = 128;

template <class Lanes>
__global__ void __launch_bounds__(unpack_threads)
    unpack_kernel(const PackedChunk* chunks, std::size_t count, std::uint8_t* whole) {
  const std::size_t chunk =
      (std::size_t{blockIdx.x} * unpack_threads + threadIdx.x) / warp_lanes; // a warp has one
  if (chunk < count) {
    const bool good = ChunkUnpacker<Lanes>{chunks[chunk]}.run();
    if (threadIdx.x % warp_lanes == 0) {
      whole[chunk] = good ? 1 : 0;
    }
  }
}

template <class Lanes, std::size_t Columns>
__global__ void __launch_bounds__(unpack_threads)
    unpack_batch_kernel(const __grid_constant__ PackedBatch<Columns> batch) {
  const PackedPiece& piece = batch.pieces[blockIdx.y];
  const unsigned i = (blockIdx.x * unpack_threads + threadIdx.x) / warp_lanes; // a warp has one
  if (i >= piece.head.chunks) {
    return;
  }
  const bool itself = batch.is_itself(blockIdx.y);
  PackedChunk chunk;
  const bool good = itself && batch.chunk(piece, i, chunk) && ChunkUnpacker<Lanes>{chunk}.run();
  if (!good && threadIdx.x % warp_lanes == 0) {
    // Any of several: the host's memory knows no minimum.
    *static_cast<volatile std::uint64_t*>(batch.damaged) =
        itself ? batch.chunk_in(blockIdx.y, i) : batch.another;
  }
}

} // namespace detail

/// Unpacks `count` chunks, a warp each, and sets whole[i] to 1 if chunk number i was whole, else to
/// 0. All of it is device memory: the chunks, what they point to, and `whole`. It writes what
/// unpack() on a HostStream& writes, to the last bit. Returns at once. Throws DeviceError.
inline void unpack(cudaStream_t stream, const PackedChunk* chunks, std::size_t count,
                   std::uint8_t* whole) {
  constexpr std::size_t chunks_a_block = detail::unpack_threads / detail::warp_lanes;
  constexpr std::size_t most_at_once = std::size_t{1} << 30;
  while (count != 0) {
    const std::size_t now = count < most_at_once ? count : most_at_once;
    cudaLaunchConfig_t launch{};
    launch.gridDim = dim3{static_cast<unsigned>((now + chunks_a_block - 1) / chunks_a_block)};
    launch.blockDim = dim3{detail::unpack_threads};
    launch.stream = stream;
    detail::cuda_check(
        cudaLaunchKernelEx(&launch, detail::unpack_kernel<detail::GpuLanes>, chunks, now, whole),
        "cudaLaunchKernelEx");
    chunks += now;
    whole += now;
    count -= now;
  }
}

/// Unpacks a packed batch, a warp a chunk, by one kernel that also checks where each chunk lies,
/// and sets `*damaged` if one is not whole. It writes what unpack() on a HostStream& writes.
/// Returns at once. Throws DeviceError.
template <std::size_t Columns> void unpack(cudaStream_t stream, const PackedBatch<Columns>& batch) {
  constexpr unsigned chunks_a_block = detail::unpack_threads / detail::warp_lanes;
  const std::uint32_t chunks = batch.most_chunks();
  if (chunks == 0) {
    return;
  }
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3{(chunks + chunks_a_block - 1) / chunks_a_block, batch.piece_count};
  launch.blockDim = dim3{detail::unpack_threads};
  launch.stream = stream;
  detail::cuda_check(
      cudaLaunchKernelEx(&launch, detail::unpack_batch_kernel<detail::GpuLanes, Columns>, batch),
      "cudaLaunchKernelEx");
}

} // namespace penstock
