// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a Watch, a GpuObserver and `17_doctor --run` see of programs whose calls are known.

#include "cuda/watch_items.cuh"

#include <penstock/cuda.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/diagnose/gpu_observer.hpp>
#include <penstock/diagnose/watch.hpp>
#include <penstock/penstock.hpp>

#include "../examples/doctor/watch_figures.hpp"
#include "../examples/doctor/watch_findings.hpp"
#include "../examples/support/run_watched.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <cuda_profiler_api.h>
#include <fcntl.h>

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::check;
using ps::tests::has;
using ps::tests::item_values;
using ps::tests::score_items;

namespace {

constexpr std::uint64_t ms = 1'000'000;

__device__ std::uint64_t now() {
  std::uint64_t ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}
/// Runs for `ns` nanoseconds, and writes when it began and ended.
__global__ void stamped(std::uint64_t ns, std::uint64_t* stamps) {
  const std::uint64_t begin = now();
  std::uint64_t end = begin;
  while (end - begin < ns) {
    end = now();
  }
  stamps[0] = begin;
  stamps[1] = end;
}

void check_items(const ps::WatchSummary& sum, std::uint64_t items) {
  CAPTURE(sum);
  CHECK(sum.gpu.dropped == 0);
  CHECK(sum.waits.calls == items);
  CHECK(sum.allocations.calls == 2 * items);
  CHECK(sum.releases.calls == 2 * items);
  CHECK(sum.copies.calls == 3 * items);
  CHECK(sum.launches.calls == items);
  CHECK(sum.gpu.copies_to_device == items);
  CHECK(sum.gpu.copies_to_host == items);
  CHECK(sum.pageable.copies == 2 * items);
  CHECK(sum.pageable.bytes == items * (item_values * sizeof(std::uint32_t) + 8));
  CHECK(sum.gpu.kernels == 2 * items); // with a memset
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

struct Outcome {
  int code{};
  std::string text, errors;
};
/// Runs the program `watched` as 17_doctor does.
Outcome doctor_run(const char* what, const char* items, bool json = false) {
  std::string program = WATCHED;
  std::string how = what;
  std::string count = items;
  std::vector<char*> command{program.data(), how.data(), count.data()};
  std::ostringstream text;
  std::ostringstream errors;
  const int nowhere = open("/dev/null", O_WRONLY);
  const int code = doctor::run_watched(command, json, INJECTION, nowhere, text, errors);
  close(nowhere);
  return {code, text.str(), errors.str()};
}

} // namespace

TEST_CASE(
    "a Watch counts each call and copy of a wait for each item, and the doctor names the page") {
  constexpr std::uint64_t items = 300;
  score_items(1);
  ps::Watch watch; // GPU 0, from here on
  score_items(300);
  std::cout << watch.stop();
  const ps::WatchSummary sum = watch.stop();
  check_items(sum, items);
  const std::vector<doctor::WatchFinding> found = doctor::findings(sum);
  REQUIRE_FALSE(found.empty());
  CHECK(found.front().page == "10_sync_per_item");
  std::ostringstream text;
  text << sum;
  CHECK(holds(text.str(), "300 waits (cudaStreamSynchronize, "));
  CHECK(holds(text.str(), "600 allocations (cudaMalloc, "));
  CHECK(holds(text.str(), "900 copies (cudaMemcpyAsync, "));
  const auto known = [&](const char* name) {
    for (const ps::WatchedFunction& function : sum.functions) {
      if (function.name == name) {
        return function.calls.calls;
      }
    }
    return std::uint64_t{0};
  };
  CHECK(known("cudaMalloc") == 2 * items);
  CHECK(known("cudaFree") == 2 * items);
  CHECK(known("cudaMemsetAsync") == items);
  CHECK(known("cuMemAlloc") == 0); // which the runtime calls for cudaMalloc()
}

TEST_CASE(
    "what happens before and after a Watch, and outside of the profiler's bracket, is not in it") {
  score_items(5);
  check_items(ps::watch([] { score_items(20); }), 20);
  check_items(ps::watch([] {
                score_items(5);
                check(cudaProfilerStart());
                score_items(20);
                check(cudaProfilerStop());
                score_items(5);
                check(cudaProfilerStart());
                score_items(10);
                check(cudaProfilerStop());
              }),
              30);
  score_items(5);
  check_items(ps::watch([] { score_items(1); }), 1);
}

TEST_CASE("only one thing looks on at a time, and the first goes on") {
  ps::Watch watch;
  CHECK(has(caught<ps::CuptiError>([] { ps::Watch{}; }), "Another profiler is at work"));
  CHECK(has(caught<ps::Error>([] { ps::GpuActivity{}; }), "stop() that one first"));
  score_items(3);
  check_items(watch.stop(), 3);
  {
    ps::GpuActivity activity;
    CHECK(has(caught<ps::Error>([] { ps::Watch{}; }), "stop() that one first"));
  }
  check_items(ps::watch([] { score_items(2); }), 2);
}

TEST_CASE("a Watch leaves a program's pending error and captures alone") {
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  const ps::DeviceArray<std::uint64_t, ps::CudaDevice> stamps{gpu, 2};
  CHECK(cudaMalloc(nullptr, 1) == cudaErrorInvalidValue);
  {
    ps::Watch watch;
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidValue);
    watch.stop();
  }
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);

  ps::Watch watch;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  stamped<<<1, 1, 0, stream.get()>>>(1, stamps.data());
  stamped<<<1, 1, 0, stream.get()>>>(1, stamps.data());
  CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess);
  check(cudaGraphInstantiate(&exec, graph, 0));
  check(cudaGraphLaunch(exec, stream.get()));
  check(cudaGraphLaunch(exec, stream.get()));
  gpu.sync(stream);
  const ps::WatchSummary sum = watch.stop();
  CHECK(sum.launches.calls == 4); // two are captured
  CHECK(sum.gpu.kernels == 4);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

