// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape.hpp"

#include <penstock/detail/config.hpp>
#include <penstock/device_array.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#if defined(__CUDACC__)
#include <penstock/cuda/for_each.cuh>
#else
#include <penstock/algorithm.hpp>
#endif

namespace transformer {

struct AdamWOptions {
  float rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float decay = 0.1F;
};

/// One parameter's step. Ts are float or BFloat16; what is trained is the master, in floats, of
/// which a T is rounded.
template <class T> struct AdamWStep {
  T* parameter;
  float* master;
  float* mean;
  float* square;
  const float* gradient;
  float rate, beta1, beta2, epsilon;
  float correct1,
      correct2;        ///< What the first steps' means are multiplied by, since they begin at 0.
  float scale;         ///< Of the gradient: 1 / the number of micro-batches.
  const float* decays; ///< One for each Layout::grain values.

  PENSTOCK_HD void operator()(std::size_t i) const {
    const float g = gradient[i] * scale;
    const float m = beta1 * mean[i] + (1 - beta1) * g;
    const float v = beta2 * square[i] + (1 - beta2) * g * g;
    mean[i] = m;
    square[i] = v;
    float p = master[i];
    p -= rate * (m * correct1 / (sqrtf(v * correct2) + epsilon) + decays[i / Layout::grain] * p);
    master[i] = p;
    parameter[i] = static_cast<T>(p);
  }
};

/// Copies parameters to their masters, whose means begin at 0.
template <class T> struct BeginMasters {
  const T* parameter;
  float* master;
  float* mean;
  float* square;
  PENSTOCK_HD void operator()(std::size_t i) const {
    master[i] = static_cast<float>(parameter[i]);
    mean[i] = 0;
    square[i] = 0;
  }
};

/// Sets all to one value.
struct Fill {
  float* at;
  float value;
  PENSTOCK_HD void operator()(std::size_t i) const { at[i] = value; }
};

/// AdamW over the parameters of all blocks, which lie one after the other as Layout says. What it
/// enqueues on a stream follows what stands there.
template <class T, class D> class AdamW {
 public:
  /// Parameters and gradients must outlive it. `parameters` must be there: they are the masters'
  /// first values, on `stream`.
  AdamW(D& device, const Shape& shape, T* parameters, const float* gradients,
        penstock::Stream<D> stream, AdamWOptions options = {})
      : layout_{shape}, layers_{shape.layers}, options_{options}, master_{device, size()},
        mean_{device, size()}, square_{device, size()}, decays_{device, size() / Layout::grain},
        step_{parameters,
              master_.data(),
              mean_.data(),
              square_.data(),
              gradients,
              options.rate,
              options.beta1,
              options.beta2,
              options.epsilon,
              0,
              0,
              1,
              decays_.data()} {
    reset(stream);
    for (std::size_t block = 0; block < layers_; ++block) {
      for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
        const std::size_t first = block * layout_.block() + layout_.begin(tensor);
        penstock::for_each(stream, grains(layout_.size(tensor)),
                           Fill{decays_.data() + first / Layout::grain,
                                Layout::decays(tensor) ? options.decay : 0.0F});
      }
    }
  }

  /// Forgets all steps: what the parameters are on `stream` are the masters' first values again.
  void reset(penstock::Stream<D> stream) {
    steps_ = 0;
    penstock::for_each(
        stream, size(),
        BeginMasters<T>{step_.parameter, master_.data(), mean_.data(), square_.data()});
  }

  /// Before the parts of a step: the gradients are sums over so many micro-batches.
  void begin_step(std::size_t micro_batches = 1) {
    ++steps_;
    step_.scale = 1 / static_cast<float>(micro_batches);
    step_.correct1 = 1 / (1 - std::pow(options_.beta1, static_cast<float>(steps_)));
    step_.correct2 = 1 / (1 - std::pow(options_.beta2, static_cast<float>(steps_)));
  }
  /// The same step in three ways: a kernel for each tensor, one for a block, one for all.
  /// @{
  void each_tensor(penstock::Stream<D> stream) {
    for (std::size_t block = 0; block < layers_; ++block) {
      for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
        range(block * layout_.block() + layout_.begin(tensor), layout_.size(tensor), stream);
      }
    }
  }
  void block(std::size_t block, penstock::Stream<D> stream) {
    range(block * layout_.block(), layout_.block(), stream);
  }
  void all(penstock::Stream<D> stream) { range(0, size(), stream); }
  /// @}

  std::size_t size() const noexcept { return layers_ * layout_.block(); }
  const float* master() const noexcept { return master_.data(); }

 private:
  static std::size_t grains(std::size_t values) {
    return (values + Layout::grain - 1) / Layout::grain;
  }
  // `first` is a multiple of the grain.
  void range(std::size_t first, std::size_t count, penstock::Stream<D> stream) {
    AdamWStep<T> part = step_;
    part.parameter += first;
    part.master += first;
    part.mean += first;
    part.square += first;
    part.gradient += first;
    part.decays += first / Layout::grain;
    penstock::for_each(stream, count, part);
  }

  Layout layout_;
  std::size_t layers_;
  AdamWOptions options_;
  penstock::DeviceArray<float, D> master_, mean_, square_, decays_;
  AdamWStep<T> step_;
  std::size_t steps_{};
};

} // namespace transformer
