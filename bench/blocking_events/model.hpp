// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stands for a model in the programs of this folder, on either device.

#include "add.hpp"
#include "event.hpp"

#include <penstock/callables/workspace.hpp>
#include <penstock/device/device.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/host/device.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace penstock_bench {

namespace ps = penstock;

/// Writes each value as a float, after `rounds` multiplications by `one`; the compiler does not
/// know that it is 1.
template <class T> struct Layers {
  const T* in;
  float* out;
  int rounds;
  float one;
  float zero;
  PENSTOCK_HD void operator()(std::size_t i) const {
    auto value = static_cast<float>(in[i]);
    for (int round = 0; round < rounds; ++round) {
      value = value * one + zero;
    }
    out[i] = value;
  }
};

/// A step over a batch, whose loss is the sum of its values: exact if they are whole numbers.
template <ps::AnyDevice D> class Model {
 public:
  /// For batches of up to `most_values`. `rounds` sets how long a step takes: see rounds_for().
  Model(D& device, std::size_t most_values, int rounds)
      : rounds_{rounds}, out_{device, most_values}, loss_{device, 1}, workspace_{device} {}

  /// Enqueues the step; one stream at a time.
  template <class T> void step(const T* batch, std::size_t values, ps::Stream<D> stream) {
    ps::for_each(stream, values, Layers<T>{batch, out_.data(), rounds_, 1, 0});
    ps::reduce(stream, out_.data(), values, loss_.data(), std::uint64_t{0}, Add{}, workspace_);
  }
  /// Returns the last step's loss, in device memory: valid once that step is done.
  const std::uint64_t* loss() const noexcept { return loss_.data(); }

 private:
  int rounds_;
  ps::DeviceArray<float, D> out_;
  ps::DeviceArray<std::uint64_t, D> loss_;
  ps::Workspace<D> workspace_;
};

/// Returns how many rounds make a step over `values` Ts take `seconds`, alone on this device.
/// Blocks for some tenths of a second.
template <class T, ps::AnyDevice D>
int rounds_for(D& device, double seconds, std::size_t values) {
  const ps::DeviceArray<T, D> batch{device, values};
  auto stream = device.stream();
  const auto measured = [&](int rounds) {
    Model<D> model{device, values, rounds};
    constexpr int times = 20;
    double best = 1e9;
    for (int repetition = 0; repetition < 4; ++repetition) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < times; ++i) {
        model.step(batch.data(), values, stream);
      }
      device.sync(stream);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count() / times);
    }
    return best;
  };
  // Long enough to be bound by arithmetic, where time grows linearly; a host takes longer.
  constexpr bool on_host = std::is_same_v<D, ps::HostDevice>;
  constexpr int few = on_host ? 1 : 512;
  constexpr int many = 4 * few;
  const double at_few = measured(few);
  const double slope = (measured(many) - at_few) / (many - few);
  return static_cast<int>(std::clamp(few + (seconds - at_few) / slope, 1.0, 1e6));
}

} // namespace penstock_bench
