// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The blocks of examples/gpt/ on a GPU, compared with plain loops.

#include "../support/catch.hpp"
#include "gpt_values.hpp"

#include "../../examples/gpt/adamw.hpp"
#include "../../examples/gpt/gpu_ops.cuh"
#include "../../examples/gpt/host_ops.hpp"
#include "../../examples/gpt/stack.hpp"

#include <penstock/cuda.hpp>
#include <penstock/data/float16.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/host/device.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace ps = penstock;
using namespace penstock::tests;
using namespace transformer;

namespace {

/// The outputs of a stack, and the gradients that go back into it. All numbers are exact in bf16.
struct Outcome {
  std::vector<float> out, d, gradients;
};
template <class Ops, class... Options>
Outcome outcome(const Shape& shape, std::size_t group, Options... options) {
  using T = typename Ops::value_type;
  typename Ops::device_type device;
  const auto here = device.attach();
  Ops ops{device, shape, options...};
  Stack<Ops> stack{device, ops, group};
  const Layout& layout = stack.layout();
  for (std::size_t block = 0; block < shape.layers; ++block) {
    for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
      const auto which = static_cast<Tensor>(tensor);
      std::vector<float> values =
          numbers<ps::BFloat16>(layout.size(tensor), block * tensors + tensor, 0.1F);
      if (which == Tensor::norm1_weight || which == Tensor::norm2_weight) {
        std::transform(values.begin(), values.end(), values.begin(),
                       [](float value) { return float(ps::BFloat16(1 + value)); });
      }
      put(device, ops.stream(), stack.parameters() + block * layout.block() + layout.begin(tensor),
          values);
    }
  }
  const auto in = numbers<ps::BFloat16>(shape.values(), 100, 1);
  const auto d = numbers<ps::BFloat16>(shape.values(), 101, 1);
  for (int run = 0; run < 2; ++run) { // what one run leaves behind for the next must be right too
    put(device, ops.stream(), stack.in(), in);
    stack.clear_gradients();
    stack.forward();
    put(device, ops.stream(), stack.d(), d);
    stack.backward();
  }
  return {get(device, ops.stream(), stack.out(), shape.values()),
          get(device, ops.stream(), static_cast<const T*>(stack.d()), shape.values()),
          get(device, ops.stream(), static_cast<const float*>(stack.gradients()),
              shape.layers * layout.block())};
}

/// Runs attention alone, forward and backward, on numbers up to `size` in queries, keys and values,
/// exact in bf16. The gradients are those of queries, keys and values.
template <class T>
Outcome attended(const Shape& shape, float size, const GpuOptions& options = {}) {
  ps::CudaDevice gpu;
  const auto here = gpu.attach();
  GpuOps<T> ops{gpu, shape, options};
  ps::DeviceArray<T, ps::CudaDevice> qkv{gpu, 3 * shape.values()}, out{gpu, shape.values()},
      d_out{gpu, shape.values()}, d_qkv{gpu, 3 * shape.values()};
  ps::DeviceArray<std::byte, ps::CudaDevice> kept{gpu, ops.attention_kept()};
  put(gpu, ops.stream(), qkv.data(), numbers<ps::BFloat16>(3 * shape.values(), 1, size));
  put(gpu, ops.stream(), d_out.data(), numbers<ps::BFloat16>(shape.values(), 2, 1));
  ops.attention({qkv.data(), out.data(), kept.data()});
  ops.attention_backward({d_out.data(), qkv.data(), out.data(), kept.data(), d_qkv.data()});
  return {get(gpu, ops.stream(), out.data(), out.size()),
          {},
          get(gpu, ops.stream(), d_qkv.data(), d_qkv.size())};
}

constexpr Shape small{.layers = 2, .width = 64, .heads = 4, .tokens = 24, .batch = 3};
constexpr Shape heads_of_64{.layers = 2, .width = 192, .heads = 3, .tokens = 384, .batch = 2};
constexpr Shape heads_of_128{.layers = 2, .width = 256, .heads = 2, .tokens = 256, .batch = 2};

void check_near(const Outcome& found, const Outcome& wanted, double limit) {
  CHECK(off(found.out, wanted.out) < limit);
  CHECK(off(found.d, wanted.d) < limit);
  CHECK(off(found.gradients, wanted.gradients) < limit);
}

} // namespace

TEST_CASE("in floats the blocks are those of plain loops") {
  check_near(outcome<GpuOps<float>>(small, 2), outcome<HostOps<float>>(small, 2), 1e-5);
}

TEST_CASE("floats cut for the tensor cores come near") {
  check_near(outcome<GpuOps<float>>(small, 2, GpuOptions{.precision = Precision::tf32}),
             outcome<HostOps<float>>(small, 2), 5e-3);
}