TEST_CASE("a GpuObserver counts what a callable asks of CUDA, and nothing else") {
  ps::CudaDevice gpu;
  constexpr std::size_t batches = 6;
  const std::vector<std::uint32_t> values(batches * 1024, 1);
  const ps::DeviceArray<std::uint64_t, ps::CudaDevice> sums{gpu, batches};
  void* const pinned = gpu.allocate_pinned(4096);
  std::vector<std::uint64_t> back(16);
  auto pipeline =
      ps::Reader{ps::memory(values), ps::to_pinned} | ps::AsyncCopier{gpu, {.batch = 1024}} |
      ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Device> batch, cudaStream_t stream) {
        void* memory = nullptr;
        check(cudaMalloc(&memory, 4096));
        check(cudaMemcpyAsync(memory, pinned, 4096, cudaMemcpyHostToDevice, stream));
        check(cudaMemcpyAsync(memory, back.data(), 128, cudaMemcpyHostToDevice, stream));
        auto* const sum = sums.data() + batch.index() / 1024;
        ps::tests::add_up<<<1, 1, 0, stream>>>(batch.data(), batch.size(), sum);
        ps::tests::add_up<<<1, 1, 0, stream>>>(batch.data(), batch.size(), sum);
        check(cudaStreamSynchronize(stream));
        check(cudaFree(memory));
      }};
  ps::GpuObserver observer;
  for (int run = 0; run < 2; ++run) {
    const ps::Report report = pipeline.run({.observe = &observer});
    CAPTURE(report);
    CHECK(report.observed);
    const ps::DeviceCalls& calls = report.stages.back().calls;
    CHECK(calls.launches == 2 * batches);
    CHECK(calls.waits == batches);
    CHECK(calls.allocations == 2 * batches);
    CHECK(calls.copies == 2 * batches);
    CHECK(calls.pageable_copies == batches);
    CHECK(calls.pageable_bytes == 128 * batches);
    CHECK(calls.allocation_s > 0);
    for (std::size_t i = 0; i + 1 < report.stages.size(); ++i) {
      CHECK(report.stages[i].calls.copies == 0);
      CHECK(report.stages[i].calls.launches == 0);
    }
    REQUIRE(report.gpu.has_value());
    CHECK(report.gpu->kernels >= 2 * batches);
    CHECK(report.gpu->dropped == 0);
  }
  const ps::Report unobserved = pipeline.run();
  CHECK_FALSE(unobserved.observed);
  CHECK_FALSE(unobserved.gpu.has_value());
  CHECK(unobserved.stages.back().calls.launches == 0);
  gpu.deallocate_pinned(pinned, 4096);
}

TEST_CASE("a run that cannot be observed ends before anything is read") {
  ps::CudaDevice gpu;
  const std::vector<std::uint32_t> values(1024, 1);
  auto pipeline = ps::Reader{ps::memory(values), ps::to_pinned} | ps::AsyncCopier{gpu} |
                  ps::Consumer{[](ps::Batch<const std::uint32_t, ps::Device>, cudaStream_t) {}};
  ps::GpuObserver observer;
  {
    const ps::Watch watch;
    CHECK(has(caught<ps::Error>([&] { pipeline.run({.observe = &observer}); }),
              "Another profiler is at work"));
  }
  CHECK(pipeline.run({.observe = &observer}).observed);
}

