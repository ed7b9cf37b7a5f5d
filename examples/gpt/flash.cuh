// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Causal attention in one kernel, bf16 on tensor cores: scores never reach memory. Forward keeps,
// for each query, the binary logarithm of its sum of exponentials, from which backward computes the
// probabilities again. The method is that of FlashAttention-2 (Dao, arXiv:2307.08691).

#include "flash_backward.cuh"
#include "flash_forward.cuh"
#include "flash_shape.cuh"
#include "launch.cuh"
#include "ops.hpp"
#include "tiles.cuh"

#include <penstock/cuda.hpp>
#include <penstock/data/float16.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/error.hpp>

#include <cmath>
#include <cstddef>
#include <string>

#include <cuda_runtime.h>

namespace transformer {

/// Attention in one kernel forward and three backward.
class FlashAttention {
 public:
  /// Returns whether heads have 64 or 128 values, and sequences a multiple of 128 tokens.
  static bool fits(const Shape& shape) noexcept {
    return (shape.head() == 64 || shape.head() == 128) && shape.tokens % flash::rows == 0;
  }
  /// Throws OptionError unless the shape fits.
  FlashAttention(penstock::CudaDevice& gpu, const Shape& shape)
      : shape_{checked(shape)}, along_{gpu, shape.batch * shape.heads * shape.tokens},
        d_queries_{gpu, shape.values()} {
    const auto here = gpu.attach();
    with_head([this]<int Head>() {
      allow<Head, false>();
      allow<Head, true>();
    });
  }

  /// Returns the bytes that are kept for backward: a float for each query of each head.
  std::size_t kept() const noexcept { return along_.size() * sizeof(float); }

  void forward(const Attention<penstock::BFloat16>& x, cudaStream_t stream) {
    with_head_and_drops(x.drops,
                        [&]<int Head, bool Dropping>() { forward<Head, Dropping>(x, stream); });
  }
  void backward(const AttentionBackward<penstock::BFloat16>& x, cudaStream_t stream) {
    with_head_and_drops(x.drops,
                        [&]<int Head, bool Dropping>() { backward<Head, Dropping>(x, stream); });
  }

 private:
  static const Shape& checked(const Shape& shape) {
    if (!fits(shape)) {
      throw penstock::OptionError{"fused attention is for heads of 64 or 128 values and multiples "
                                  "of 128 tokens, not for heads of " +
                                  std::to_string(shape.head()) + " and " +
                                  std::to_string(shape.tokens) + " tokens"};
    }
    return shape;
  }
  // Call f.template operator()<head's values>(), and with whether something is dropped.
  template <class F> void with_head(F f) const {
    shape_.head() == 64 ? f.template operator()<64>() : f.template operator()<128>();
  }
  template <class F> void with_head_and_drops(const Drops& drops, F f) const {
    with_head([&]<int Head>() {
      drops ? f.template operator()<Head, true>() : f.template operator()<Head, false>();
    });
  }
  template <int Head, bool Dropping> static void allow() {
    const auto set = [](const void* kernel, std::size_t bytes) {
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(bytes)),
            "cudaFuncSetAttribute");
    };
    set(reinterpret_cast<const void*>(&flash::forward<Head, Dropping>), flash::forward_bytes<Head>);
    set(reinterpret_cast<const void*>(&flash::backward<Head, Dropping>),
        flash::backward_bytes<Head, Dropping>);
  }
  static const Bf16* bits(const void* at) { return static_cast<const Bf16*>(at); }
  static Bf16* bits(void* at) { return static_cast<Bf16*>(at); }

  FlashShape of_heads() const {
    return {shape_.tokens, static_cast<unsigned>(shape_.heads),
            static_cast<unsigned>(shape_.head()), 1 / std::sqrt(static_cast<float>(shape_.head()))};
  }
  /// Returns a grid whose blocks take `rows` tokens of a head each.
  dim3 blocks(std::size_t rows) const {
    return {static_cast<unsigned>(shape_.batch * shape_.heads),
            static_cast<unsigned>(shape_.tokens / rows)};
  }

  template <int Head, bool Dropping>
  void forward(const Attention<penstock::BFloat16>& x, cudaStream_t stream) {
    flash::forward<Head, Dropping>
        <<<blocks(flash::rows), flash::forward_threads, flash::forward_bytes<Head>, stream>>>(
            bits(x.qkv), bits(x.out), static_cast<float*>(x.kept), of_heads(), x.drops);
    check(cudaGetLastError(), "flash::forward");
  }
  template <int Head, bool Dropping>
  void backward(const AttentionBackward<penstock::BFloat16>& x, cudaStream_t stream) {
    const dim3 queries = blocks(flash::block_queries<Head>);
    flash::along_kernel<Head><<<queries, flash::threads, 0, stream>>>(bits(x.d_out), bits(x.out),
                                                                      along_.data(), of_heads());
    check(cudaGetLastError(), "flash::along_kernel");
    check(cudaMemsetAsync(d_queries_.data(), 0, d_queries_.size() * sizeof(float), stream),
          "cudaMemsetAsync");
    flash::backward<Head, Dropping>
        <<<blocks(flash::rows), flash::threads, flash::backward_bytes<Head, Dropping>, stream>>>(
            bits(x.qkv), bits(x.d_out), static_cast<const float*>(x.kept), along_.data(),
            d_queries_.data(), bits(x.d_qkv), of_heads(), x.drops);
    check(cudaGetLastError(), "flash::backward");
    flash::queries_kernel<Head>
        <<<queries, flash::threads, 0, stream>>>(d_queries_.data(), bits(x.d_qkv), of_heads());
    check(cudaGetLastError(), "flash::queries_kernel");
  }

  Shape shape_;
  penstock::DeviceArray<float, penstock::CudaDevice> along_;
  penstock::DeviceArray<float, penstock::CudaDevice> d_queries_;
};

} // namespace transformer
