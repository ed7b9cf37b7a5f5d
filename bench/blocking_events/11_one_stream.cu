// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does one stream for everything cost?
//
// 64 matrices of 1536 x 1536 floats in host memory go to the GPU, which multiplies each by a matrix
// that it has. The products come back, and the host adds up a column of each. At this size a
// product takes about as long as a copy.
//
//   default_stream   as first written: cudaMemcpy, cublasSgemm, cudaMemcpy, from and to pageable
//                    memory, item after item
//   pinned           these calls in a stream of their own, from and to page-locked memory
//   streams          four such streams by hand, so that copies and products of items overlap
//   pipeline         Reader | AsyncCopier | Kernel | AsyncCopier{to_host} | Consumer, from pageable
//                    memory
//
// All numbers are small integers, so sums are exact in whatever order cuBLAS adds. It needs a GPU
// and cuBLAS.

#include "event.hpp"
#include "pinned_array.hpp"

#include "../../examples/support/blas.hpp"
#include "../../examples/support/memory_use.hpp"
#include "../../examples/support/products.hpp"

#include <penstock/device/device_array.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::size_t side = 1536;
struct Matrix { // column by column
  float values[side * side];
};

/// The matrices, and the work on each.
class Task {
 public:
  Task(ps::CudaDevice& device, std::size_t items)
      : gpu{device}, memory_{make_floats(items * side * side)},
        matrices_{reinterpret_cast<Matrix*>(memory_.get()), items}, weights_(side * side),
        weights_on_gpu_{gpu, side * side}, workspace_{gpu, Blas::workspace_bytes} {
    fill(memory_.get(), items * side * side, 1);
    fill(weights_.data(), weights_.size(), 2);
    const auto stream = gpu.stream();
    gpu.copy_to_device(weights_on_gpu_.data(), weights_.data(), sizeof(Matrix), stream);
    gpu.sync(stream);
  }

  std::span<Matrix> matrices() const { return matrices_; }

  /// Enqueues *out = weights * *in. `workspace` is for one stream at a time.
  void multiply(const Matrix* in, Matrix* out, cudaStream_t stream,
                const ps::Workspace<ps::CudaDevice>& workspace) {
    ::multiply(blas_, side, weights_on_gpu_.data(), in->values, out->values, stream, workspace);
  }
  /// Multiplies with its own workspace, for callers with one stream.
  void multiply(const Matrix* in, Matrix* out, cudaStream_t stream) {
    multiply(in, out, stream, workspace_);
  }

  /// The host's work on the product of matrix `i`: adds up a column of it. One thread.
  void use(std::size_t i, const Matrix& product) {
    const float* const column = product.values + column_of(i) * side;
    used_ += weighed(i, static_cast<std::int64_t>(std::accumulate(column, column + side, 0.0)));
  }
  /// Returns what use() has added up since the last call.
  std::uint64_t used() { return std::exchange(used_, 0); }
  /// Returns what used() must return after every product was used once, by plain loops.
  std::uint64_t expected() const {
    // A product's column, added up, is the sums of the weights' columns times the matrix's column.
    std::vector<std::int64_t> sums(side);
    for (std::size_t k = 0; k < weights_.size(); ++k) {
      sums[k / side] += static_cast<std::int64_t>(weights_[k]);
    }
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      const float* const column = matrices_[i].values + column_of(i) * side;
      std::int64_t sum = 0;
      for (std::size_t k = 0; k < side; ++k) {
        sum += sums[k] * static_cast<std::int64_t>(column[k]);
      }
      all += weighed(i, sum);
    }
    return all;
  }

  ps::CudaDevice& gpu;

 private:
  static std::size_t column_of(std::size_t i) { return i * 37 % side; }
  // Makes the sum depend on whose column it is.
  static std::uint64_t weighed(std::size_t i, std::int64_t sum) {
    return (2 * i + 1) * static_cast<std::uint64_t>(sum);
  }

  Floats memory_;
  std::span<Matrix> matrices_;
  std::vector<float> weights_;
  ps::DeviceArray<float, ps::CudaDevice> weights_on_gpu_;
  ps::Workspace<ps::CudaDevice> workspace_;
  Blas blas_;
  std::uint64_t used_{};
};

