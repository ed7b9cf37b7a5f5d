// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does it cost to read a value after each of 3000 small steps on the GPU?
//
// A step is a kernel over 256 KiB that also writes one number. The sum of all numbers is checked.
// deferred/CONTENDER/STEP:
//   item         the number is copied to the stack and waited for, step by step, as .item() does
//   item_pinned  item, but copied to pinned memory
//   deferred     Deferred::put() after each step, and all are read at the end
//   steps        only the steps, and one wait
// The counter `syncs` says how often the host waits for the GPU in a run. To be run with
// --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true.

#include "support/contender.hpp"
#include "support/gpu.hpp"

#include <penstock/callables/deferred.hpp>
#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::uint64_t steps = 3000;
constexpr std::size_t floats = 65536;

struct Step {
  float* data;
  std::uint64_t* number;
  std::uint64_t step;
  PENSTOCK_HD void operator()(std::size_t i) const {
    data[i] = data[i] * 0.5F + 1.0F;
    if (i == 0) {
      *number = step * step;
    }
  }
};

enum class How { item, item_pinned, deferred, steps_alone };

class Steps : public Contender {
 public:
  Steps(ps::CudaDevice& gpu, How how)
      : how_{how}, data_{gpu, floats}, number_{gpu, 1}, stream_{gpu.stream()},
        pinned_{make_pinned(sizeof(std::uint64_t))}, values_{gpu, {.results = steps}} {}

  std::uint64_t run() override {
    std::uint64_t sum = 0;
    syncs_ = 0;
    values_.clear();
    for (std::uint64_t step = 0; step < steps; ++step) {
      ps::for_each(stream_, floats, Step{data_.data(), number_.data(), step});
      if (how_ == How::deferred) {
        values_.put(number_.data(), stream_);
      } else if (how_ != How::steps_alone) {
        std::uint64_t on_stack = 0;
        auto* const to =
            how_ == How::item ? &on_stack : reinterpret_cast<std::uint64_t*>(pinned_.get());
        check(
            cudaMemcpyAsync(to, number_.data(), sizeof *to, cudaMemcpyDeviceToHost, stream_.get()),
            "cudaMemcpyAsync");
        wait();
        sum += *to;
      }
    }
    if (how_ == How::deferred) {
      ++syncs_; // of the last one, and thereby of all
      for (std::size_t i = steps; i-- != 0;) {
        sum += values_[i].get();
      }
    } else if (how_ == How::steps_alone) {
      wait();
    }
    return sum;
  }
  std::uint64_t syncs() const noexcept { return syncs_; }

 private:
  void wait() {
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    ++syncs_;
  }

  How how_;
  ps::DeviceArray<float, ps::CudaDevice> data_;
  ps::DeviceArray<std::uint64_t, ps::CudaDevice> number_;
  ps::CudaStream stream_;
  PinnedBytes pinned_;
  ps::Deferred<std::uint64_t, ps::CudaDevice> values_;
  std::uint64_t syncs_{};
};

void add_steps(ps::CudaDevice& gpu, const std::string& contender, How how) {
  const std::uint64_t sum = how == How::steps_alone ? 0 : (steps - 1) * steps * (2 * steps - 1) / 6;
  const auto checked = std::make_shared<Checked>(
      [&gpu, how](bool) { return std::make_unique<Steps>(gpu, how); }, [sum] { return sum; });
  add_contender("deferred/" + contender + "/256KiB", checked,
                [](benchmark::State& state, Contender& made) {
                  for (auto _ : state) {
                    state.SetIterationTime(seconds_of_run(made));
                  }
                  state.SetItemsProcessed(static_cast<std::int64_t>(steps));
                  state.counters["syncs"] = static_cast<double>(static_cast<Steps&>(made).syncs());
                });
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    ps::CudaDevice gpu;
    const auto here = gpu.attach();
    add_steps(gpu, "item", How::item);
    add_steps(gpu, "item_pinned", How::item_pinned);
    add_steps(gpu, "deferred", How::deferred);
    add_steps(gpu, "steps", How::steps_alone);
    return run_all();
  });
}
