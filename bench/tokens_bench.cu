// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How fast is a language model fed? Batches of 64 windows of 1024 tokens at random places of a
// sequence of 16-bit tokens in memory, delivered on the GPU as nanoGPT's get_batch() delivers them:
// 64-bit inputs x, and targets y, one token later. tokens.py does it with PyTorch.
//
// A run is --batches batches, from call to return. Each contender is made once and checked: x and y
// of the first and the last batches of two runs are compared with a plain loop over the windows
// that ps::Permutation and offset_of() name. For each repetition it is made and warmed by one run;
// repetitions are interleaved:
//
//   tokens_bench [--tokens=N] [--batches=N] --benchmark_repetitions=5
//                --benchmark_enable_random_interleaving=true
//
// The defaults are 512 Mi tokens and 32768 batches. items_per_second are tokens of x.
//
// tokens/loop/64x1024    the application's own loop over Reader to_pinned | AsyncCopier
// tokens/run/64x1024     the same by run(), with a Consumer

#include "support/contender.hpp"
#include "support/gpu.hpp"

#include <penstock/cuda.hpp>
#include <penstock/order/permutation.hpp>
#include <penstock/sources/windows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

using Token = std::uint16_t;
using Tokens = ps::Batch<const ps::Window<Token>, ps::Device>;
using Source = ps::Windows<ps::Memory<Token>>;
constexpr std::size_t context = 1024;
constexpr std::size_t batch_windows = 64;
constexpr std::size_t batch_tokens = batch_windows * context;
constexpr std::uint64_t seed = 1337;

/// A thread makes two inputs and two targets of a batch, each pair in one write.
__global__ void shift_kernel(const Token* tokens, std::size_t pairs, longlong2* x, longlong2* y) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < pairs) {
    const std::size_t window = i / (context / 2);
    const Token* const token = tokens + window * (context + 1) + i % (context / 2) * 2;
    x[i] = {token[0], token[1]};
    y[i] = {token[1], token[2]};
  }
}

/// What a run delivers: so many of the source's windows, in an order.
struct Feed {
  const std::vector<Token>& tokens;
  Source source;
  std::uint64_t windows;
};

/// x and y on the GPU, computed from each batch. If checked, some are compared with a plain loop.
class Targets {
 public:
  Targets(const Feed& feed, bool checked) : feed_{feed}, checked_{checked} {}

  void operator()(const Tokens& batch, cudaStream_t stream) {
    const std::size_t pairs = batch.size() * context / 2;
    constexpr unsigned threads = 256;
    shift_kernel<<<static_cast<unsigned>((pairs + threads - 1) / threads), threads, 0, stream>>>(
        ps::get<"tokens">(batch).data(), pairs, reinterpret_cast<longlong2*>(x_.get()),
        reinterpret_cast<longlong2*>(y_.get()));
    penstock_bench::check(cudaGetLastError(), "shift_kernel");
    seen_ += batch.size();
    const bool last = seen_ == feed_.windows;
    if (checked_ && (batch.index() < 8 * batch_windows || last)) {
      compare(batch, stream);
    }
  }
  /// Returns how many windows came since the last call.
  std::uint64_t taken() { return std::exchange(seen_, 0); }

 private:
  void compare(const Tokens& batch, cudaStream_t stream) const {
    const std::size_t n = batch.size() * context;
    std::vector<std::int64_t> x(n);
    std::vector<std::int64_t> y(n);
    for (const auto& [to, from] : {std::pair{&x, &x_}, {&y, &y_}}) {
      penstock_bench::check(cudaMemcpyAsync(to->data(), from->get(), n * sizeof(std::int64_t),
                                            cudaMemcpyDeviceToHost, stream),
                            "cudaMemcpyAsync");
    }
    penstock_bench::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t window = order_(batch.index() + i / context);
      const Token* const token = feed_.tokens.data() + feed_.source.offset_of(window) + i % context;
      if (x[i] != token[0] || y[i] != token[1]) {
        throw std::runtime_error{"token " + std::to_string(i % context) + " of window " +
                                 std::to_string(window) + " is not what a plain loop finds"};
      }
    }
  }

  Feed feed_;
  ps::Permutation order_{feed_.source.size(), seed, 0};
  bool checked_;
  std::uint64_t seen_ = 0;
  DeviceBytes x_ = make_on_device(batch_tokens * sizeof(std::int64_t));
  DeviceBytes y_ = make_on_device(batch_tokens * sizeof(std::int64_t));
};