TEST_CASE("the share of kernels is within 2 points of the stamps that they write themselves") {
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  constexpr std::size_t kernels = 40;
  const ps::DeviceArray<std::uint64_t, ps::CudaDevice> stamps{gpu, 2 * kernels};
  stamped<<<1, 1, 0, stream.get()>>>(1, stamps.data());
  gpu.sync(stream);
  ps::GpuActivity activity;
  for (std::size_t k = 0; k < kernels; ++k) {
    stamped<<<1, 1, 0, stream.get()>>>(ms / 2 + k % 3 * ms, stamps.data() + 2 * k);
    check(cudaGetLastError());
    gpu.sync(stream);
    std::this_thread::sleep_for(std::chrono::microseconds{k % 4 * 500});
  }
  const ps::GpuActivitySummary sum = activity.stop();
  const std::vector<std::uint64_t> is = stamps.read(stream);
  std::uint64_t busy = 0;
  for (std::size_t k = 0; k < kernels; ++k) {
    busy += is[2 * k + 1] - is[2 * k];
  }
  const double share = static_cast<double>(busy) / static_cast<double>(is.back() - is.front());
  std::cout << "kernels' share by their stamps " << share << ", by CUPTI " << sum.kernel_share()
            << '\n';
  CHECK(sum.kernel_share() == Approx(share).margin(0.02));
  CHECK(share < 0.9);
}

TEST_CASE("17_doctor --run sees a program that knows nothing of it, and passes its exit code on") {
  // So many that what they cost exceeds what CUDA's set-up does.
  const Outcome outcome = doctor_run("ends", "4000");
  CAPTURE(outcome.text, outcome.errors);
  CHECK(outcome.code == 7);
  CHECK(outcome.errors.empty());
  CHECK(holds(outcome.text, "4000 waits (cudaStreamSynchronize, "));
  CHECK(holds(outcome.text, "8000 allocations (cudaMalloc, "));
  CHECK(holds(outcome.text, "12000 copies (cudaMemcpyAsync, "));
  CHECK(holds(outcome.text, "all of pageable memory"));
  CHECK(holds(outcome.text, "docs/blocking_events/10_sync_per_item.md"));
  const Outcome json = doctor_run("ends", "4000", true);
  CHECK(holds(json.text, "\"exit_code\": 7"));
  CHECK(holds(json.text, "\"page\": \"10_sync_per_item\""));
  CHECK(holds(json.text, "\"ended\": true"));
}

TEST_CASE("a program that leaves by _exit() has lost its last seconds at most") {
  const Outcome outcome = doctor_run("leaves", "200");
  CAPTURE(outcome.text, outcome.errors);
  CHECK(outcome.code == 0);
  CHECK(holds(outcome.text, "cut it short"));
  CHECK(holds(outcome.text, "200 waits (cudaStreamSynchronize, "));
}

TEST_CASE("a program that leaves by quick_exit() has lost nothing, and one by exec() is named") {
  const Outcome quick = doctor_run("hurries", "200");
  CAPTURE(quick.text, quick.errors);
  CHECK(quick.code == 6);
  CHECK_FALSE(holds(quick.text, "cut it short"));
  CHECK(holds(quick.text, "200 waits (cudaStreamSynchronize, "));
  const Outcome other = doctor_run("becomes", "20");
  CAPTURE(other.text, other.errors);
  CHECK(other.code == 1);
  CHECK(holds(other.errors, "ended without a word of what it did"));
}

TEST_CASE("a watched program may fork, and its child is left alone") {
  const Outcome outcome = doctor_run("forks", "50");
  CAPTURE(outcome.text, outcome.errors);
  CHECK(outcome.code == 9);
  CHECK(holds(outcome.text, "50 waits (cudaStreamSynchronize, "));
  CHECK_FALSE(holds(outcome.text, "processes used CUDA"));
}

TEST_CASE("a program without a call of CUDA is one clear error") {
  std::string program = "true";
  std::vector<char*> command{program.data()};
  std::ostringstream text;
  std::ostringstream errors;
  CHECK(doctor::run_watched(command, false, INJECTION, 1, text, errors) == 1);
  CHECK(holds(errors.str(), "true never used CUDA"));
  CHECK(text.str().empty());
}
