// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The blocks of examples/gpt/ and their optimiser, in plain loops on the host device: the
// operations of the GPU are compared with these.

#include "support/catch.hpp"

#include "../../examples/gpt/adamw.hpp"
#include "../../examples/gpt/host_ops.hpp"
#include "../../examples/gpt/stack.hpp"

#include <penstock/data/float16.hpp>
#include <penstock/host/device.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ps = penstock;
using namespace transformer;

namespace {

constexpr Shape tiny{.layers = 4, .width = 9, .heads = 3, .tokens = 5, .batch = 2};

/// Random numbers from -1 to 1, the same for each seed.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_{seed} {}
  float operator()() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<float>(state_ >> 40) * 0x1p-23F - 1;
  }

 private:
  std::uint64_t state_;
};

/// A stack on a device of its own, whose loss is the sum of its outputs, each times a weight.
template <class T> struct Trial {
  explicit Trial(std::size_t group = tiny.layers, const Shape& shape = tiny)
      : ops{device, shape}, stack{device, ops, group} {
    const Layout layout{shape};
    Numbers number{7};
    for (std::size_t block = 0; block < shape.layers; ++block) {
      for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
        const auto which = static_cast<Tensor>(tensor);
        const bool is_scale = which == Tensor::norm1_weight || which == Tensor::norm2_weight;
        T* const at = stack.parameters() + block * layout.block() + layout.begin(tensor);
        std::generate_n(at, layout.size(tensor),
                        [&] { return T((is_scale ? 1.0F : 0.0F) + 0.3F * number()); });
      }
    }
    Numbers input{8};
    std::generate_n(stack.in(), shape.values(), [&] { return T(input()); });
    Numbers weight{9};
    weights.resize(shape.values());
    std::generate(weights.begin(), weights.end(), [&] { return float(T(weight())); });
  }

  // The stream is idle before and after.
  double loss() {
    stack.forward();
    device.sync(ops.stream());
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sum += double(weights[i]) * double(float(stack.out()[i]));
    }
    return sum;
  }
  template <class F> void gradients(F done) {
    stack.clear_gradients();
    stack.forward();
    begin_backward();
    stack.backward(done);
    device.sync(ops.stream());
  }
  void gradients() {
    gradients([](std::size_t) {});
  }
  void begin_backward() {
    device.sync(ops.stream());
    std::transform(weights.begin(), weights.end(), stack.d(), [](float w) { return T(w); });
  }
  std::vector<float> gradient_of(std::size_t block, std::size_t tensor) {
    const Layout& layout = stack.layout();
    const float* const at = stack.gradients() + block * layout.block() + layout.begin(tensor);
    return {at, at + layout.size(tensor)};
  }
  std::vector<float> all_gradients() {
    return {stack.gradients(), stack.gradients() + tiny.layers * stack.layout().block()};
  }

  ps::HostDevice device;
  HostOps<T> ops;
  Stack<HostOps<T>> stack;
  std::vector<float> weights;
};

/// Returns the slope of the loss as `values` move along `direction`, by central differences.
double slope(Trial<float>& trial, float* values, const std::vector<float>& direction) {
  constexpr float step = 1.0F / 512;
  const std::vector<float> before{values, values + direction.size()};
  const auto moved = [&](float by) {
    for (std::size_t i = 0; i < direction.size(); ++i) {
      values[i] = before[i] + by * direction[i];
    }
    return trial.loss();
  };
  const double difference = moved(step) - moved(-step);
  std::copy(before.begin(), before.end(), values);
  return difference / (2.0 * step);
}

template <class A, class B> double along(const A& a, const B& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += double(a[i]) * double(b[i]);
  }
  return sum;
}
std::vector<float> difference(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> d(a.size());
  std::transform(a.begin(), a.end(), b.begin(), d.begin(), [](float x, float y) { return x - y; });
  return d;
}
double norm(const std::vector<float>& a) {
  return std::sqrt(along(a, a));
}

/// Returns `a` at length 1. For a gradient: along it a slope is least in danger of being only
/// noise.
std::vector<float> unit(std::vector<float> a) {
  const auto length = static_cast<float>(norm(a));
  std::transform(a.begin(), a.end(), a.begin(), [=](float x) { return x / length; });
  return a;
}

} // namespace