auto batches(ps::CudaDevice& gpu, const Feed& feed) {
  return ps::Reader{
             feed.source, ps::to_pinned, {.order = {.shuffle = seed, .records = feed.windows}}} |
         ps::AsyncCopier{gpu, {.batch = batch_windows}};
}

/// The application's own loop.
class Loop : public Contender {
 public:
  Loop(ps::CudaDevice& gpu, const Feed& feed, bool checked)
      : targets_{feed, checked}, pipeline_{batches(gpu, feed)} {
    pipeline_.prepare();
  }
  std::uint64_t run() override {
    for (auto batch : pipeline_.on(stream_.get())) {
      targets_(batch, stream_.get());
    }
    return targets_.taken();
  }
  std::string label() const override { return "held back by " + pipeline_.report().limiting_stage; }

 private:
  // The pipeline is destroyed first.
  Stream stream_ = make_stream();
  Targets targets_;
  decltype(batches(std::declval<ps::CudaDevice&>(), std::declval<Feed>())) pipeline_;
};

/// A Consumer, by run().
class Run : public Contender {
 public:
  Run(ps::CudaDevice& gpu, const Feed& feed, bool checked)
      : targets_{feed, checked}, pipeline_{batches(gpu, feed) | ps::Consumer{Take{&targets_}}} {
    pipeline_.prepare();
  }
  std::uint64_t run() override {
    pipeline_.run();
    return targets_.taken();
  }
  std::string label() const override { return "held back by " + pipeline_.report().limiting_stage; }

 private:
  struct Take {
    Targets* targets;
    void operator()(Tokens batch, cudaStream_t stream) const { (*targets)(batch, stream); }
  };

  Targets targets_;
  decltype(batches(std::declval<ps::CudaDevice&>(), std::declval<Feed>()) |
           ps::Consumer{Take{}}) pipeline_;
};

struct Options {
  std::size_t tokens = std::size_t{512} << 20;
  std::uint64_t batches = 32768;

  Options(int argc, char** argv) {
    for (const std::string_view argument :
         std::span{argv, static_cast<std::size_t>(argc)}.subspan(1)) {
      if (argument.starts_with("--tokens=")) {
        tokens = std::stoull(std::string{argument.substr(9)});
      } else if (argument.starts_with("--batches=")) {
        batches = std::max(std::stoull(std::string{argument.substr(10)}), 1ULL);
      } else {
        throw std::runtime_error{"unknown option " + std::string{argument} +
                                 "; there are --tokens=N, --batches=N and Google Benchmark's"};
      }
    }
  }
};

std::vector<Token> random_tokens(std::size_t count) {
  std::vector<Token> tokens(count);
  std::uint64_t state = 1;
  for (Token& token : tokens) {
    state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    token = static_cast<Token>(state >> 48);
  }
  return tokens;
}

/// Does what add() of contender.hpp does; it counts bytes, this one tokens and batches.
void add_tokens(const std::string& contender, std::uint64_t windows, Make make) {
  const auto checked = std::make_shared<Checked>(std::move(make), [windows] { return windows; });
  const auto timed = [windows](benchmark::State& state, Contender& feed) {
    for (auto _ : state) {
      state.SetIterationTime(seconds_of_run(feed));
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(windows * context));
    state.counters["us_a_batch"] =
        benchmark::Counter{static_cast<double>(windows) / batch_windows / 1e6,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert};
  };
  add_contender("tokens/" + contender + "/64x1024", checked, timed);
}

} // namespace

int main(int argc, char** argv) {
  return program<Options>(argc, argv, [](const Options& options) {
    const std::vector<Token> tokens = random_tokens(options.tokens);
    const std::uint64_t windows = options.batches * batch_windows;
    const Feed feed{tokens, ps::windows(tokens, {.length = context + 1, .stride = 1}), windows};
    ps::CudaDevice gpu;
    const auto attached = gpu.attach();
    add_tokens("loop", windows,
               [&](bool checked) { return std::make_unique<Loop>(gpu, feed, checked); });
    add_tokens("run", windows,
               [&](bool checked) { return std::make_unique<Run>(gpu, feed, checked); });
    return run_all();
  });
}