/// Returns the seconds that the products of all matrices take, without copies.
double seconds_of_products(Task& task) {
  const ps::DeviceArray<Matrix, ps::CudaDevice> in{task.gpu, 1}, out{task.gpu, 1};
  const auto stream = task.gpu.stream();
  double best = 1e9;
  for (int repetition = 0; repetition < 4; ++repetition) { // the first loads cuBLAS's kernels
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < task.matrices().size(); ++i) {
      task.multiply(in.data(), out.data(), stream);
    }
    task.gpu.sync(stream);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

class DefaultStream : public Way {
 public:
  explicit DefaultStream(Task& task) : task_{task}, in_{task.gpu, 1}, out_{task.gpu, 1} {}

  std::uint64_t run() override {
    const cudaStream_t stream = cudaStreamLegacy;
    Matrix* const in = in_.data();
    Matrix* const out = out_.data();
    for (std::size_t i = 0; i < task_.matrices().size(); ++i) {
      const Matrix& matrix = task_.matrices()[i];
      check(cudaMemcpy(in, &matrix, sizeof matrix, cudaMemcpyHostToDevice), "cudaMemcpy");
      task_.multiply(in, out, stream);
      check(cudaMemcpy(product_.get(), out, sizeof matrix, cudaMemcpyDeviceToHost), "cudaMemcpy");
      task_.use(i, *product_);
    }
    // page: end
    return task_.used();
  }

 private:
  Task& task_;
  ps::DeviceArray<Matrix, ps::CudaDevice> in_, out_;
  std::unique_ptr<Matrix> product_ = std::make_unique<Matrix>();
};

/// A stream by hand, and all that an item needs there.
struct Lane {
  explicit Lane(ps::CudaDevice& gpu)
      : in{gpu, 1}, out{gpu, 1}, workspace{gpu, Blas::workspace_bytes}, product{gpu, 1},
        stream{gpu.stream()} {}

  ps::DeviceArray<Matrix, ps::CudaDevice> in, out;
  ps::Workspace<ps::CudaDevice> workspace;
  PinnedArray<Matrix, ps::CudaDevice> product;
  ps::CudaStream stream;
};

/// Page-locks the matrices where they lie. With one lane each item is done before the next.
class PinnedStreams : public Way {
 public:
  PinnedStreams(Task& task, std::size_t count)
      : task_{task}, matrices_pinned_{task.matrices().data()->values,
                                      task.matrices().size_bytes() / sizeof(float)} {
    for (std::size_t i = 0; i < count; ++i) {
      lanes_.emplace_back(task.gpu);
    }
  }

  std::uint64_t run() override {
    ps::CudaDevice& gpu = task_.gpu;
    const std::span<Matrix> matrices = task_.matrices();
    for (std::size_t i = 0; i < matrices.size() + lanes_.size(); ++i) {
      Lane& lane = lanes_[i % lanes_.size()];
      if (i >= lanes_.size()) { // what the lane did before
        gpu.sync(lane.stream);
        task_.use(i - lanes_.size(), *lane.product.data());
      }
      if (i < matrices.size()) {
        gpu.copy_to_device(lane.in.data(), &matrices[i], sizeof(Matrix), lane.stream);
        task_.multiply(lane.in.data(), lane.out.data(), lane.stream, lane.workspace);
        gpu.copy_to_host(lane.product.data(), lane.out.data(), sizeof(Matrix), lane.stream);
      }
    }
    return task_.used();
  }

 private:
  Task& task_;
  PinnedInPlace matrices_pinned_;
  std::deque<Lane> lanes_;
};

auto pipeline_of(Task& task) {
  // page: pipeline
  return ps::Reader{ps::memory(task.matrices()), ps::to_pinned} |
         ps::AsyncCopier{task.gpu, {.batch = 1, .depth = 4}} |
         ps::Kernel{[&](ps::Batch<const Matrix, ps::Device> in, ps::Batch<Matrix, ps::Device> out,
                        cudaStream_t stream) { task.multiply(in.data(), out.data(), stream); }} |
         ps::AsyncCopier{ps::to_host} |
         ps::Consumer{[&](ps::Batch<const Matrix, ps::Pinned> product) {
           task.use(product.index(), *product.data());
         }};
  // page: end
}

template <class P> class Pipelined : public Way {
 public:
  Pipelined(Task& task, P pipeline) : task_{task}, pipeline_{std::move(pipeline)} {
    pipeline_.prepare();
  }

  std::uint64_t run() override {
    pipeline_.run();
    return task_.used();
  }

 private:
  Task& task_;
  P pipeline_;
};

} // namespace

int main(int argc, char** argv) {
  return event_on_gpu(argc, argv, [](ps::CudaDevice& gpu, const EventOptions& options) {
    const std::size_t items = options.pick(64, 8);
    Task task{gpu, items};
    const double link = static_cast<double>(task.matrices().size_bytes()) / napkin::link;
    const Event event{"11_one_stream",
                      options,
                      {items, std::max(link, seconds_of_products(task))},
                      [sum = task.expected()] { return sum; }};
    const auto pinned = [&](std::size_t streams) {
      return [&task, streams] { return std::make_unique<PinnedStreams>(task, streams); };
    };
    event.add("default_stream", [&] { return std::make_unique<DefaultStream>(task); });
    event.add("pinned", pinned(1));
    event.add("streams", pinned(4));
    event.add("pipeline", [&] {
      auto pipeline = pipeline_of(task);
      return std::make_unique<Pipelined<decltype(pipeline)>>(task, std::move(pipeline));
    });
    return run_all();
  });
}
