// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The model of examples/gpt/ and its training on a GPU, compared with plain loops.

#include "../support/catch.hpp"
#include "gpt_values.hpp"

#include "../../examples/gpt/adamw.hpp"
#include "../../examples/gpt/config.hpp"
#include "../../examples/gpt/dropout.hpp"
#include "../../examples/gpt/gpu_ops.cuh"
#include "../../examples/gpt/host_ops.hpp"
#include "../../examples/gpt/training.hpp"

#include <penstock/cuda.hpp>
#include <penstock/data/float16.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/host/device.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ps = penstock;
using namespace penstock::tests;
using namespace transformer;

namespace {

using ps::BFloat16;

/// What operations computed, by its name.
using Outcome = std::map<std::string, std::vector<float>>;

void check_near(const Outcome& found, const Outcome& wanted, double limit) {
  REQUIRE(found.size() == wanted.size());
  for (const auto& [name, values] : wanted) {
    INFO(name);
    CHECK(off(found.at(name), values) < limit);
  }
}

/// Returns tokens below the vocabulary, often the same ones.
std::vector<float> some_tokens(std::size_t count, const Config& config, std::uint64_t seed) {
  std::vector<float> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t any = mixed(seed * 1'000'000 + i);
    tokens[i] = static_cast<float>(any % 4 == 0 ? any % config.vocabulary : any % 3);
  }
  tokens.back() = static_cast<float>(config.vocabulary - 1);
  return tokens;
}

/// Arrays on a device, full of numbers that are exact in bf16.
template <class Ops> class Bench {
 public:
  using T = typename Ops::value_type;
  using D = typename Ops::device_type;
  template <class V> using Array = ps::DeviceArray<V, D>;

  template <class... Options>
  explicit Bench(const Shape& shape, Options... options) : ops{device, shape, options...} {}

  template <class V> Array<V> array(const std::vector<float>& values) {
    Array<V> made{device, values.size()};
    put(device, ops.stream(), made.data(), values);
    return made;
  }
  Array<T> values(std::size_t count, std::uint64_t seed, float scale = 1) {
    return array<T>(numbers<BFloat16>(count, seed, scale));
  }
  template <class V> std::vector<float> read(const Array<V>& from) {
    return get(device, ops.stream(), static_cast<const V*>(from.data()), from.size());
  }
  /// Returns dropout in pass 5.
  Dropout dropout(float rate) {
    ps::for_each(ops.stream(), 1, Fill<std::uint64_t>{pass.data(), 5});
    return {rate, 9, pass.data()};
  }

  D device;
  decltype(device.attach()) here = device.attach();
  Ops ops;
  Array<std::uint64_t> pass{device, 1};
};

/// Does what is done row by row, forward and backward.
template <class Ops, class... Options>
Outcome of_rows(const Config& config, std::size_t batch, float rate, Options... options) {
  const Shape shape = config.shape(batch);
  Bench<Ops> on{shape, options...};
  using T = typename Ops::value_type;
  const Dropout dropout = on.dropout(rate);
  const auto tokens = on.template array<std::int32_t>(some_tokens(shape.rows(), config, 1));
  const auto token_weight = on.values(config.padded_vocabulary() * config.width, 2);
  const auto position_weight = on.values(config.context * config.width, 3);
  const auto d_out = on.values(shape.values(), 4);
  Outcome all;

  const ps::DeviceArray<T, typename Ops::device_type> out{on.device, shape.values()};
  on.ops.embedding({tokens.data(), token_weight.data(), position_weight.data(), out.data(),
                    dropout.embeddings()});
  all["embedded"] = on.read(out);
  // Gradients are added to what is there.
  const auto d_tokens = on.template array<float>(numbers<float>(token_weight.size(), 5, 1));
  const auto d_positions = on.template array<float>(numbers<float>(position_weight.size(), 6, 1));
  on.ops.embedding_backward(
      {d_out.data(), tokens.data(), d_tokens.data(), d_positions.data(), dropout.embeddings()});
  all["gradients of tokens"] = on.read(d_tokens);
  all["gradients of positions"] = on.read(d_positions);

  if (rate > 0) {
    const auto residual = on.values(shape.values(), 7);
    on.ops.drop({d_out.data(), out.data(), dropout.project(1), residual.data()});
    all["dropped, and the residual"] = on.read(out);
    on.ops.drop({d_out.data(), out.data(), dropout.down(1)});
    all["dropped"] = on.read(out);
  }

  const auto weight = on.values(shape.width, 8);
  const auto mean = on.template array<float>(numbers<float>(shape.rows(), 10, 0.1F));
  const auto inverse = on.template array<float>(numbers<float>(shape.rows(), 11, 2));
  const auto d_weight = on.template array<float>(numbers<float>(shape.width, 12, 1));
  const auto d_bias = on.template array<float>(numbers<float>(shape.width, 13, 1));
  on.ops.norm_backward({d_out.data(), token_weight.data(), weight.data(), mean.data(),
                        inverse.data(), out.data(), d_weight.data(), d_bias.data(), false});
  all["a norm's gradient, set"] = on.read(out);
  const auto rest = on.values(shape.values(), 14, 1.0F / 512);
  on.ops.norm_backward({d_out.data(), token_weight.data(), weight.data(), mean.data(),
                        inverse.data(), out.data(), d_weight.data(), d_bias.data(), true,
                        rest.data()});
  all["a norm's gradient, added"] = on.read(out);
  std::vector<float> sum = on.read(rest);
  const std::vector<float>& rounded = all["a norm's gradient, added"];
  std::transform(sum.begin(), sum.end(), rounded.begin(), sum.begin(), std::plus<>{});
  all["the same with its rest"] = sum;
  return all;
}

