// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "adamw_step.hpp"
#include "on_device.hpp"
#include "ops.hpp"
#include "shape.hpp"
#include "sum.hpp"

#include <penstock/config.hpp>
#include <penstock/device/device_array.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace transformer {

/// AdamW over tensors in one array. What a step needs to know lies in device memory, so that steps
/// can be captured and replayed. Its work follows what is enqueued on the stream already.
template <class T, class D> class AdamW {
 public:
  /// Takes the parts of the array, each at a multiple of Layout::grain, in order; the blocks, which
  /// block() counts; and parameters and gradients, which must outlive it. `parameters` must be
  /// filled by then on `stream`: they are the masters' first values.
  AdamW(D& device, std::vector<Part> parts, const BlockRange& blocks, T* parameters,
        const Wide<T>* gradients, penstock::Stream<D> stream, AdamWOptions options = {})
      : parts_{std::move(parts)}, blocks_{blocks}, options_{options}, size_{end_of(parts_)},
        parameters_{parameters}, gradients_{gradients}, stream_{stream}, master_{device, size_},
        mean_{device, size_}, square_{device, size_}, decays_{device, size_ / Layout::grain},
        steps_{device, 1}, now_{device, 1} {
    if (options.clip > 0) {
      squares_.emplace(device, size_ / 4);
    }
    reset(stream);
    for (const Part& part : parts_) {
      penstock::for_each(stream, grains(part.count),
                         Fill<float>{decays_.data() + part.begin / Layout::grain,
                                     part.decays ? options.decay : 0.0F});
    }
  }
  /// Takes a stack's parameters, which lie back to back as Layout says.
  AdamW(D& device, const Shape& shape, T* parameters, const Wide<T>* gradients,
        penstock::Stream<D> stream, AdamWOptions options = {})
      : AdamW{device,
              parts_of_blocks(shape),
              {0, Layout{shape}.block()},
              parameters,
              gradients,
              stream,
              options} {}

  /// Forgets all steps: the parameters, as they are on `stream`, become the masters' first values
  /// again.
  void reset(penstock::Stream<D> stream) {
    penstock::for_each(stream, size_,
                       BeginMasters<T>{parameters_, master_.data(), mean_.data(), square_.data()});
    set_steps(0, stream);
  }
  /// Goes on after so many steps, from what master(), mean() and square() hold on `stream`: the
  /// parameters become rounded masters.
  void restore(std::uint64_t steps, penstock::Stream<D> stream) {
    penstock::for_each(stream, size_, RoundMasters<T>{master_.data(), parameters_});
    set_steps(steps, stream);
  }

  /// Begins a step, before its parts, on the stream that the constructor got: the gradients are
  /// sums over this many micro-batches. With AdamWOptions::clip they must be complete there.
  void begin_step(std::size_t micro_batches = 1) {
    const double* squares = nullptr;
    if (squares_) {
      squares = (*squares_)(stream_, FourSquares<Wide<T>>{fours(gradients_)});
    }
    penstock::for_each(stream_, 1,
                       BeginStep{options_, 1 / static_cast<float>(micro_batches), squares,
                                 steps_.data(), now_.data()});
  }
  /// Make the step in one of three ways: a kernel for each tensor, one for a range such as a block,
  /// one for all.
  /// @{
  void each_tensor(penstock::Stream<D> stream) {
    for (const Part& part : parts_) {
      range(part.begin, part.count, stream);
    }
  }
  void block(std::size_t block, penstock::Stream<D> stream) {
    range(blocks_.begin + block * blocks_.block, blocks_.block, stream);
  }
  void all(penstock::Stream<D> stream) { range(0, size_, stream); }
  /// `first` is a multiple of Layout::grain. The last four may reach into the gap between tensors.
  void range(std::size_t first, std::size_t count, penstock::Stream<D> stream) {
    penstock::for_each(stream, (count + 3) / 4,
                       AdamWStep<T>{.parameter = fours(parameters_ + first),
                                    .master = fours(master_.data() + first),
                                    .mean = fours(mean_.data() + first),
                                    .square = fours(square_.data() + first),
                                    .gradient = fours(gradients_ + first),
                                    .decays = decays_.data() + first / Layout::grain,
                                    .options = options_,
                                    .now = now_.data()});
  }
  /// @}

  /// Returns how many values there are, with those between tensors.
  std::size_t size() const noexcept { return size_; }
  /// Return the state, in device memory: size() values each.
  /// @{
  float* master() noexcept { return master_.data(); }
  const float* master() const noexcept { return master_.data(); }
  float* mean() noexcept { return mean_.data(); }
  float* square() noexcept { return square_.data(); }
  /// @}
  /// Return the number of steps so far, and what the last step knew, in device memory.
  /// @{
  const std::uint64_t* steps() const noexcept { return steps_.data(); }
  const StepNumbers* now() const noexcept { return now_.data(); }
  /// @}

 private:
  static std::size_t grains(std::size_t values) {
    return (values + Layout::grain - 1) / Layout::grain;
  }
  static std::size_t end_of(const std::vector<Part>& parts) {
    return parts.back().begin + grains(parts.back().count) * Layout::grain;
  }
  void set_steps(std::uint64_t steps, penstock::Stream<D> stream) {
    penstock::for_each(stream, 1, Fill<std::uint64_t>{steps_.data(), steps});
  }

  std::vector<Part> parts_;
  BlockRange blocks_;
  AdamWOptions options_;
  std::size_t size_;
  T* parameters_;
  const Wide<T>* gradients_;
  penstock::Stream<D> stream_;
  penstock::DeviceArray<float, D> master_, mean_, square_, decays_;
  penstock::DeviceArray<std::uint64_t, D> steps_;
  penstock::DeviceArray<StepNumbers, D> now_;
  std::optional<Sum<D>> squares_;
};

} // namespace transformer
