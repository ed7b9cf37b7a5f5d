// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Batches of a GPU handed over by DLPack, over a CUDA runtime that needs no GPU: which streams
// wait, and which calls are not made.

#include "support/fake_cuda.hpp"

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <penstock/cuda.hpp>
#include <penstock/formats/dlpack.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <thread>
#include <utility>

namespace ps = penstock;
namespace dl = penstock::dl;
namespace tests = penstock::tests;

namespace {

constexpr std::size_t batches = 12;

auto to_device(ps::CudaDevice& gpu) {
  return ps::Reader{ps::generate<float>(batches * 256,
                                        [](std::span<float> out, std::uint64_t first) {
                                          std::iota(out.begin(), out.end(),
                                                    static_cast<float>(first));
                                        }),
                    ps::to_pinned} |
         ps::AsyncCopier{gpu, {.batch = 256, .depth = 4}};
}
int recorded(cudaStream_t on) {
  return fake_cuda::runtime().records[on];
}

} // namespace

TEST_CASE("a tensor says on which GPU it lies, and of host memory that it is page-locked") {
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  auto on_gpu = to_device(gpu);
  auto run = on_gpu.on(stream);
  auto shared = run.next().share();
  auto* const tensor = ps::to_dlpack(shared, ps::dlpack_device(shared, gpu));
  CHECK(tensor->dl_tensor.device == dl::Device{dl::cuda, gpu.number()});
  CHECK(tensor->dl_tensor.dtype == dl::DataType{2, 32, 1});
  tensor->deleter(tensor);

  auto pinned = ps::Reader{ps::generate<float>(10, [](std::span<float>, std::uint64_t) {})} |
                ps::PinnedStager{gpu};
  auto on_host = pinned.batches();
  const auto of_host = on_host.next().share();
  CHECK(ps::dlpack_device(of_host, gpu) == dl::Device{dl::cuda_host, 0});
}

TEST_CASE("the stream that a consumer names waits for the loop's, and the place for it") {
  const tests::Watchdog watchdog{"streams by number"};
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  auto other = gpu.stream();
  auto pipeline = to_device(gpu);
  std::size_t got = 0;
  auto run = pipeline.on(stream);
  const auto number_of = [](cudaStream_t s) { return reinterpret_cast<std::intptr_t>(s); };
  // Returns how often events were recorded on the loop's stream, and, by the place, on `used`.
  const auto hand_over = [&](std::optional<std::intptr_t> asked, cudaStream_t used) {
    auto shared = run.next().share();
    ++got;
    const int before = recorded(stream.get());
    const int used_before = recorded(used);
    ps::sync_for_dlpack(shared, gpu, stream, asked);
    const int on_loop = recorded(stream.get()) - before;
    auto* const tensor = ps::to_dlpack(shared, ps::dlpack_device(shared, gpu));
    shared.release();
    std::thread{[&] { tensor->deleter(tensor); }}.join();
    CHECK(recorded(used) == used_before + (used == stream.get() ? on_loop : 0));
    run.next().release(); // takes the place back
    ++got;
    return std::pair{on_loop, recorded(used) - used_before};
  };
  CHECK(hand_over(number_of(other.get()), other.get()) == std::pair{1, 1});
  CHECK(hand_over({}, cudaStreamLegacy) == std::pair{1, 1});
  CHECK(hand_over(1, cudaStreamLegacy) == std::pair{1, 1});
  CHECK(hand_over(2, cudaStreamPerThread) == std::pair{1, 1});
  CHECK(hand_over(-1, other.get()) == std::pair{0, 0});
  CHECK(hand_over(number_of(stream.get()), other.get()) == std::pair{0, 0});
  CHECK(got == batches);
}

TEST_CASE("stream 0 is refused, and so is another thread while the loop goes on") {
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  auto pipeline = to_device(gpu);
  auto run = pipeline.on(stream);
  auto shared = run.next().share();
  CHECK(tests::outcome_of([&] {
          ps::sync_for_dlpack(shared, gpu, stream, 0);
        }).says("named stream 0, which may be either"));
  std::thread{[&] {
    CHECK(tests::outcome_of([&] {
            ps::sync_for_dlpack(shared, gpu, stream, 1);
          }).says("used_on() was called on another thread"));
  }}.join();
}

TEST_CASE("a tensor that dies beside a capture in global mode does not break it off") {
  const tests::Watchdog watchdog{"a tensor's end beside a capture"};
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  auto captured = gpu.stream();
  auto pipeline = to_device(gpu);
  auto run = pipeline.on(stream);
  auto shared = run.next().share();
  auto* const tensor = ps::to_dlpack(shared, ps::dlpack_device(shared, gpu));
  shared.release();
  REQUIRE(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal) == cudaSuccess);
  const int before = recorded(stream.get());
  tensor->deleter(tensor);
  CHECK(recorded(stream.get()) == before);
  cudaGraph_t graph{};
  CHECK(cudaStreamEndCapture(captured.get(), &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(run.next());
}