/// Computes losses and gradients from logits, of a part of the batch's rows.
template <class Ops, class... Options>
Outcome of_head(const Config& config, std::size_t rows, Options... options) {
  Bench<Ops> on{config.shape(2), options...};
  using T = typename Ops::value_type;
  using Array = ps::DeviceArray<T, typename Ops::device_type>;
  const std::size_t columns = config.padded_vocabulary();
  const auto targets = on.template array<std::int32_t>(some_tokens(rows, config, 1));
  const auto in = on.values(rows * config.width, 2, 0.5F);
  const auto weight = on.values(columns * config.width, 3, 0.5F);
  const Array logits{on.device, rows * columns}, d_in{on.device, in.size()};
  const auto d_weight = on.template array<float>(numbers<float>(weight.size(), 4, 1e-4F));
  ps::DeviceArray<float, typename Ops::device_type> losses{on.device, rows};
  Outcome all;
  on.ops.logits({in.data(), weight.data(), logits.data(), rows, columns});
  all["logits"] = on.read(logits);
  // So that wrong sums show: the greatest logits are in a few columns, and padding is greater.
  std::vector<float> some = numbers<BFloat16>(logits.size(), 5, 4);
  for (std::size_t i = 0; i < some.size(); ++i) {
    const std::size_t column = i % columns;
    some[i] += column >= config.vocabulary ? 50.0F : column % 1000 == 7 ? 8.0F : 0.0F;
    some[i] = float(BFloat16(some[i]));
  }
  for (const bool backward : {false, true}) {
    put(on.device, on.ops.stream(), logits.data(), some);
    on.ops.cross_entropy({logits.data(), targets.data(), losses.data(), rows, columns,
                          config.vocabulary, 1.0F / 64, backward});
    all[backward ? "losses, backward" : "losses"] = on.read(losses);
    if (!backward) {
      CHECK(on.read(logits) == some);
    }
  }
  all["gradients of logits"] = on.read(logits);
  on.ops.logits_backward(
      {logits.data(), in.data(), weight.data(), d_in.data(), d_weight.data(), rows, columns});
  all["gradients"] = on.read(d_in);
  all["gradients of the weight"] = on.read(d_weight);
  return all;
}

/// Runs attention alone with dropout, forward and backward.
template <class Ops, class... Options>
Outcome attended(const Shape& shape, float rate, Options... options) {
  Bench<Ops> on{shape, options...};
  using T = typename Ops::value_type;
  using Array = ps::DeviceArray<T, typename Ops::device_type>;
  const Drops drops = on.dropout(rate).attention(3);
  const auto qkv = on.values(3 * shape.values(), 1, 2);
  const auto d_out = on.values(shape.values(), 2);
  const Array out{on.device, shape.values()}, d_qkv{on.device, qkv.size()};
  const ps::DeviceArray<std::byte, typename Ops::device_type> kept{on.device,
                                                                   on.ops.attention_kept()};
  on.ops.attention({qkv.data(), out.data(), kept.data(), drops});
  on.ops.attention_backward(
      {d_out.data(), qkv.data(), out.data(), kept.data(), d_qkv.data(), drops});
  return {{"out", on.read(out)}, {"gradients", on.read(d_qkv)}};
}

