// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does attention lose by writing its scores to memory?
//
// Causal attention over 16384 tokens of width 2048 in bf16: heads of 64 and 128 values, sequences
// of 1024 and 4096 tokens, forward and backward; each of these is an event. A run makes several
// passes, through 2^35 scores forward and half as many backward. Results may differ by a hundredth
// of their length from those of the way with scores; of these, 16 queries are first compared with
// plain loops.
//
//   unfused   cuBLASLt's products, with a softmax between them; probabilities are kept for backward
//   fused     one kernel, in which scores come and go; backward computes probabilities again
//
// The counter `flops` counts multiplications and additions up to each token's own place, of two
// products forward and five backward; `activation_bytes` counts the bytes kept between them.

#include "event.hpp"
#include "numbers.cuh"

#include "gpt/gpu_ops.cuh"

#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>
#include <penstock/data/float16.hpp>
#include <penstock/device/device_array.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using transformer::Shape;

using T = ps::BFloat16;
using Array = ps::DeviceArray<T, ps::CudaDevice>;

constexpr double most_off = 1e-2;

enum : std::uint64_t { qkvs = 1, d_outs };
constexpr float qkv_scale = 2; // makes scores about 1.3 in size

/// All shapes use the same values, since all have as many.
struct Inputs {
  Inputs(ps::CudaDevice& gpu, std::size_t values) : qkv{gpu, 3 * values}, d_out{gpu, values} {
    const ps::CudaStream stream = gpu.stream();
    ps::for_each(stream, qkv.size(), FillNumbers<T>{qkv.data(), qkvs, qkv_scale});
    ps::for_each(stream, d_out.size(), FillNumbers<T>{d_out.data(), d_outs});
    gpu.sync(stream);
  }
  Array qkv, d_out;
};

/// Attention in one of the ways, and its results.
class Attended {
 public:
  Attended(ps::CudaDevice& gpu, const Shape& shape, const Inputs& in, bool fused)
      : in_{in}, ops_{gpu, shape, {.fused = fused}}, kept_{gpu, ops_.attention_kept()},
        out_{gpu, shape.values()}, d_qkv_{gpu, 3 * shape.values()} {}

  void forward() { ops_.attention({in_.qkv.data(), out_.data(), kept_.data()}); }
  void backward() {
    ops_.attention_backward(
        {in_.d_out.data(), in_.qkv.data(), out_.data(), kept_.data(), d_qkv_.data()});
  }

  ps::CudaStream& stream() noexcept { return ops_.stream(); }
  std::size_t kept_bytes() const noexcept { return kept_.size(); }
  Array& out() noexcept { return out_; }
  Array& d_qkv() noexcept { return d_qkv_; }

 private:
  const Inputs& in_;
  transformer::GpuOps<T> ops_;
  ps::DeviceArray<std::byte, ps::CudaDevice> kept_;
  Array out_;
  Array d_qkv_;
};

/// Returns the output of a query over the keys up to its own. at(part, token, i) is value i of a
/// query (part 0), of a key (1), or of the value that belongs to a key (2).
template <class At> std::vector<double> attend(std::size_t query, std::size_t head, At at) {
  const double scale = 1 / std::sqrt(static_cast<double>(head));
  const auto score_of = [&](std::size_t key) {
    double sum = 0;
    for (std::size_t i = 0; i < head; ++i) {
      sum += at(0, query, i) * at(1, key, i);
    }
    return sum * scale;
  };
  std::vector<double> out(head);
  // page: online
  double most = -INFINITY; // of the scores so far
  double total = 0;        // of exp(score - most)
  for (std::size_t key = 0; key <= query; ++key) {
    const double score = score_of(key);
    const double newest = std::max(most, score);
    const double shrink = std::exp(most - newest); // 1, unless this score is the greatest so far
    const double weight = std::exp(score - newest);
    total = total * shrink + weight;
    for (std::size_t i = 0; i < head; ++i) {
      out[i] = out[i] * shrink + weight * at(2, key, i); // at(2, ...): the key's values
    }
    most = newest;
  }
  // page: end
  for (double& value : out) {
    value /= total;
  }
  return out;
}

