// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape.hpp"

#include <penstock/config.hpp>
#include <penstock/device_array.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#if defined(__CUDACC__)
#include <penstock/cuda/for_each.cuh>
#else
#include <penstock/host/algorithm.hpp>
#endif

namespace transformer {

struct AdamWOptions {
  float rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float decay = 0.1F;
};

/// Four adjacent values, which one instruction loads or stores.
template <class T> struct alignas(4 * sizeof(T)) Four {
  T at[4];
};

/// The step of four parameters. Ts are float or BFloat16; what is trained is the master, in floats,
/// and a T is a rounded master.
template <class T> struct AdamWStep {
  Four<T>* parameter;
  Four<float>* master;
  Four<float>* mean;
  Four<float>* square;
  const Four<float>* gradient;
  const float* decays; ///< One for each Layout::grain values.
  AdamWOptions options;
  float correct1, correct2; ///< Factors for the means, which begin at 0 and so are too small in the
                            ///< first steps.
  float scale;              ///< Factor of the gradient: 1 / the number of micro-batches.

  PENSTOCK_HD void operator()(std::size_t i) const {
    const Four<float> g = gradient[i];
    Four<float> m = mean[i];
    Four<float> v = square[i];
    Four<float> p = master[i];
    Four<T> rounded;
    const float decay = decays[i * 4 / Layout::grain];
    for (int k = 0; k < 4; ++k) {
      const float one = g.at[k] * scale;
      m.at[k] = options.beta1 * m.at[k] + (1 - options.beta1) * one;
      v.at[k] = options.beta2 * v.at[k] + (1 - options.beta2) * one * one;
      const float change = m.at[k] * correct1 / (sqrtf(v.at[k] * correct2) + options.epsilon);
      p.at[k] -= options.rate * (change + decay * p.at[k]);
      rounded.at[k] = static_cast<T>(p.at[k]);
    }
    mean[i] = m;
    square[i] = v;
    master[i] = p;
    parameter[i] = rounded;
  }
};

/// Copies parameters to their masters, and sets the means to 0.
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

/// Sets each value to `value`.
struct Fill {
  float* at;
  float value;
  PENSTOCK_HD void operator()(std::size_t i) const { at[i] = value; }
};

/// AdamW over the parameters of all blocks, which lie back to back as Layout says. Its work follows
/// what is enqueued on the stream already.
template <class T, class D> class AdamW {
 public:
  /// Takes parameters and gradients, which must outlive it. `parameters` must be filled by then on
  /// `stream`: they are the masters' first values.
  AdamW(D& device, const Shape& shape, T* parameters, const float* gradients,
        penstock::Stream<D> stream, AdamWOptions options = {})
      : layout_{shape}, layers_{shape.layers}, options_{options}, parameters_{parameters},
        gradients_{gradients}, master_{device, size()}, mean_{device, size()},
        square_{device, size()}, decays_{device, size() / Layout::grain} {
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

  /// Forgets all steps: the parameters, as they are on `stream`, become the masters' first values
  /// again.
  void reset(penstock::Stream<D> stream) {
    steps_ = 0;
    penstock::for_each(stream, size(),
                       BeginMasters<T>{parameters_, master_.data(), mean_.data(), square_.data()});
  }

  /// Begins a step, before its parts: the gradients are sums over this many micro-batches.
  void begin_step(std::size_t micro_batches = 1) {
    ++steps_;
    scale_ = 1 / static_cast<float>(micro_batches);
  }
  /// Make the step in one of three ways: a kernel for each tensor, one for a block, one for all.
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
  template <class V> static Four<V>* fours(V* at) { return reinterpret_cast<Four<V>*>(at); }
  // `first` is a multiple of the grain. The last four may reach into the gap between tensors.
  void range(std::size_t first, std::size_t count, penstock::Stream<D> stream) {
    const auto steps = static_cast<float>(steps_);
    penstock::for_each(
        stream, (count + 3) / 4,
        AdamWStep<T>{.parameter = fours(parameters_ + first),
                     .master = fours(master_.data() + first),
                     .mean = fours(mean_.data() + first),
                     .square = fours(square_.data() + first),
                     .gradient = reinterpret_cast<const Four<float>*>(gradients_ + first),
                     .decays = decays_.data() + first / Layout::grain,
                     .options = options_,
                     .correct1 = 1 / (1 - std::pow(options_.beta1, steps)),
                     .correct2 = 1 / (1 - std::pow(options_.beta2, steps)),
                     .scale = scale_});
  }

  Layout layout_;
  std::size_t layers_;
  AdamWOptions options_;
  T* parameters_;
  const float* gradients_;
  penstock::DeviceArray<float, D> master_, mean_, square_, decays_;
  float scale_ = 1;
  std::size_t steps_{};
};

} // namespace transformer
