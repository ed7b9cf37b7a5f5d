// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared by the programs that train a stack of transformer blocks, in bf16.

#include "numbers.cuh"

#include "gpt/gpu_ops.cuh"
#include "gpt/stack.hpp"

#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>
#include <penstock/data/float16.hpp>
#include <penstock/device/device_array.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock_bench {

/// A stack with the same parameters and the same batch in each construction.
class Blocks {
 public:
  using T = ps::BFloat16;
  using Ops = transformer::GpuOps<T>;

  /// Blocks until all is filled.
  Blocks(ps::CudaDevice& gpu, const transformer::Shape& shape, std::size_t group)
      : ops_{gpu, shape}, stack_{gpu, ops_, group}, d_{gpu, shape.values()} {
    using transformer::Tensor;
    const transformer::Layout& layout = stack_.layout();
    for (std::size_t block = 0; block < shape.layers; ++block) {
      for (std::size_t tensor = 0; tensor < transformer::tensors; ++tensor) {
        const auto which = static_cast<Tensor>(tensor);
        const bool scales = which == Tensor::norm1_weight || which == Tensor::norm2_weight;
        T* const at = stack_.parameters() + block * layout.block() + layout.begin(tensor);
        ps::for_each(
            ops_.stream(), layout.size(tensor),
            FillNumbers<T>{at, block * transformer::tensors + tensor, 0.03F, scales ? 1.0F : 0.0F});
      }
    }
    ps::for_each(ops_.stream(), shape.values(), FillNumbers<T>{stack_.in(), 1000});
    ps::for_each(ops_.stream(), shape.values(), FillNumbers<T>{d_.data(), 1001});
    gpu.sync(ops_.stream());
  }

  /// Enqueues forward, and backward from the same gradient each time; calls done(block) as
  /// Stack::backward() does.
  template <class F> void pass(F done) {
    stack_.forward();
    transformer::check(cudaMemcpyAsync(stack_.d(), d_.data(), d_.size() * sizeof(T),
                                       cudaMemcpyDeviceToDevice, ops_.stream().get()),
                       "cudaMemcpyAsync");
    stack_.backward(done);
  }
  void pass() {
    pass([](std::size_t) {});
  }

  Ops& ops() noexcept { return ops_; }
  transformer::Stack<Ops>& stack() noexcept { return stack_; }
  const transformer::Stack<Ops>& stack() const noexcept { return stack_; }
  /// Returns the number of parameters of all blocks, gaps between tensors included.
  std::size_t parameters() const noexcept { return ops_.shape().layers * stack_.layout().block(); }

 private:
  Ops ops_;
  transformer::Stack<Ops> stack_;
  ps::DeviceArray<T, ps::CudaDevice> d_;
};

/// Returns the multiplications and additions of a pass: those of the products, and of attention up
/// to each token's own place.
inline double flops_of_pass(const transformer::Shape& shape) {
  const auto width = static_cast<double>(shape.width);
  const double forward = 24 * width * width + 2 * width * static_cast<double>(shape.tokens);
  return 3 * forward * static_cast<double>(shape.rows() * shape.layers);
}

} // namespace penstock_bench