TEST_CASE("gradients of all tensors are those of central differences") {
  Trial<float> trial;
  trial.gradients();
  std::vector<std::vector<std::vector<float>>> found(tiny.layers);
  for (std::size_t block = 0; block < tiny.layers; ++block) {
    for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
      found[block].push_back(trial.gradient_of(block, tensor));
    }
  }
  for (std::size_t block = 0; block < tiny.layers; ++block) {
    for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
      INFO("block " << block << ", tensor " << tensor);
      const std::vector<float>& gradient = found[block][tensor];
      float* const at = trial.stack.parameters() + block * trial.stack.layout().block() +
                        trial.stack.layout().begin(tensor);
      // Along the gradient, and along another direction.
      for (const std::vector<float>& direction : {unit(gradient), [&] {
                                                    std::vector<float> other(gradient.size());
                                                    Numbers number{block * tensors + tensor};
                                                    std::generate(other.begin(), other.end(),
                                                                  number);
                                                    return unit(other);
                                                  }()}) {
        const double wanted = slope(trial, at, direction);
        CHECK(std::abs(along(gradient, direction) - wanted) < 1e-3 * norm(gradient));
      }
    }
  }
}

TEST_CASE("the gradient of what goes in is that of central differences") {
  Trial<float> trial;
  trial.gradients();
  const std::vector<float> gradient{trial.stack.d(), trial.stack.d() + tiny.values()};
  const std::vector<float> direction = unit(gradient);
  const double wanted = slope(trial, trial.stack.in(), direction);
  CHECK(std::abs(along(gradient, direction) - wanted) < 1e-3 * norm(gradient));
  CHECK(norm(gradient) > 1); // else the slopes prove nothing
}

TEST_CASE("recomputed activations give the gradients of those that were kept, bit by bit") {
  Trial<float> kept;
  kept.gradients();
  const std::vector<float> wanted = kept.all_gradients();
  for (const std::size_t group : {1, 2}) {
    Trial<float> trial{group};
    trial.gradients();
    CHECK(trial.all_gradients() == wanted);
    CHECK(trial.stack.activation_bytes() < kept.stack.activation_bytes());
    trial.gradients(); // and again: nothing is left of the first time
    CHECK(trial.all_gradients() == wanted);
  }
  CHECK_THROWS_AS(Trial<float>{3}, ps::OptionError);
  CHECK_THROWS_AS(Trial<float>{0}, ps::OptionError);
}

TEST_CASE("bf16 comes near to floats") {
  Trial<float> floats;
  Trial<ps::BFloat16> halves;
  // Both get the same numbers, which both types can hold.
  const std::size_t count = tiny.layers * floats.stack.layout().block();
  std::transform(halves.stack.parameters(), halves.stack.parameters() + count,
                 floats.stack.parameters(), [](ps::BFloat16 value) { return float(value); });
  std::transform(halves.stack.in(), halves.stack.in() + tiny.values(), floats.stack.in(),
                 [](ps::BFloat16 value) { return float(value); });
  floats.weights = halves.weights;
  floats.gradients();
  halves.gradients();
  const std::vector<float> wanted{floats.stack.out(), floats.stack.out() + tiny.values()};
  std::vector<float> out(tiny.values());
  std::transform(halves.stack.out(), halves.stack.out() + tiny.values(), out.begin(),
                 [](ps::BFloat16 value) { return float(value); });
  CHECK(norm(difference(out, wanted)) < 2e-2 * norm(wanted));
  CHECK(norm(difference(out, wanted)) > 0);
  const std::vector<float> gradients = floats.all_gradients();
  CHECK(norm(difference(halves.all_gradients(), gradients)) < 2e-2 * norm(gradients));
}

