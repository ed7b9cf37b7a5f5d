// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What AdamW computes, on either device: functors for penstock::for_each().

#include "on_device.hpp"
#include "ops.hpp"
#include "schedule.hpp"
#include "shape.hpp"

#include <penstock/config.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace transformer {

struct AdamWOptions {
  float rate = 1e-3F; ///< The greatest, if there is a schedule.
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float decay = 0.1F;
  float clip =
      0; ///< Gradients that are longer than this, all together, are cut to it; 0: none are.
  Schedule schedule = {};
};

/// A tensor in an array of parameters.
struct Part {
  std::size_t begin;
  std::size_t count;
  bool decays;
};
/// Equally large blocks in an array.
struct BlockRange {
  std::size_t begin;
  std::size_t block; ///< Values of one.
};
/// Returns the tensors of blocks that lie back to back.
inline std::vector<Part> parts_of_blocks(const Shape& shape) {
  const Layout layout{shape};
  std::vector<Part> parts;
  for (std::size_t block = 0; block < shape.layers; ++block) {
    for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
      parts.push_back({block * layout.block() + layout.begin(tensor), layout.size(tensor),
                       Layout::decays(tensor)});
    }
  }
  return parts;
}

/// What all parameters of a step have in common. Aligned so that a thread loads it at once.
struct alignas(16) StepNumbers {
  float rate;
  float correct1, correct2; ///< Factors for the means, which begin at 0 and so are too small in the
                            ///< first steps.
  float scale;              ///< Factor of the gradients.
  float norm;               ///< The gradients' length, before it is cut; 0 if nothing ever is.
};

/// Counts a step, and computes its numbers.
struct BeginStep {
  AdamWOptions options;
  float share;           ///< 1 / the number of micro-batches.
  const double* squares; ///< The sum of the gradients' squares; null if they are not cut.
  std::uint64_t* steps;
  StepNumbers* now;

  PENSTOCK_HD void operator()(std::size_t) const {
    const std::uint64_t step = (*steps)++;
    const auto number = static_cast<double>(step + 1);
    now->rate = options.rate * options.schedule.at(step);
    now->correct1 = static_cast<float>(1 / (1 - pow(static_cast<double>(options.beta1), number)));
    now->correct2 = static_cast<float>(1 / (1 - pow(static_cast<double>(options.beta2), number)));
    now->scale = share;
    now->norm = 0;
    if (squares != nullptr) {
      now->norm = static_cast<float>(sqrt(*squares) * static_cast<double>(share));
      if (now->norm > options.clip) {
        now->scale *= options.clip / now->norm;
      }
    }
  }
};

/// The step of four parameters. What is trained is the master, in floats, and a T is a rounded
/// master.
template <class T> struct AdamWStep {
  Four<T>* parameter;
  Four<float>* master;
  Four<float>* mean;
  Four<float>* square;
  const Four<Wide<T>>* gradient;
  const float* decays; ///< One for each Layout::grain values.
  AdamWOptions options;
  const StepNumbers* now;

  PENSTOCK_HD void operator()(std::size_t i) const {
    const StepNumbers step = *now;
    const Four<Wide<T>> g = gradient[i];
    Four<float> m = mean[i];
    Four<float> v = square[i];
    Four<float> p = master[i];
    Four<T> rounded;
    const float decay = decays[i * 4 / Layout::grain];
    for (int k = 0; k < 4; ++k) {
      const float one = static_cast<float>(g.at[k]) * step.scale;
      m.at[k] = options.beta1 * m.at[k] + (1 - options.beta1) * one;
      v.at[k] = options.beta2 * v.at[k] + (1 - options.beta2) * one * one;
      const float change =
          m.at[k] * step.correct1 / (sqrtf(v.at[k] * step.correct2) + options.epsilon);
      p.at[k] -= step.rate * (change + decay * p.at[k]);
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
/// Rounds masters to their parameters.
template <class T> struct RoundMasters {
  const float* master;
  T* parameter;
  PENSTOCK_HD void operator()(std::size_t i) const { parameter[i] = static_cast<T>(master[i]); }
};

} // namespace transformer
