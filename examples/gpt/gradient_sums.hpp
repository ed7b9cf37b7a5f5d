// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model_layout.hpp"
#include "on_device.hpp"
#include "reducer.hpp"

#include <penstock/device/device.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace transformer {

/// Sets a value to a share of another one.
template <class W> struct TakeShare {
  const W* of;
  W* to;
  W share;
  PENSTOCK_HD void operator()(std::size_t) const { *to = *of * share; }
};

/// What the ranks of a training add up, part by part: a part as soon as backward is done with it.
/// Without a Reducer it does nothing.
template <class W, penstock::AnyDevice D> class GradientSums {
 public:
  /// `loss` and `gradients` are this rank's, in device memory, and must outlive it.
  GradientSums(D& device, const ModelLayout& layout, const penstock::Ranks& ranks, const W* loss,
               W* gradients)
      : layout_{layout}, world_{ranks.world}, loss_{loss}, gradients_{gradients},
        loss_of_all_{device, 1} {}

  void reduce_by(Reducer<W, D>& reducer) noexcept { reducer_ = &reducer; }
  /// Returns whether there is anything to do.
  explicit operator bool() const noexcept { return reducer_ != nullptr; }
  /// Throws Error if there are several ranks and nothing adds up.
  void check() const {
    if (reducer_ == nullptr && world_ != 1) {
      throw penstock::Error{"nothing adds up the gradients of " + std::to_string(world_) +
                            " ranks: call reduce_by() before the first pass"};
    }
  }

  /// Returns the mean loss of all ranks, in device memory.
  const W* loss() const noexcept { return reducer_ != nullptr ? loss_of_all_.data() : loss_; }
  /// Enqueues what makes loss() that of all ranks.
  void share_loss(penstock::Stream<D> stream) {
    if (reducer_ != nullptr) {
      const W share = W{1} / static_cast<W>(world_);
      penstock::for_each(stream, 1, TakeShare<W>{loss_, loss_of_all_.data(), share});
      reducer_->sum(stream, loss_of_all_.data(), 1);
    }
  }
  /// Enqueues the sums of a block's gradients. With those of the last block, backward's first, go
  /// the loss, and the gradients behind the blocks.
  void block(std::size_t block, penstock::Stream<D> stream) {
    const bool is_last = block + 1 == layout_.config().layers;
    const std::size_t begin = layout_.blocks() + block * layout_.block().block();
    if (is_last) {
      share_loss(stream);
    }
    sum(begin, is_last ? layout_.size() : begin + layout_.block().block(), stream);
  }
  /// Enqueues the sums of the embeddings' gradients, to which backward adds to its end.
  void embeddings(penstock::Stream<D> stream) { sum(0, layout_.blocks(), stream); }

 private:
  void sum(std::size_t begin, std::size_t end, penstock::Stream<D> stream) {
    if (reducer_ != nullptr) {
      reducer_->sum(stream, gradients_ + begin, end - begin);
    }
  }

  ModelLayout layout_;
  std::uint32_t world_;
  const W* loss_;
  W* gradients_;
  penstock::DeviceArray<W, D> loss_of_all_;
  Reducer<W, D>* reducer_ = nullptr;
};

} // namespace transformer