/// Adds a norm's gradients up, 24 of them, and returns the sum.
template <class T> std::vector<float> sum_of_gradients(bool with_rest) {
  const std::size_t values = tiny.values();
  ps::HostDevice device;
  HostOps<T> ops{device, tiny};
  const std::vector<T> weight(tiny.width, T(1.0F));
  const std::vector<float> mean(tiny.rows(), 0.0F);
  const std::vector<float> inverse(tiny.rows(), 1.0F);
  std::vector<float> d_weight(tiny.width);
  std::vector<float> d_bias(tiny.width);
  std::vector<T> in(values);
  std::vector<T> d_out(values);
  std::vector<T> d_in(values, T(0.0F));
  std::vector<T> rest(values, T(0.0F));
  Numbers numbers{4};
  for (int k = 0; k < 24; ++k) {
    // Both types can hold these.
    std::generate(in.begin(), in.end(), [&] { return T(float(ps::BFloat16(numbers()))); });
    std::generate(d_out.begin(), d_out.end(), [&] { return T(float(ps::BFloat16(numbers()))); });
    ops.norm_backward({d_out.data(), in.data(), weight.data(), mean.data(), inverse.data(),
                       d_in.data(), d_weight.data(), d_bias.data(), true,
                       with_rest ? rest.data() : nullptr});
    device.sync(ops.stream());
  }
  std::vector<float> sum(values);
  std::transform(d_in.begin(), d_in.end(), sum.begin(), [](T value) { return float(value); });
  return sum;
}

TEST_CASE("a sum of gradients in bf16 is rounded once, and not with each that is added") {
  const std::vector<float> wanted = sum_of_gradients<float>(false);
  const double once = norm(difference(sum_of_gradients<ps::BFloat16>(true), wanted)) / norm(wanted);
  const double each =
      norm(difference(sum_of_gradients<ps::BFloat16>(false), wanted)) / norm(wanted);
  CHECK(once < 2e-3); // half of bf16's last bit at most
  CHECK(each > 2 * once);
}

TEST_CASE("what stands behind a token in its sequence does not change it, nor another sequence") {
  Trial<float> trial;
  trial.loss();
  const std::vector<float> before{trial.stack.out(), trial.stack.out() + tiny.values()};
  constexpr std::size_t token = 3;
  trial.stack.in()[token * tiny.width] += 1; // of the first sequence
  trial.loss();
  for (std::size_t i = 0; i < tiny.values(); ++i) {
    const std::size_t row = i / tiny.width;
    const bool may_differ = row >= token && row < tiny.tokens;
    INFO("value " << i);
    CHECK((trial.stack.out()[i] == before[i]) != may_differ);
  }
}

TEST_CASE("AdamW does what its formula says, tensor by tensor, block by block and all at once") {
  // As in algorithm 2 of the paper on decoupled weight decay (Loshchilov and Hutter,
  // arXiv:1711.05101), with the rate in the place of the schedule.
  constexpr AdamWOptions options{.rate = 0.01F, .decay = 0.2F};
  constexpr int steps = 3;
  std::vector<std::vector<float>> found;
  for (int how = 0; how < 3; ++how) {
    Trial<float> trial;
    trial.gradients();
    const std::vector<float> g = trial.all_gradients();
    const std::vector<float> start{trial.stack.parameters(), trial.stack.parameters() + g.size()};
    AdamW<float, ps::HostDevice> optimiser{
        trial.device,       tiny,   trial.stack.parameters(), trial.stack.gradients(),
        trial.ops.stream(), options};
    for (int step = 0; step < steps; ++step) {
      optimiser.begin_step(2);
      if (how == 0) {
        optimiser.each_tensor(trial.ops.stream());
      } else if (how == 1) {
        for (std::size_t block = tiny.layers; block-- != 0;) {
          optimiser.block(block, trial.ops.stream());
        }
      } else {
        optimiser.all(trial.ops.stream());
      }
    }
    trial.device.sync(trial.ops.stream());
    found.emplace_back(trial.stack.parameters(), trial.stack.parameters() + g.size());
    CHECK(std::equal(found.back().begin(), found.back().end(), optimiser.master()));

    const Layout layout{tiny};
    for (std::size_t block = 0; block < tiny.layers; ++block) {
      for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
        for (std::size_t i = 0; i < layout.size(tensor); ++i) {
          const std::size_t at = block * layout.block() + layout.begin(tensor) + i;
          double p = start[at];
          double m = 0;
          double v = 0;
          for (int t = 1; t <= steps; ++t) {
            const double gradient = g[at] / 2.0;
            m = 0.9 * m + 0.1 * gradient;
            v = 0.999 * v + 0.001 * gradient * gradient;
            const double m_hat = m / (1 - std::pow(0.9, t));
            const double v_hat = v / (1 - std::pow(0.999, t));
            const double decay = Layout::decays(tensor) ? 0.2 : 0.0;
            p -= 0.01 * (m_hat / (std::sqrt(v_hat) + 1e-8) + decay * p);
          }
          if (std::abs(found.back()[at] - p) > 2e-5) {
            FAIL("block " << block << ", tensor " << tensor << ", value " << i << ": "
                          << found.back()[at] << " for " << p);
          }
        }
      }
    }
  }
  CHECK(found[0] == found[1]);
  CHECK(found[0] == found[2]);
}