/// Throws unless the outputs of 16 queries of different heads and sequences are right.
void check_queries(const Shape& shape, const std::vector<T>& out) {
  Squares squares{};
  for (std::size_t i = 0; i < 16; ++i) {
    const std::size_t first = i % shape.batch * shape.tokens; // of its sequence
    const std::size_t begin = i * 5 % shape.heads * shape.head();
    const std::size_t query = shape.tokens / 16 * (i + 1) - 1;
    const std::vector<double> wanted =
        attend(query, shape.head(), [&](std::size_t part, std::size_t token, std::size_t value) {
          return static_cast<double>(
              qkv_scale * number(((first + token) * 3 + part) * shape.width + begin + value, qkvs));
        });
    for (std::size_t value = 0; value < shape.head(); ++value) {
      const double found = static_cast<float>(out[(first + query) * shape.width + begin + value]);
      squares.off += (found - wanted[value]) * (found - wanted[value]);
      squares.wanted += wanted[value] * wanted[value];
    }
  }
  if (const double off = std::sqrt(squares.off / squares.wanted); !(off < most_off)) {
    throw std::runtime_error{"queries of the unfused way are off by " + std::to_string(off)};
  }
}

/// The results of the unfused way.
struct Wanted {
  Array out, d_qkv;
};
Wanted checked_results(ps::CudaDevice& gpu, const Shape& shape, const Inputs& in) {
  Attended unfused{gpu, shape, in, false};
  unfused.forward();
  unfused.backward();
  check_queries(shape, unfused.out().read(unfused.stream())); // blocks until all is done
  return {std::move(unfused.out()), std::move(unfused.d_qkv())};
}

/// The work of a run.
struct Work {
  Shape shape;
  bool backward;
  std::size_t passes;
  double flops() const {
    const double forward = 2 * static_cast<double>(shape.tokens * shape.values());
    return (backward ? 2.5 : 1) * forward * static_cast<double>(passes);
  }
};

class Passes : public Way {
 public:
  Passes(ps::CudaDevice& gpu, const Work& work, const Inputs& in, const Wanted& wanted, bool fused)
      : work_{work}, wanted_{wanted}, attended_{gpu, work.shape, in, fused}, off_{gpu} {
    if (work.backward) {
      attended_.forward();
      gpu.sync(attended_.stream());
    }
  }

  std::uint64_t run() override {
    for (std::size_t i = 0; i < work_.passes; ++i) {
      work_.backward ? attended_.backward() : attended_.forward();
    }
    const Array& found = work_.backward ? attended_.d_qkv() : attended_.out();
    const Array& wanted = work_.backward ? wanted_.d_qkv : wanted_.out;
    const double off = off_(found.data(), wanted.data(), found.size(), attended_.stream().get());
    if (!(off < most_off)) {
      throw std::runtime_error{"the results are off by " + std::to_string(off)};
    }
    return work_.passes;
  }
  void count(benchmark::UserCounters& counters) const override {
    counters["flops"] = benchmark::Counter{work_.flops(), benchmark::Counter::kIsRate};
    counters["activation_bytes"] = static_cast<double>(attended_.kept_bytes());
  }

 private:
  Work work_;
  const Wanted& wanted_;
  Attended attended_;
  Distance off_;
};

} // namespace

int main(int argc, char** argv) {
  return event_on_gpu(argc, argv, [](ps::CudaDevice& gpu, const EventOptions& options) {
    const std::size_t rows = options.pick(16384, 4096);
    const std::size_t width = options.pick(2048, 128);
    const std::size_t scores = options.pick(std::size_t{1} << 35, std::size_t{1} << 26);
    const Inputs in{gpu, rows * width};
    for (const std::size_t head : {64, 128}) {
      for (const std::size_t tokens : {1024, 4096}) {
        const Shape shape{.layers = 1,
                          .width = width,
                          .heads = width / head,
                          .tokens = tokens,
                          .batch = rows / tokens};
        const auto wanted = std::make_shared<Wanted>(checked_results(gpu, shape, in));
        for (const bool backward : {false, true}) {
          const std::size_t pass = shape.heads * rows * tokens * (backward ? 2 : 1);
          const Work work{shape, backward, scores / pass};
          const Event event{std::string{"06_fused_attention-"} +
                                (backward ? "backward_" : "forward_") + std::to_string(head) + 'x' +
                                std::to_string(tokens),
                            options,
                            {work.passes * rows, work.flops() / tensor_peak},
                            [=] { return work.passes; }};
          for (const bool fused : {false, true}) {
            event.add(fused ? "fused" : "unfused", [=, &gpu, &in] {
              return std::make_unique<Passes>(gpu, work, in, *wanted, fused);
            });
          }
        }
      }
    }
    return run_all();
  });
}
