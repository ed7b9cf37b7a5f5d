// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops.hpp"

#include <penstock/device_array.hpp>
#include <penstock/error.hpp>

#include <cstddef>
#include <string>
#include <vector>
#if defined(__CUDACC__)
#include <penstock/cuda/for_each.cuh>
#else
#include <penstock/host/algorithm.hpp>
#endif

namespace transformer {

/// Sets gradients to 0, with which they begin.
struct Clear {
  float* at;
  PENSTOCK_HD void operator()(std::size_t i) const { at[i] = 0; }
};

/// A block's activations: what backward needs from forward, besides the block's input.
template <class T, class D> struct Activations {
  template <class Ops>
  Activations(D& device, const Ops& ops)
      : norm1{device, ops.shape().values()}, qkv{device, 3 * ops.shape().values()},
        attended{device, ops.shape().values()}, middle{device, ops.shape().values()},
        norm2{device, ops.shape().values()}, up{device, 4 * ops.shape().values()},
        gelu{device, 4 * ops.shape().values()}, statistics{device, 4 * ops.shape().rows()},
        kept{device, ops.attention_kept()} {}

  std::size_t bytes() const noexcept {
    return sizeof(T) * (norm1.size() + qkv.size() + attended.size() + middle.size() + norm2.size() +
                        up.size() + gelu.size()) +
           sizeof(float) * statistics.size() + kept.size();
  }

  penstock::DeviceArray<T, D> norm1, qkv, attended;
  penstock::DeviceArray<T, D> middle; // after attention and its residual
  penstock::DeviceArray<T, D> norm2, up, gelu;
  penstock::DeviceArray<float, D> statistics; // means and inverse deviations of both norms
  penstock::DeviceArray<std::byte, D> kept;   // by attention
};

/// Transformer blocks one after the other, as in GPT-2: y = x + project(attention(norm(x))), and
/// then y + down(gelu(up(norm(y)))). Forward keeps the activations of `group` blocks, and the input
/// of each group; backward recomputes those of all other groups from their inputs. With one group
/// of all blocks nothing is recomputed.
///
/// All work is enqueued on the operations' stream. Not for several threads at once.
template <class Ops> class Stack {
 public:
  using T = typename Ops::value_type;
  using D = typename Ops::device_type;

  /// Allocates. Throws OptionError if `group` does not divide the number of layers.
  Stack(D& device, Ops& ops, std::size_t group)
      : ops_{ops}, shape_{ops.shape()}, layout_{shape_}, group_{checked(group, shape_)},
        parameters_{device, shape_.layers * layout_.block()},
        gradients_{device, shape_.layers * layout_.block()}, d_{device, shape_.values()},
        d_values_{device, shape_.values()}, d_qkv_{device, 3 * shape_.values()},
        d_up_{device, 4 * shape_.values()}, out_{device, shape_.values()} {
    for (std::size_t block = 0; block < shape_.layers; ++block) {
      if (block < group_) {
        activations_.emplace_back(device, ops);
      }
      // The input of a block inside a group lies in a place that all groups share.
      if (block % group_ == 0 || block < group_) {
        inputs_.emplace_back(device, shape_.values());
      }
    }
  }

  /// Returns the parameters of all blocks, `layout().block()` values each: fill them before
  /// forward().
  T* parameters() noexcept { return parameters_.data(); }
  float* gradients() noexcept { return gradients_.data(); }
  const Layout& layout() const noexcept { return layout_; }
  /// Returns where the input goes; out() has the output. Both have as many values as a batch.
  T* in() noexcept { return input(0); }
  const T* out() const noexcept { return out_.data(); }
  /// Returns the output's gradient, which you fill before backward(); after it, the input's
  /// gradient.
  T* d() noexcept { return d_.data(); }

  /// Returns the bytes that are kept between forward and backward.
  std::size_t activation_bytes() const noexcept {
    return activations_.size() * activations_.front().bytes() +
           inputs_.size() * shape_.values() * sizeof(T);
  }

  void clear_gradients() {
    penstock::for_each(ops_.stream(), gradients_.size(), Clear{gradients_.data()});
  }
  /// Computes out() from in().
  void forward() {
    for (std::size_t block = 0; block < shape_.layers; ++block) {
      forward(block, block + 1 < shape_.layers ? input(block + 1) : out_.data());
    }
  }
  /// Adds to the gradients, after forward(). Calls done(block) when the work for a block's
  /// gradients has been enqueued, from the last block to the first.
  template <class F> void backward(F done) {
    for (std::size_t end = shape_.layers; end != 0; end -= group_) {
      if (end != shape_.layers) {
        recompute(end - group_, end);
      }
      for (std::size_t block = end; block-- != end - group_;) {
        backward(block);
        done(block);
      }
    }
  }
  void backward() {
    backward([](std::size_t) {});
  }

 private:
  static std::size_t checked(std::size_t group, const Shape& shape) {
    if (group == 0 || shape.layers % group != 0) {
      throw penstock::OptionError{"a group of " + std::to_string(group) +
                                  " blocks does not divide " + std::to_string(shape.layers) +
                                  " layers"};
    }
    return group;
  }
  // The first group has a place for each block, and each later group one for its first block.
  T* input(std::size_t block) noexcept {
    const std::size_t inside = block % group_;
    return inputs_[inside != 0 || block == 0 ? inside : group_ + block / group_ - 1].data();
  }
  const T* parameter(std::size_t block, Tensor tensor) const noexcept {
    return parameters_.data() + block * layout_.block() + layout_.begin(tensor);
  }
  float* gradient(std::size_t block, Tensor tensor) noexcept {
    return gradients_.data() + block * layout_.block() + layout_.begin(tensor);
  }

  // Leaves out the last product if `out` is null.
  void forward(std::size_t block, T* out) {
    Activations<T, D>& a = activations_[block % group_];
    const std::size_t c = shape_.width;
    float* const statistics = a.statistics.data();
    ops_.norm({input(block), parameter(block, Tensor::norm1_weight),
               parameter(block, Tensor::norm1_bias), a.norm1.data(), statistics,
               statistics + shape_.rows()});
    ops_.linear({a.norm1.data(), parameter(block, Tensor::qkv_weight),
                 parameter(block, Tensor::qkv_bias), a.qkv.data(), c, 3 * c});
    ops_.attention({a.qkv.data(), a.attended.data(), a.kept.data()});
    ops_.linear({a.attended.data(), parameter(block, Tensor::project_weight),
                 parameter(block, Tensor::project_bias), a.middle.data(), c, c, input(block)});
    ops_.norm({a.middle.data(), parameter(block, Tensor::norm2_weight),
               parameter(block, Tensor::norm2_bias), a.norm2.data(), statistics + 2 * shape_.rows(),
               statistics + 3 * shape_.rows()});
    ops_.linear({a.norm2.data(), parameter(block, Tensor::up_weight),
                 parameter(block, Tensor::up_bias), a.gelu.data(), c, 4 * c, nullptr, a.up.data()});
    if (out != nullptr) {
      ops_.linear({a.gelu.data(), parameter(block, Tensor::down_weight),
                   parameter(block, Tensor::down_bias), out, 4 * c, c, a.middle.data()});
    }
  }
  void recompute(std::size_t begin, std::size_t end) {
    for (std::size_t block = begin; block != end; ++block) {
      forward(block, block + 1 < end ? input(block + 1) : nullptr);
    }
  }

  void backward(std::size_t block) {
    Activations<T, D>& a = activations_[block % group_];
    const std::size_t c = shape_.width;
    const float* const statistics = a.statistics.data();
    // The gradient of a residual's sum goes back both ways: d_ stays, and the other way's is added.
    ops_.linear_backward({d_.data(), a.gelu.data(), parameter(block, Tensor::down_weight),
                          d_up_.data(), gradient(block, Tensor::down_weight),
                          gradient(block, Tensor::down_bias), 4 * c, c, a.up.data()});
    ops_.linear_backward({d_up_.data(), a.norm2.data(), parameter(block, Tensor::up_weight),
                          d_values_.data(), gradient(block, Tensor::up_weight),
                          gradient(block, Tensor::up_bias), c, 4 * c});
    ops_.norm_backward({d_values_.data(), a.middle.data(), parameter(block, Tensor::norm2_weight),
                        statistics + 2 * shape_.rows(), statistics + 3 * shape_.rows(), d_.data(),
                        gradient(block, Tensor::norm2_weight),
                        gradient(block, Tensor::norm2_bias)});
    ops_.linear_backward({d_.data(), a.attended.data(), parameter(block, Tensor::project_weight),
                          d_values_.data(), gradient(block, Tensor::project_weight),
                          gradient(block, Tensor::project_bias), c, c});
    ops_.attention_backward(
        {d_values_.data(), a.qkv.data(), a.attended.data(), a.kept.data(), d_qkv_.data()});
    ops_.linear_backward({d_qkv_.data(), a.norm1.data(), parameter(block, Tensor::qkv_weight),
                          d_values_.data(), gradient(block, Tensor::qkv_weight),
                          gradient(block, Tensor::qkv_bias), c, 3 * c});
    ops_.norm_backward({d_values_.data(), input(block), parameter(block, Tensor::norm1_weight),
                        statistics, statistics + shape_.rows(), d_.data(),
                        gradient(block, Tensor::norm1_weight),
                        gradient(block, Tensor::norm1_bias)});
  }

  Ops& ops_;
  Shape shape_;
  Layout layout_;
  std::size_t group_;
  penstock::DeviceArray<T, D> parameters_;
  penstock::DeviceArray<float, D> gradients_;
  std::vector<Activations<T, D>> activations_; // of a group
  std::vector<penstock::DeviceArray<T, D>> inputs_;
  penstock::DeviceArray<T, D> d_, d_values_, d_qkv_, d_up_;
  penstock::DeviceArray<T, D> out_;
};

} // namespace transformer
