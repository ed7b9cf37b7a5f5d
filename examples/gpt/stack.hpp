// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dropout.hpp"
#include "on_device.hpp"
#include "ops.hpp"

#include <penstock/device/device_array.hpp>
#include <penstock/error.hpp>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace transformer {

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
           sizeof(Wide<T>) * statistics.size() + kept.size();
  }

  penstock::DeviceArray<T, D> norm1, qkv, attended;
  penstock::DeviceArray<T, D> middle; // after attention and its residual
  penstock::DeviceArray<T, D> norm2, up, gelu;
  penstock::DeviceArray<Wide<T>, D> statistics; // means and inverse deviations of both norms
  penstock::DeviceArray<std::byte, D> kept;     // by attention
};

/// Transformer blocks one after the other, as in GPT-2: y = x + project(attention(norm(x))), and
/// then y + down(gelu(up(norm(y)))). Forward keeps the activations of `group` blocks, and the input
/// of each group; backward recomputes those of all other groups from their inputs. With one group
/// of all blocks nothing is recomputed. Dropout falls on the probabilities of attention, and on
/// what goes into each residual's sum.
///
/// All work is enqueued on the operations' stream. Not for several threads at once.
template <class Ops> class Stack {
 public:
  using T = typename Ops::value_type;
  using D = typename Ops::device_type;

  /// Where parameters and gradients lie, if it is not the stack that owns them.
  struct Borrowed {
    T* parameters;
    Wide<T>* gradients;
  };

  /// Allocates. Throws OptionError if `group` does not divide the number of layers.
  /// @{
  Stack(D& device, Ops& ops, std::size_t group) : Stack{device, ops, group, 1, {}, {}} {}
  Stack(D& device, Ops& ops, std::size_t group, const Borrowed& borrowed, const Dropout& dropout)
      : Stack{device, ops, group, 0, borrowed, dropout} {}
  /// @}
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  /// Returns the parameters of all blocks, `layout().block()` values each: fill them before
  /// forward().
  T* parameters() noexcept { return parameters_; }
  Wide<T>* gradients() noexcept { return gradients_; }
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
    penstock::for_each(ops_.stream(), shape_.layers * layout_.block(),
                       Fill<Wide<T>>{gradients_, 0});
  }
  /// Computes out() from in(), and drops nothing.
  void evaluate() { forward(Dropout{}); }
  /// Computes out() from in().
  void forward() { forward(dropout_); }
  /// Adds to the gradients, after forward(). Calls done(block) when the work for a block's
  /// gradients has been enqueued, from the last block to the first.
  template <class F> void backward(F done) {
    if (rest() != nullptr) {
      penstock::for_each(ops_.stream(), d_rest_.size(), Fill<T>{d_rest_.data(), T{}});
    }
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
  // `owned` is 1 or 0: as many arrays of parameters and of gradients are the stack's own.
  Stack(D& device, Ops& ops, std::size_t group, std::size_t owned, const Borrowed& borrowed,
        const Dropout& dropout)
      : ops_{ops}, shape_{ops.shape()}, layout_{shape_}, group_{checked(group, shape_)},
        dropout_{dropout}, own_parameters_{device, owned * shape_.layers * layout_.block()},
        own_gradients_{device, owned * shape_.layers * layout_.block()},
        parameters_{owned != 0 ? own_parameters_.data() : borrowed.parameters},
        gradients_{owned != 0 ? own_gradients_.data() : borrowed.gradients},
        d_{device, shape_.values()},
        d_rest_{device, std::is_same_v<T, Wide<T>> ? 0 : shape_.values()},
        d_values_{device, shape_.values()},
        d_dropped_{device, dropout.rate > 0 ? shape_.values() : 0},
        d_qkv_{device, 3 * shape_.values()}, d_up_{device, 4 * shape_.values()},
        out_{device, shape_.values()} {
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
    return parameters_ + block * layout_.block() + layout_.begin(tensor);
  }
  Wide<T>* gradient(std::size_t block, Tensor tensor) noexcept {
    return gradients_ + block * layout_.block() + layout_.begin(tensor);
  }

  void forward(const Dropout& dropout) {
    for (std::size_t block = 0; block < shape_.layers; ++block) {
      forward(block, block + 1 < shape_.layers ? input(block + 1) : out_.data(), dropout);
    }
  }
  // The residual is added by the product itself, unless something is dropped in between.
  void linear_and_residual(Linear<T> x, const Drops& drops) {
    if (!drops) {
      ops_.linear(x);
      return;
    }
    const T* const residual = std::exchange(x.residual, nullptr);
    ops_.linear(x);
    ops_.drop({x.out, x.out, drops, residual});
  }
  // Returns the gradient of what was dropped from on its way into a residual's sum.
  const T* d_before(const Drops& drops) {
    if (!drops) {
      return d_.data();
    }
    ops_.drop({d_.data(), d_dropped_.data(), drops});
    return d_dropped_.data();
  }

  T* rest() noexcept { return d_rest_.size() != 0 ? d_rest_.data() : nullptr; }

  // Leaves out the last product if `out` is null.
  void forward(std::size_t block, T* out, const Dropout& dropout) {
    Activations<T, D>& a = activations_[block % group_];
    const std::size_t c = shape_.width;
    Wide<T>* const statistics = a.statistics.data();
    ops_.norm({input(block), parameter(block, Tensor::norm1_weight),
               parameter(block, Tensor::norm1_bias), a.norm1.data(), statistics,
               statistics + shape_.rows()});
    ops_.linear({a.norm1.data(), parameter(block, Tensor::qkv_weight),
                 parameter(block, Tensor::qkv_bias), a.qkv.data(), c, 3 * c});
    ops_.attention({a.qkv.data(), a.attended.data(), a.kept.data(), dropout.attention(block)});
    linear_and_residual({a.attended.data(), parameter(block, Tensor::project_weight),
                         parameter(block, Tensor::project_bias), a.middle.data(), c, c,
                         input(block)},
                        dropout.project(block));
    ops_.norm({a.middle.data(), parameter(block, Tensor::norm2_weight),
               parameter(block, Tensor::norm2_bias), a.norm2.data(), statistics + 2 * shape_.rows(),
               statistics + 3 * shape_.rows()});
    ops_.linear({a.norm2.data(), parameter(block, Tensor::up_weight),
                 parameter(block, Tensor::up_bias), a.gelu.data(), c, 4 * c, nullptr, a.up.data()});
    if (out != nullptr) {
      linear_and_residual({a.gelu.data(), parameter(block, Tensor::down_weight),
                           parameter(block, Tensor::down_bias), out, 4 * c, c, a.middle.data()},
                          dropout.down(block));
    }
  }
  void recompute(std::size_t begin, std::size_t end) {
    for (std::size_t block = begin; block != end; ++block) {
      forward(block, block + 1 < end ? input(block + 1) : nullptr, dropout_);
    }
  }

  void backward(std::size_t block) {
    Activations<T, D>& a = activations_[block % group_];
    const std::size_t c = shape_.width;
    const Wide<T>* const statistics = a.statistics.data();
    // The gradient of a residual's sum goes back both ways: d_ stays, and the other way's is added.
    ops_.linear_backward({d_before(dropout_.down(block)), a.gelu.data(),
                          parameter(block, Tensor::down_weight), d_up_.data(),
                          gradient(block, Tensor::down_weight), gradient(block, Tensor::down_bias),
                          4 * c, c, a.up.data()});
    ops_.linear_backward({d_up_.data(), a.norm2.data(), parameter(block, Tensor::up_weight),
                          d_values_.data(), gradient(block, Tensor::up_weight),
                          gradient(block, Tensor::up_bias), c, 4 * c});
    ops_.norm_backward({d_values_.data(), a.middle.data(), parameter(block, Tensor::norm2_weight),
                        statistics + 2 * shape_.rows(), statistics + 3 * shape_.rows(), d_.data(),
                        gradient(block, Tensor::norm2_weight), gradient(block, Tensor::norm2_bias),
                        true, rest()});
    ops_.linear_backward({d_before(dropout_.project(block)), a.attended.data(),
                          parameter(block, Tensor::project_weight), d_values_.data(),
                          gradient(block, Tensor::project_weight),
                          gradient(block, Tensor::project_bias), c, c});
    ops_.attention_backward({d_values_.data(), a.qkv.data(), a.attended.data(), a.kept.data(),
                             d_qkv_.data(), dropout_.attention(block)});
    ops_.linear_backward({d_qkv_.data(), a.norm1.data(), parameter(block, Tensor::qkv_weight),
                          d_values_.data(), gradient(block, Tensor::qkv_weight),
                          gradient(block, Tensor::qkv_bias), c, 3 * c});
    ops_.norm_backward({d_values_.data(), input(block), parameter(block, Tensor::norm1_weight),
                        statistics, statistics + shape_.rows(), d_.data(),
                        gradient(block, Tensor::norm1_weight), gradient(block, Tensor::norm1_bias),
                        true, rest()});
  }

  Ops& ops_;
  Shape shape_;
  Layout layout_;
  std::size_t group_;
  Dropout dropout_;
  penstock::DeviceArray<T, D> own_parameters_;
  penstock::DeviceArray<Wide<T>, D> own_gradients_;
  T* parameters_;
  Wide<T>* gradients_;
  std::vector<Activations<T, D>> activations_; // of a group
  std::vector<penstock::DeviceArray<T, D>> inputs_;
  penstock::DeviceArray<T, D> d_, d_rest_; // d_rest_: what 16 bits are too few for, if T has 16
  penstock::DeviceArray<T, D> d_values_, d_dropped_, d_qkv_, d_up_;
  penstock::DeviceArray<T, D> out_;
};

} // namespace transformer