TEST_CASE("AdamW that is reset does the same steps again") {
  Trial<float> trial;
  trial.gradients();
  AdamW<float, ps::HostDevice> optimiser{trial.device, tiny, trial.stack.parameters(),
                                         trial.stack.gradients(), trial.ops.stream()};
  const std::size_t count = optimiser.size();
  const std::vector<float> start{trial.stack.parameters(), trial.stack.parameters() + count};
  std::vector<std::vector<float>> found;
  for (int run = 0; run < 2; ++run) {
    std::copy(start.begin(), start.end(), trial.stack.parameters());
    optimiser.reset(trial.ops.stream());
    for (int step = 0; step < 3; ++step) {
      optimiser.begin_step();
      optimiser.all(trial.ops.stream());
    }
    trial.device.sync(trial.ops.stream());
    found.emplace_back(optimiser.master(), optimiser.master() + count);
  }
  CHECK(found[0] != start);
  CHECK(found[0] == found[1]);
}

TEST_CASE("a block's step may run while the gradients of those before it are on their way") {
  std::vector<std::vector<float>> found;
  for (const bool overlapped : {false, true}) {
    Trial<ps::BFloat16> trial{2};
    auto side = trial.device.stream();
    auto ready = trial.device.event();
    AdamW<ps::BFloat16, ps::HostDevice> optimiser{trial.device, tiny, trial.stack.parameters(),
                                                  trial.stack.gradients(), trial.ops.stream()};
    trial.device.sync(trial.ops.stream());
    for (int step = 0; step < 3; ++step) {
      optimiser.begin_step();
      trial.gradients([&](std::size_t block) {
        if (overlapped) {
          trial.device.record(ready, trial.ops.stream());
          trial.device.wait(side, ready);
          optimiser.block(block, side);
        }
      });
      overlapped ? trial.device.sync(side) : optimiser.all(trial.ops.stream());
      trial.device.sync(trial.ops.stream());
    }
    found.emplace_back(optimiser.master(), optimiser.master() + optimiser.size());
  }
  CHECK(found[0] == found[1]);
}

TEST_CASE("gradients of micro-batches add up to those of the whole batch") {
  Trial<float> whole;
  whole.gradients();
  const std::vector<float> wanted = whole.all_gradients();

  Shape half = tiny;
  half.batch = 1;
  Trial<float> parts{tiny.layers, half};
  parts.stack.clear_gradients();
  for (std::size_t sequence = 0; sequence < tiny.batch; ++sequence) {
    parts.device.sync(parts.ops.stream());
    std::copy_n(whole.stack.in() + sequence * half.values(), half.values(), parts.stack.in());
    std::copy_n(whole.weights.begin() + static_cast<std::ptrdiff_t>(sequence * half.values()),
                half.values(), parts.weights.begin());
    parts.stack.forward();
    parts.begin_backward();
    parts.stack.backward();
  }
  parts.device.sync(parts.ops.stream());
  CHECK(norm(difference(parts.all_gradients(), wanted)) < 1e-5 * norm(wanted));
}

TEST_CASE("steps of AdamW make a loss small") {
  Trial<float> trial;
  AdamW<float, ps::HostDevice> optimiser{
      trial.device,       tiny,           trial.stack.parameters(), trial.stack.gradients(),
      trial.ops.stream(), {.rate = 0.02F}};
  // The loss is smallest if the output equals the input.
  const auto loss = [&] {
    trial.stack.forward();
    trial.device.sync(trial.ops.stream());
    double sum = 0;
    for (std::size_t i = 0; i < tiny.values(); ++i) {
      const float off = trial.stack.out()[i] - trial.weights[i];
      trial.stack.d()[i] = off;
      sum += 0.5 * off * off;
    }
    return sum;
  };
  const double first = loss();
  double last = first;
  for (int step = 0; step < 60; ++step) {
    trial.stack.clear_gradients();
    trial.stack.backward();
    optimiser.begin_step();
    optimiser.all(trial.ops.stream());
    last = loss();
  }
  CHECK(last < first / 10);
}
