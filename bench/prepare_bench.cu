// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How long does prepare() take if batches are as small as one record?
//
// The source has 200,000 floats, many more than the device has places for batches of one. A
// repetition prepares one pipeline and gives it back; before, one is checked by the number of
// records that it brings. prepare/CONTENDER/BATCH, with batches of 4 B, 256 B, 4 KiB and 16 KiB:
//   consumer          Reader to_pinned | AsyncCopier | Consumer
//   kernels           consumer behind a Kernel on three streams, and one in place
//   replayed          consumer, replayed in four lanes
//   replayed_kernel   consumer behind a Kernel in place that is replayed
// To be run with --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true.

#include "support/contender.hpp"
#include "support/gpu.hpp"

#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::uint64_t records = 200'000;

struct Halve {
  float* at;
  PENSTOCK_HD void operator()(std::size_t i) const { at[i] *= 0.5F; }
};
struct Move {
  const float* in;
  float* out;
  PENSTOCK_HD void operator()(std::size_t i) const { out[i] = in[i]; }
};

/// Prepares a pipeline: make(copier) adds the stages behind the copier.
template <class F> class Prepared : public Contender {
 public:
  Prepared(ps::CudaDevice& gpu, std::size_t batch, F make, bool checked)
      : gpu_{gpu}, batch_{batch}, make_{std::move(make)}, checked_{checked} {}

  std::uint64_t run() override {
    auto pipeline = make_(ps::Reader{ps::generate<float>(records,
                                                         [](std::span<float> out, std::uint64_t) {
                                                           std::ranges::fill(out, 1.0F);
                                                         }),
                                     ps::to_pinned,
                                     {.depth = 2}} |
                          ps::AsyncCopier{gpu_, {.batch = batch_}});
    const auto start = std::chrono::steady_clock::now();
    pipeline.prepare();
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return checked_ ? pipeline.run().records : 0;
  }

  double seconds{};

 private:
  ps::CudaDevice& gpu_;
  const std::size_t batch_;
  F make_;
  const bool checked_;
};

template <class F> void add_prepared(ps::CudaDevice& gpu, const std::string& name, F make) {
  struct Size {
    const char* name;
    std::size_t floats;
  };
  for (const Size size : {Size{"4B", 1}, {"256B", 64}, {"4KiB", 1024}, {"16KiB", 4096}}) {
    const auto checked = std::make_shared<Checked>(
        [&gpu, size, make](bool checked) {
          return std::make_unique<Prepared<F>>(gpu, size.floats, make, checked);
        },
        [] { return records; });
    add_contender("prepare/" + name + '/' + size.name, checked,
                  [](benchmark::State& state, Contender& made) {
                    auto& prepared = static_cast<Prepared<F>&>(made);
                    for (auto _ : state) {
                      prepared.run();
                      state.SetIterationTime(prepared.seconds);
                    }
                  });
  }
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    ps::CudaDevice gpu;
    const auto here = gpu.attach();
    const ps::DeviceArray<float, ps::CudaDevice> kept{gpu, 4096};
    const auto keep = [to = kept.data()](auto in, cudaStream_t stream) {
      ps::for_each(stream, in.size(), Move{in.data(), to});
    };
    const ps::Consumer consumer{
        [keep](ps::Batch<const float, ps::Device> in, cudaStream_t stream) { keep(in, stream); }};
    add_prepared(gpu, "consumer", [=](auto copied) { return std::move(copied) | consumer; });
    add_prepared(gpu, "kernels", [=](auto copied) {
      return std::move(copied) |
             ps::Kernel{[](ps::Batch<const float, ps::Device> in, ps::Batch<float, ps::Device> out,
                           cudaStream_t stream) {
                          ps::for_each(stream, in.size(), Move{in.data(), out.data()});
                        },
                        {.streams = 3}} |
             ps::Kernel{[](ps::Batch<float, ps::Device> both, cudaStream_t stream) {
               ps::for_each(stream, both.size(), Halve{both.data()});
             }} |
             consumer;
    });
    add_prepared(gpu, "replayed", [=](auto copied) {
      return std::move(copied) |
             ps::Consumer{ps::replayed(
                 [keep](ps::FrozenBatch<const float> in, cudaStream_t stream) { keep(in, stream); },
                 {.lanes = 4})};
    });
    add_prepared(gpu, "replayed_kernel", [=](auto copied) {
      return std::move(copied) |
             ps::Kernel{ps::replayed([](ps::FrozenBatch<float> both, cudaStream_t stream) {
               ps::for_each(stream, both.size(), Halve{both.data()});
             })} |
             consumer;
    });
    return run_all();
  });
}
