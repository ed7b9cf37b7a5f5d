// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How much memory do activations take that are kept for backward, and what does it cost to compute
// them again?
//
// 12 transformer blocks of width 768 (85 M parameters) in bf16, forward and backward over 8
// sequences of 1024 tokens, four times a run. The gradients of a run are compared with those of the
// way that keeps all: they may differ by a hundredth of their length, since fused attention adds up
// in any order, and bf16 enlarges the differences from block to block.
//
//   kept           the activations of all blocks
//   recomputed_4   the input of every 4th block, and the activations of four at a time
//   recomputed_2   the input of every 2nd block
//   recomputed_1   the input of every block
//
// The counter `activation_bytes` counts the bytes kept between forward and backward, `gpu_bytes`
// all of the GPU's memory that the way takes.

#include "blocks.cuh"
#include "event.hpp"
#include "numbers.cuh"

#include <penstock/cuda.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using transformer::Shape;

constexpr std::size_t passes = 4;
constexpr double most_off = 1e-2;

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  transformer::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

class Recomputed : public Way {
 public:
  Recomputed(ps::CudaDevice& gpu, const Shape& shape, std::size_t group, const float* wanted)
      : blocks_{gpu, shape, group}, gpu_bytes_{free_ - free_bytes()}, wanted_{wanted}, off_{gpu} {}

  std::uint64_t run() override {
    for (std::size_t i = 0; i < passes; ++i) {
      blocks_.stack().clear_gradients();
      blocks_.pass(); // forward, and backward, which recomputes if it has to
    }
    const double off = off_(blocks_.stack().gradients(), wanted_, blocks_.parameters(),
                            blocks_.ops().stream().get());
    if (!(off < most_off)) {
      throw std::runtime_error{"the gradients are off by " + std::to_string(off)};
    }
    return passes;
  }
  void count(benchmark::UserCounters& counters) const override {
    counters["activation_bytes"] = static_cast<double>(blocks_.stack().activation_bytes());
    counters["gpu_bytes"] = static_cast<double>(gpu_bytes_);
  }

 private:
  std::size_t free_ = free_bytes();
  Blocks blocks_;
  std::size_t gpu_bytes_;
  const float* wanted_;
  Distance off_;
};

} // namespace

int main(int argc, char** argv) {
  return event_on_gpu(argc, argv, [](ps::CudaDevice& gpu, const EventOptions& options) {
    const Shape shape = options.pick(Shape{.batch = 8},
                                     Shape{.layers = 4, .width = 128, .heads = 2, .tokens = 128});
    Blocks kept{gpu, shape, shape.layers};
    kept.pass();
    gpu.sync(kept.ops().stream());
    const Event event{"07_kept_activations",
                      options,
                      {passes * shape.rows(), passes * flops_of_pass(shape) / tensor_peak},
                      [] { return passes; }};
    const auto add = [&](const char* name, std::size_t group) {
      event.add(name, [&, group] {
        return std::make_unique<Recomputed>(gpu, shape, group, kept.stack().gradients());
      });
    };
    add("kept", shape.layers); // one group of all blocks
    add("recomputed_4", 4);
    add("recomputed_2", 2);
    add("recomputed_1", 1);
    // page: end
    return run_all();
  });
}