constexpr Config small{.layers = 2, .width = 64, .heads = 4, .context = 24, .vocabulary = 300};
constexpr Config fused_64{
    .layers = 2, .width = 128, .heads = 2, .context = 128, .vocabulary = 1000};
constexpr Config wide{.layers = 1, .width = 64, .heads = 1, .context = 128, .vocabulary = 50257};

/// Trains some steps, and tells the losses and how the masters moved.
struct Trained {
  std::vector<float> losses, moved, means;
};
template <class Ops, class... Options>
Trained trained(const Config& config, TrainingOptions options, Options... ops_options) {
  typename Ops::device_type device;
  const auto here = device.attach();
  // With a small epsilon a step goes by the signs of gradients, and those near 0 change as soon as
  // sums differ in their last bits.
  options.adamw.epsilon = 0.1F;
  options.adamw.rate = 0.05F;
  options.adamw.decay = 0;
  Training<Ops> training{device, config, options, ops_options...};
  const std::vector<float> first = training.state().masters;
  Trained all;
  const auto loss = [&] {
    all.losses.push_back(get(device, training.stream(), training.loss(), 1).front());
  };
  for (std::uint64_t pass = 0; pass < 4 * options.micro_batches; ++pass) {
    const std::size_t rows = training.inputs().size();
    put(device, training.stream(), training.inputs().data(), some_tokens(rows, config, pass));
    put(device, training.stream(), training.targets().data(), some_tokens(rows, config, pass + 1));
    training.pass();
    loss();
    training.evaluate();
    loss();
  }
  const TrainingState state = training.state();
  all.means = state.means;
  all.moved = state.masters;
  std::transform(all.moved.begin(), all.moved.end(), first.begin(), all.moved.begin(),
                 [](float now, float before) { return now - before; });
  return all;
}
void check_near(const Trained& found, const Trained& wanted, double limit) {
  CHECK(off(found.losses, wanted.losses) < limit / 10);
  CHECK(off(found.moved, wanted.moved) < limit);
  CHECK(off(found.means, wanted.means) < limit);
}

} // namespace

TEST_CASE("embeddings, dropout and a norm's gradient are those of plain loops") {
  for (const float rate : {0.0F, 0.2F}) {
    INFO("dropout " << rate);
    check_near(of_rows<GpuOps<float>>(small, 3, rate), of_rows<HostOps<float>>(small, 3, rate),
               1e-5);
    check_near(of_rows<GpuOps<BFloat16>>(fused_64, 2, rate),
               of_rows<HostOps<BFloat16>>(fused_64, 2, rate), 5e-3);
  }
}

TEST_CASE("a GPU drops the very values that plain loops drop") {
  const std::vector<float> wanted = of_rows<HostOps<float>>(small, 3, 0.3F).at("dropped");
  const std::vector<float> found = of_rows<GpuOps<float>>(small, 3, 0.3F).at("dropped");
  std::size_t zeros = 0;
  std::size_t different = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    zeros += wanted[i] == 0 ? 1 : 0;
    different += (wanted[i] == 0) != (found[i] == 0) ? 1 : 0;
  }
  CHECK(different == 0);
  CHECK(zeros > wanted.size() / 5);
  CHECK(zeros < wanted.size() / 2);
}

TEST_CASE("losses and their gradients are those of plain loops") {
  check_near(of_head<GpuOps<float>>(small, 19), of_head<HostOps<float>>(small, 19), 1e-5);
  check_near(of_head<GpuOps<BFloat16>>(fused_64, 128), of_head<HostOps<BFloat16>>(fused_64, 128),
             1e-2);
}

TEST_CASE("losses over all of GPT-2's vocabulary are those of plain loops") {
  check_near(of_head<GpuOps<BFloat16>>(wide, 8), of_head<HostOps<BFloat16>>(wide, 8), 1e-2);
  // Sums of 50,257 floats, in another order.
  check_near(of_head<GpuOps<float>>(wide, 8), of_head<HostOps<float>>(wide, 8), 5e-5);
}

TEST_CASE("attention with dropout is that of plain loops") {
  const Shape shape = small.shape(2);
  check_near(attended<GpuOps<float>>(shape, 0.2F), attended<HostOps<float>>(shape, 0.2F), 1e-5);
  CHECK(off(attended<GpuOps<float>>(shape, 0.2F).at("out"),
            attended<GpuOps<float>>(shape, 0).at("out")) > 0.1);
}

