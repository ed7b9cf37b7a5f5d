// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 03_train_loop: the application owns the loop. A linear model learns by stochastic gradient
// descent, in two epochs, each shuffled anew, one step a batch. The model takes its batches from
// whichever pipeline you give it, and no step waits for the device: a Deferred brings its loss to
// the host later.
//
//   03_train_loop [--device auto|cuda|host]
//
// It prints the loss before the first and the last step, the weights beside those that the data was
// made with, and the Report. It fails if a weight differs by more than 0.01.

#include "support/arguments.hpp"

#include <penstock/callables/deferred.hpp>
#include <penstock/penstock.hpp>
#include <penstock/with_device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iomanip>
#include <iostream>
#include <span>
#include <utility>
#include <vector>

namespace ps = penstock;

constexpr std::size_t features = 4;
constexpr std::size_t samples = 131'072;
constexpr std::size_t batch_size = 4'096;
constexpr std::size_t epochs = 2;
constexpr std::size_t steps = epochs * samples / batch_size;

struct Sample {
  float x[features];
  float y;
};

/// A weight for each feature, and the bias.
struct Weights {
  float w[features + 1];

  PENSTOCK_HD float predict(const Sample& sample) const {
    float y = w[features];
    for (std::size_t k = 0; k < features; ++k) {
      y += w[k] * sample.x[k];
    }
    return y;
  }
};
constexpr Weights truth{{1, -2, 3, 0.5F, 0.25F}};

// The model's three kernels, for either device. The first: gradient and loss of each sample.
struct Gradient {
  Weights of;
  float loss;
};
struct Differentiate {
  const Sample* samples;
  const Weights* weights;
  Gradient* gradients;

  PENSTOCK_HD void operator()(std::size_t i) const {
    const float error = weights->predict(samples[i]) - samples[i].y;
    Gradient& gradient = gradients[i];
    for (std::size_t k = 0; k < features; ++k) {
      gradient.of.w[k] = error * samples[i].x[k];
    }
    gradient.of.w[features] = error;
    gradient.loss = error * error;
  }
};
// The second kernel's operation: adds up gradients and losses.
struct Add {
  PENSTOCK_HD Gradient operator()(Gradient a, const Gradient& b) const {
    for (std::size_t k = 0; k <= features; ++k) {
      a.of.w[k] += b.of.w[k];
    }
    a.loss += b.loss;
    return a;
  }
};
// The third kernel: the step against the mean gradient.
struct Descend {
  const Gradient* sum;
  float count;
  float rate;
  Weights* weights;
  float* loss;

  PENSTOCK_HD void operator()(std::size_t) const {
    for (std::size_t k = 0; k <= features; ++k) {
      weights->w[k] -= rate * sum->of.w[k] / count;
    }
    *loss = sum->loss / count;
  }
};

template <ps::AnyDevice D> class LinearModel {
 public:
  using Data = ps::AnyBatches<ps::Batch<const Sample, ps::Device>>;

  /// `data` hands out its batches on `stream`.
  LinearModel(D& device, ps::Stream<D> stream, Data data)
      : data_{std::move(data)}, stream_{stream}, weights_{device, 1},
        gradients_{device, batch_size}, sum_{device, 1}, loss_{device, 1},
        losses_{device, {.results = steps}}, workspace_{device} {}

  /// Returns the loss before each step.
  std::vector<float> train() {
    losses_.clear();
    for (auto batch : data_.batches()) {
      const float rate = batch.epoch() == 0 ? 0.5F : 0.25F;
      ps::for_each(stream_, batch.size(),
                   Differentiate{batch.data(), weights_.data(), gradients_.data()});
      ps::reduce(stream_, gradients_.data(), batch.size(), sum_.data(), Gradient{}, Add{},
                 workspace_);
      ps::for_each(stream_, 1,
                   Descend{sum_.data(), static_cast<float>(batch.size()), rate, weights_.data(),
                           loss_.data()});
      losses_.put(loss_.data(), stream_);
    }
    std::vector<float> losses;
    for (std::size_t step = 0; step < losses_.size(); ++step) {
      losses.push_back(losses_[step].get());
    }
    return losses;
  }

  Weights weights() const { return weights_.read(stream_).front(); }
  ps::Report report() const { return data_.report(); }

 private:
  Data data_;
  ps::Stream<D> stream_;
  ps::DeviceArray<Weights, D> weights_;
  ps::DeviceArray<Gradient, D> gradients_;
  ps::DeviceArray<Gradient, D> sum_;
  ps::DeviceArray<float, D> loss_;
  ps::Deferred<float, D> losses_;
  ps::Workspace<D> workspace_;
};

/// Returns a number from -1 to 1, the same for the same n.
float noise(std::uint64_t n) {
  n = (n + 1) * 0x9E3779B97F4A7C15U;
  n = (n ^ n >> 32) * 0xD6E8FEB86659FD93U;
  return static_cast<float>(n >> 40) / (1 << 23) - 1;
}

void make_samples(std::span<Sample> out, std::uint64_t first) {
  for (Sample& sample : out) {
    const std::uint64_t n = first++ * (features + 1);
    for (std::size_t k = 0; k < features; ++k) {
      sample.x[k] = noise(n + k);
    }
    sample.y = truth.predict(sample) + 0.1F * noise(n + features);
  }
}

template <ps::AnyDevice D> int train_on(D& device) {
  const auto attached = device.attach();
  auto stream = device.stream();
  auto pipeline = ps::Reader{ps::generate<Sample>(samples, &make_samples),
                             ps::to_pinned,
                             {.epochs = epochs, .order = {.shuffle = 1337}}} |
                  ps::AsyncCopier{device, {.batch = batch_size}};
  LinearModel<D> model{device, stream, typename LinearModel<D>::Data{std::move(pipeline), stream}};

  const std::vector<float> losses = model.train();

  const Weights learned = model.weights();
  std::cout << std::fixed << std::setprecision(4) << "loss: " << losses.front()
            << " before the first step, " << losses.back() << " before the last\n"
            << "weights:";
  bool right = true;
  for (std::size_t k = 0; k <= features; ++k) {
    std::cout << ' ' << learned.w[k] << " (" << truth.w[k] << ')';
    right = right && std::abs(learned.w[k] - truth.w[k]) < 0.01F;
  }
  std::cout << '\n' << model.report();
  if (!right) {
    std::cerr << "03_train_loop: these are not the weights that the data was made with\n";
  }
  return right ? 0 : 1;
}

int main(int argc, char** argv) try {
  const Arguments args{argc, argv};
  return ps::with_device(args.device, [](auto& device) { return train_on(device); });
} catch (const std::exception& error) {
  std::cerr << "03_train_loop: " << error.what() << '\n';
  return 1;
}

// prints with --device host:
//   loss: 4.79… before the first step, 0.003… before the last
//   weights: 0.999… (1.0000) -2.000… (-2.0000) 2.999… (3.0000) 0.500… (0.5000) 0.2… (0.2500)
//   262144 records, … on host
//   …