TEST_CASE("bf16 comes near to floats") {
  for (const Shape& shape : {heads_of_64, heads_of_128}) {
    const Outcome floats = outcome<GpuOps<float>>(shape, 2);
    for (const bool fused : {false, true}) {
      INFO("heads of " << shape.head() << ", fused: " << fused);
      check_near(outcome<GpuOps<ps::BFloat16>>(shape, 2, GpuOptions{.fused = fused}), floats, 2e-2);
    }
  }
}

TEST_CASE("recomputed activations give the gradients of those that were kept") {
  const Outcome kept = outcome<GpuOps<ps::BFloat16>>(heads_of_64, 2);
  check_near(outcome<GpuOps<ps::BFloat16>>(heads_of_64, 1), kept, 1e-3);
}

TEST_CASE("fused attention is as near to the formula's as bf16 allows") {
  for (const std::size_t head : {64, 128}) {
    for (const std::size_t tokens : {128, 640}) {
      INFO("heads of " << head << ", " << tokens << " tokens");
      const Shape shape{.layers = 1, .width = 3 * head, .heads = 3, .tokens = tokens, .batch = 2};
      const Outcome fused = attended<ps::BFloat16>(shape, 2, {.fused = true});
      const Outcome unfused = attended<ps::BFloat16>(shape, 2, {.fused = false});
      CHECK(off(fused.out, unfused.out) < 1e-2);
      CHECK(off(fused.gradients, unfused.gradients) < 1e-2);
    }
  }
}

TEST_CASE("fused attention is right where the greatest score grows much from key to key") {
  for (const std::size_t head : {64, 128}) {
    INFO("heads of " << head);
    const Shape shape{.layers = 1, .width = 3 * head, .heads = 3, .tokens = 640, .batch = 2};
    const Outcome fused = attended<ps::BFloat16>(shape, 6, {.fused = true});
    const Outcome floats = attended<float>(shape, 6);
    CHECK(off(fused.out, floats.out) < 1e-2);
    CHECK(off(fused.gradients, floats.gradients) < 2e-2);
  }
}

TEST_CASE("fused attention gives the same each time, but for what is added up in any order",
          "[large]") {
  for (const std::size_t head : {64, 128}) {
    INFO("heads of " << head);
    const Shape shape{.layers = 1, .width = 768, .heads = 768 / head, .tokens = 1024, .batch = 4};
    const Outcome first = attended<ps::BFloat16>(shape, 2, {.fused = true});
    for (int run = 0; run < 5; ++run) {
      const Outcome again = attended<ps::BFloat16>(shape, 2, {.fused = true});
      CHECK(std::ranges::equal(again.out, first.out));
      std::size_t changed = 0; // of the gradients of keys and values
      for (std::size_t i = 0; i < again.gradients.size(); ++i) {
        const bool of_query = i / shape.width % 3 == 0;
        changed += !of_query && again.gradients[i] != first.gradients[i] ? 1 : 0;
      }
      CHECK(changed == 0);
      CHECK(off(again.gradients, first.gradients) < 1e-3);
    }
  }
}

TEST_CASE("what fused attention cannot do is refused, with what it can") {
  ps::CudaDevice gpu;
  const auto here = gpu.attach();
  Shape shape = heads_of_64;
  shape.tokens = 100;
  CHECK_THROWS_AS((GpuOps<ps::BFloat16>{gpu, shape}), ps::OptionError);
  shape = heads_of_64;
  shape.heads = 6;
  CHECK_THROWS_AS((GpuOps<ps::BFloat16>{gpu, shape}), ps::OptionError);
  shape = small;
  shape.width = 60;
  CHECK_THROWS_AS((GpuOps<float>{gpu, shape}), ps::OptionError);
}

TEST_CASE("a step of AdamW is that of plain loops") {
  std::vector<std::vector<float>> found;
  const auto step = [&]<class D>(D& device) {
    const auto here = device.attach();
    const Layout layout{small};
    const std::size_t size = small.layers * layout.block();
    auto stream = device.stream();
    ps::DeviceArray<ps::BFloat16, D> parameters{device, size};
    ps::DeviceArray<float, D> gradients{device, size};
    put(device, stream, parameters.data(), numbers<ps::BFloat16>(size, 1, 1));
    put(device, stream, gradients.data(), numbers<float>(size, 2, 0.1F));
    AdamW<ps::BFloat16, D> optimiser{device, small, parameters.data(), gradients.data(), stream};
    for (int i = 0; i < 3; ++i) {
      optimiser.begin_step();
      optimiser.all(stream);
    }
    found.push_back(get(device, stream, optimiser.master(), size));
    found.push_back(get(device, stream, parameters.data(), size));
  };
  ps::CudaDevice gpu;
  ps::HostDevice host;
  step(gpu);
  step(host);
  CHECK(off(found[0], found[2]) < 1e-6);
  CHECK(off(found[1], found[3]) < 1e-3);
}
