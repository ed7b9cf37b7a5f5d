// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared by the programs whose ways are training loops: each batch goes through a step of the
// Model, and each step gives a loss.

#include "event.hpp"
#include "model.hpp"

#include <penstock/callables/deferred.hpp>
#include <penstock/device/device.hpp>
#include <penstock/device/device_array.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace penstock_bench {

/// A run of training.
struct Job {
  std::size_t values;  ///< Of a batch.
  std::size_t steps;   ///< In a run, one a batch.
  int rounds = 1;      ///< Of the Model.
  double step_s = 0.0; ///< How long `rounds` make a step take.

  /// Returns how long the kernels of a run take.
  double kernels_s() const { return static_cast<double>(steps) * step_s; }
};

/// Sets how long the job's step takes: `seconds` on a GPU, for batches of Ts, and one round where
/// times do not count. Blocks for some tenths of a second.
template <class T, ps::AnyDevice D>
void calibrate(D& device, const EventOptions& options, Job& job, double seconds) {
  const ps::DeviceArray<T, D> batch{device, job.values};
  auto stream = device.stream();
  const auto measured = [&] {
    Model<D> model{device, job.values, job.rounds};
    constexpr int times = 10;
    double best = 1e9;
    for (int repetition = 0; repetition < 3; ++repetition) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < times; ++i) {
        model.step(batch.data(), job.values, stream);
      }
      device.sync(stream);
      best = std::min(best, seconds_since(start) / times);
    }
    return best;
  };
  if (!options.small && options.device == "cuda") {
    job.rounds = rounds_for<T>(device, seconds, job.values);
    // Measured again close to the target, where a straight line is off by little.
    job.rounds = std::max(static_cast<int>(job.rounds * seconds / measured()), 1);
  }
  job.step_s = measured();
}

/// The checksum of a run: its losses, each times the number of its step, so that their order
/// counts.
class LossSum {
 public:
  void add(std::uint64_t loss) { sum_ += ++steps_ * loss; }
  std::uint64_t get() const { return sum_; }

 private:
  std::uint64_t steps_{};
  std::uint64_t sum_{};
};

/// A model, and the losses of a run that are read at its end.
template <ps::AnyDevice D> struct Training {
  Training(D& device, const Job& job)
      : model{device, job.values, job.rounds}, losses{device, {.results = job.steps}} {}

  /// Blocks until the last loss is there.
  std::uint64_t checksum() {
    LossSum sum;
    losses[losses.size() - 1].get(); // waits once, for all of them
    for (std::size_t i = 0; i < losses.size(); ++i) {
      sum.add(losses[i].get());
    }
    return sum.get();
  }

  Model<D> model;
  ps::Deferred<std::uint64_t, D> losses;
};

/// A way that is a pipeline, driven by run().
template <class D, class Make> class Pipelined : public Way {
 public:
  Pipelined(D& device, const Job& job, Make make)
      : training_{device, job}, pipeline_{make(training_)} {
    pipeline_.prepare();
  }
  std::uint64_t run() override {
    training_.losses.clear();
    pipeline_.run();
    return training_.checksum();
  }
  std::string label() const override { return "held back by " + pipeline_.report().limiting_stage; }

 private:
  Training<D> training_;
  std::invoke_result_t<Make&, Training<D>&> pipeline_;
};
/// `make(training)` returns the pipeline, with its Consumer.
template <class D, class Make> std::unique_ptr<Way> pipelined(D& device, const Job& job,
                                                              Make make) {
  return std::make_unique<Pipelined<D, Make>>(device, job, std::move(make));
}

} // namespace penstock_bench
