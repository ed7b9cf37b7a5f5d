// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/algorithm.cuh>
#include <penstock/cuda/detail/launch.cuh>
#include <penstock/host/sort.hpp>
#include <penstock/workspace.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cuda_runtime.h>

// Work on a GPU's stream, with the signatures that sort.hpp has for a HostStream&: what
// cuda/algorithm.cuh says of its algorithms, and sort.hpp of keys, holds for these. For nvcc alone.
namespace penstock {

/// Writes in[0] to in[n - 1] to `out`, in order. Both are device memory, and must not overlap. Any
/// n will do: more than 2^31 too. The workspace needs a little more than n keys, and at least some
/// hundred KiB; Error tells if it has less.
template <class K>
void sort(cudaStream_t stream, const K* in, std::size_t n, K* out, Workspace<CudaDevice>& workspace,
          Order order = Order::ascending) {
  detail::check_key<K>();
  if (n == 0) {
    return;
  }
  detail::with_scratch("sort", workspace, 0, [&](void* scratch, std::size_t& bytes) {
    using Sort = cub::DeviceRadixSort;
    constexpr int bits = 8 * sizeof(K);
    return order == Order::ascending
               ? Sort::SortKeys(scratch, bytes, in, out, n, 0, bits, stream)
               : Sort::SortKeysDescending(scratch, bytes, in, out, n, 0, bits, stream);
  });
}

/// Sorts by keys as above, and takes the values with them: of equal keys each order keeps the first
/// first. The workspace needs a little more than n keys and n values.
template <class K, class V>
void sort(cudaStream_t stream, const K* keys, const V* values, std::size_t n, K* keys_out,
          V* values_out, Workspace<CudaDevice>& workspace, Order order = Order::ascending) {
  detail::check_key<K>();
  static_assert(std::is_trivially_copyable_v<V>, "penstock: values are copied byte by byte.");
  if (n == 0) {
    return;
  }
  detail::with_scratch("sort", workspace, 0, [&](void* scratch, std::size_t& bytes) {
    using Sort = cub::DeviceRadixSort;
    constexpr int bits = 8 * sizeof(K);
    return order == Order::ascending
               ? Sort::SortPairs(scratch, bytes, keys, keys_out, values, values_out, n, 0, bits,
                                 stream)
               : Sort::SortPairsDescending(scratch, bytes, keys, keys_out, values, values_out, n, 0,
                                           bits, stream);
  });
}

namespace detail {

static_assert(block_threads == digits, "each thread has a digit");

/// How many keys a thread loads before it looks at the first, so that enough loads are under way.
inline constexpr unsigned keys_at_once = 4;
inline constexpr unsigned block_keys = block_threads * keys_at_once;

/// Some keys of a segment, from its `from`-th on: a thread's are `block_threads` apart.
template <class K> struct SomeKeys {
  KeyBits<K> bits[keys_at_once];
  bool there[keys_at_once];

  __device__ SomeKeys(const K* segment, std::size_t width, std::size_t from) {
    K keys[keys_at_once];
#pragma unroll
    for (unsigned k = 0; k < keys_at_once; ++k) {
      const std::size_t i = from + k * block_threads + threadIdx.x;
      there[k] = i < width;
      keys[k] = there[k] ? segment[i] : K{};
    }
#pragma unroll
    for (unsigned k = 0; k < keys_at_once; ++k) {
      bits[k] = ordered_bits(keys[k]);
    }
  }
};

/// The k-th largest key of a segment, and how many of those equal to it are among the largest k.
template <class K> struct Threshold {
  KeyBits<K> bits;
  unsigned equal;
};

using BlockScan = cub::BlockScan<unsigned, block_threads>;

/// Finds it digit by digit from the highest, by counting how many keys that begin as it does have
/// each next digit. All threads of the block must call.
template <class K>
__device__ Threshold<K> find_threshold(const K* segment, std::size_t width, unsigned k,
                                       typename BlockScan::TempStorage& scan) {
  using Bits = KeyBits<K>;
  __shared__ unsigned counts[digits];
  __shared__ Threshold<K> found;
  Threshold<K> threshold{0, k};
  Bits known = 0; // which bits of it are found
  for (unsigned shift = 8 * sizeof(K); shift != 0;) {
    shift -= digit_bits;
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (std::size_t from = 0; from < width; from += block_keys) {
      const SomeKeys<K> keys{segment, width, from};
#pragma unroll
      for (unsigned j = 0; j < keys_at_once; ++j) {
        if (keys.there[j] && (keys.bits[j] & known) == threshold.bits) {
          atomicAdd(&counts[static_cast<unsigned>(keys.bits[j] >> shift) % digits], 1U);
        }
      }
    }
    __syncthreads();
    const auto digit = static_cast<unsigned>(digits - 1 - threadIdx.x); // the largest first
    const unsigned count = counts[digit];
    unsigned upto = 0;
    BlockScan{scan}.InclusiveSum(count, upto);
    if (upto >= threshold.equal && upto - count < threshold.equal) {
      const auto bits = static_cast<Bits>(threshold.bits | static_cast<Bits>(digit) << shift);
      found = Threshold<K>{bits, threshold.equal - (upto - count)};
    }
    __syncthreads();
    threshold = found;
    known = static_cast<Bits>(known | static_cast<Bits>(digits - 1) << shift);
  }
  return threshold;
}

/// A block for each segment. Those above the threshold are gathered, then the first of those equal
/// to it, each by their indices; then each is written to the place that it has among them.
template <class K>
__global__ void __launch_bounds__(block_threads)
    top_k_kernel(const K* in, std::size_t segments, std::size_t width, unsigned k, K* values,
                 std::uint32_t* indices) {
  __shared__ typename BlockScan::TempStorage scan;
  __shared__ KeyBits<K> kept[most_top_k];
  __shared__ std::uint32_t kept_index[most_top_k];
  for (std::size_t number = blockIdx.x; number < segments; number += gridDim.x) {
    const K* const segment = in + number * width;
    const Threshold<K> threshold = find_threshold(segment, width, k, scan);
    const unsigned all_above = k - threshold.equal;
    unsigned above = 0; // gathered so far, the same in each thread
    unsigned equal = 0;
    for (std::size_t from = 0; from < width && above + equal < k; from += block_keys) {
      const SomeKeys<K> keys{segment, width, from};
      bool any = false;
#pragma unroll
      for (unsigned j = 0; j < keys_at_once; ++j) {
        any = any || (keys.there[j] && keys.bits[j] >= threshold.bits);
      }
      if (__syncthreads_or(any) == 0) {
        continue; // as nearly always
      }
#pragma unroll
      for (unsigned j = 0; j < keys_at_once; ++j) {
        const bool is_above = keys.there[j] && keys.bits[j] > threshold.bits;
        const bool is_equal = keys.there[j] && keys.bits[j] == threshold.bits;
        // Both counts in one number: neither is more than the block's threads.
        constexpr unsigned one_equal = 1U << 16;
        unsigned before = 0;
        unsigned all = 0;
        BlockScan{scan}.ExclusiveSum((is_above ? 1U : 0U) + (is_equal ? one_equal : 0U), before,
                                     all);
        const unsigned nth_equal = equal + before / one_equal;
        if (is_above || (is_equal && nth_equal < threshold.equal)) {
          const unsigned place = is_above ? above + before % one_equal : all_above + nth_equal;
          kept[place] = keys.bits[j];
          kept_index[place] = static_cast<std::uint32_t>(from + j * block_threads + threadIdx.x);
        }
        above += all % one_equal;
        equal = min(equal + all / one_equal, threshold.equal);
        __syncthreads(); // before the scan's memory is used again
      }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < k; i += block_threads) {
      unsigned place = 0;
      for (unsigned other = 0; other < k; ++other) {
        place += kept[other] > kept[i] || (kept[other] == kept[i] && other < i) ? 1U : 0U;
      }
      values[number * k + place] = segment[kept_index[i]];
      indices[number * k + place] = kept_index[i];
    }
  }
}

} // namespace detail

/// The k largest of each of `segments` segments of `width` keys, which lie one after another: their
/// values, the largest first, from values[segment * k] on, and from indices[segment * k] on where
/// in the segment they are. Of equal keys those with the lower index are taken, and come first. All
/// are device memory, and must not overlap. Throws Error if k is more than `width` or `most_top_k`,
/// or `width` needs more than 32 bits.
///
/// It needs no workspace. One block works on each segment, so let there be more of them than the
/// GPU has multiprocessors. It reads a segment once for each byte of a key, and once more, whatever
/// the keys are; then it compares the k with each other.
template <class K>
void segmented_top_k(cudaStream_t stream, const K* in, std::size_t segments, std::size_t width,
                     std::size_t k, K* values, std::uint32_t* indices) {
  detail::check_key<K>();
  detail::check_top_k(width, k);
  if (segments == 0 || k == 0) {
    return;
  }
  detail::launch(stream, segments, 1, detail::top_k_kernel<K>, in, segments, width,
                 static_cast<unsigned>(k), values, indices);
}

} // namespace penstock