TEST_CASE("fused attention drops what the formula's does") {
  for (const std::size_t head : {64, 128}) {
    for (const std::size_t tokens : {128, 640}) {
      INFO("heads of " << head << ", " << tokens << " tokens");
      const Shape shape{.layers = 1, .width = 3 * head, .heads = 3, .tokens = tokens, .batch = 2};
      for (const float rate : {0.1F, 0.5F}) {
        check_near(attended<GpuOps<BFloat16>>(shape, rate), attended<GpuOps<float>>(shape, rate),
                   2e-2);
      }
    }
  }
}

TEST_CASE("training in floats is that of plain loops") {
  for (const float dropout : {0.0F, 0.2F}) {
    for (const float clip : {0.0F, 0.2F}) {
      INFO("dropout " << dropout << ", clip " << clip);
      TrainingOptions options{.batch = 2, .micro_batches = 2, .dropout = dropout};
      options.logit_bytes = 20 * small.padded_vocabulary() * sizeof(float); // three chunks
      options.adamw.clip = clip;
      options.adamw.schedule = {.warm_up = 1, .steps = 4};
      check_near(trained<GpuOps<float>>(small, options), trained<HostOps<float>>(small, options),
                 1e-3);
    }
  }
}

TEST_CASE("training in bf16 comes near to floats") {
  TrainingOptions options{.batch = 2, .micro_batches = 2, .dropout = 0.1F};
  options.logit_bytes = 130 * fused_64.padded_vocabulary() * sizeof(float);
  options.adamw.clip = 1;
  check_near(trained<GpuOps<BFloat16>>(fused_64, options),
             trained<GpuOps<float>>(fused_64, options), 5e-2);
}

TEST_CASE("graphs, recomputation and each of the optimiser's ways train alike") {
  const TrainingOptions plain{.batch = 2, .micro_batches = 3, .dropout = 0.1F};
  const Trained wanted = trained<GpuOps<BFloat16>>(fused_64, plain);
  TrainingOptions graph = plain;
  graph.graph = true;
  TrainingOptions recomputed = graph;
  recomputed.group = 1;
  TrainingOptions each_tensor = plain;
  each_tensor.way = StepWay::each_tensor;
  TrainingOptions beside = recomputed;
  beside.graph = false;
  beside.way = StepWay::beside_backward;
  for (const TrainingOptions& options : {graph, recomputed, each_tensor, beside}) {
    INFO("graph " << options.graph << ", group " << options.group << ", way "
                  << static_cast<int>(options.way));
    check_near(trained<GpuOps<BFloat16>>(fused_64, options), wanted, 1e-2);
  }
  TrainingOptions other = plain;
  other.seed = 1;
  CHECK(off(trained<GpuOps<BFloat16>>(fused_64, other).moved, wanted.moved) > 0.1);
}

TEST_CASE("a graph that is replayed drops other values each time") {
  ps::CudaDevice gpu;
  const auto here = gpu.attach();
  TrainingOptions options{.batch = 2, .graph = true, .dropout = 0.2F};
  options.adamw.rate = 0; // nothing but dropout changes
  Training<GpuOps<BFloat16>> training{gpu, fused_64, options};
  const std::size_t rows = training.inputs().size();
  put(gpu, training.stream(), training.inputs().data(), some_tokens(rows, fused_64, 0));
  put(gpu, training.stream(), training.targets().data(), some_tokens(rows, fused_64, 1));
  const TrainingState first = training.state();
  std::vector<float> losses;
  for (int i = 0; i < 6; ++i) {
    if (i == 3) {
      training.restore(first); // and the same values again
    }
    training.pass();
    losses.push_back(get(gpu, training.stream(), training.loss(), 1).front());
  }
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(losses[i] == losses[i + 3]); // forward adds up in one order
    CHECK(losses[i] != losses[(i + 1) % 3]);
  }
}

TEST_CASE("the first parameters and a restored state are the same on both devices") {
  ps::CudaDevice gpu;
  const auto here = gpu.attach();
  ps::HostDevice host;
  Training<GpuOps<float>> on_gpu{gpu, small, {.batch = 2}};
  Training<HostOps<float>> on_host{host, small, {.batch = 2}};
  CHECK(on_gpu.state() == on_host.state());
  on_host.pass();
  const TrainingState state = on_host.state();
  on_gpu.restore(state);
  CHECK(on_gpu.state() == state);
  CHECK(get(gpu, on_gpu.stream(), on_gpu.adamw().steps(), 1).front() == 1);
}
