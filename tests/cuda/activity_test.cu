// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Patterns whose times and counts are known, as GpuActivity sees them. Bounds on times are
// one-sided wherever a busy machine could stretch them.

#include <penstock/cuda.hpp>
#include <penstock/diagnose/activity.hpp>

#include "support/catch.hpp"
#include "support/caught.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ps = penstock;
using ps::GpuActivity;
using ps::GpuActivitySummary;
using ps::tests::caught;
using ps::tests::has;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::uint64_t ms = 1'000'000;

void check(cudaError_t status) {
  const std::string text = cudaGetErrorString(status);
  CAPTURE(text);
  REQUIRE(status == cudaSuccess);
}

__device__ std::uint64_t now() {
  std::uint64_t ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

/// Runs for `ns` nanoseconds, or a little more.
__global__ void spin(std::uint64_t ns) {
  for (const std::uint64_t start = now(); now() - start < ns;) {
  }
}
/// Says that it runs, and runs until it is told to end; at most for some seconds.
__global__ void hold(volatile std::uint32_t* runs, const volatile std::uint32_t* end) {
  *runs = 1;
  for (const std::uint64_t start = now(); *end == 0 && now() - start < 5000 * ms;) {
  }
}

void launch_spin(std::uint64_t ns, cudaStream_t stream) {
  spin<<<1, 1, 0, stream>>>(ns);
  check(cudaGetLastError());
}

/// Memory, streams, and a first launch of each kernel, so that no code is loaded later.
struct Ground {
  Ground() {
    launch_spin(1, a);
    flags()[1] = 1;
    hold<<<1, 1, 0, a>>>(flags(), flags() + 1);
    check(cudaGetLastError());
    gpu.copy_to_device(device, pinned, mib, a);
    gpu.sync(a);
    flags()[0] = 0;
    flags()[1] = 0;
  }
  Ground(const Ground&) = delete;
  ~Ground() {
    gpu.deallocate(device, bytes);
    gpu.deallocate_pinned(pinned, bytes);
  }
  volatile std::uint32_t* flags() { return static_cast<std::uint32_t*>(pinned); }
  /// The host memory after the flags.
  const void* host() const { return static_cast<const std::byte*>(pinned) + mib; }

  static constexpr std::size_t bytes = 32 * mib;
  ps::CudaDevice gpu;
  ps::CudaStream a = gpu.stream();
  ps::CudaStream b = gpu.stream();
  void* pinned = gpu.allocate_pinned(bytes);
  void* device = gpu.allocate(bytes);
};

/// Two kernels and a copy, captured and ready to launch.
struct Graph {
  explicit Graph(Ground& ground) {
    cudaGraph_t captured = nullptr;
    check(cudaStreamBeginCapture(ground.a, cudaStreamCaptureModeThreadLocal));
    launch_spin(ms / 10, ground.a);
    ground.gpu.copy_to_device(ground.device, ground.host(), mib, ground.a);
    launch_spin(ms / 10, ground.a);
    check(cudaStreamEndCapture(ground.a, &captured));
    check(cudaGraphInstantiate(&exec, captured, 0));
    check(cudaGraphDestroy(captured));
  }
  Graph(const Graph&) = delete;
  ~Graph() { cudaGraphExecDestroy(exec); }

  cudaGraphExec_t exec = nullptr;
};

void check_graph_launches(const GpuActivitySummary& sum, std::uint64_t launches) {
  CAPTURE(sum);
  CHECK(sum.dropped == 0);
  CHECK(sum.kernels == 2 * launches);
  CHECK(sum.copies_to_device == launches);
  CHECK(sum.bytes_to_device == launches * mib);
  CHECK(sum.kernel_s >= 0.0002 * static_cast<double>(launches));
}

} // namespace

TEST_CASE("kernels with gaps between them: counts, times and the idle share") {
  Ground ground;
  constexpr std::uint64_t kernels = 5;
  GpuActivity activity;
  for (std::uint64_t k = 0; k < kernels; ++k) {
    launch_spin(4 * ms, ground.a);
    ground.gpu.sync(ground.a);
    std::this_thread::sleep_for(std::chrono::milliseconds{4});
  }
  const GpuActivitySummary sum = activity.stop();
  CAPTURE(sum);
  CHECK(sum.dropped == 0);
  CHECK(sum.kernels == kernels);
  CHECK(sum.copies_to_device + sum.copies_to_host + sum.other_copies == 0);
  // GPU time and CUPTI's agree to within some microseconds.
  CHECK(sum.kernel_s > 0.0198);
  CHECK(sum.kernel_s < 0.06);
  CHECK(sum.seconds > 0.0358);
  CHECK(sum.seconds - sum.busy_s > 0.0158);
  CHECK(sum.busy_s == Approx(sum.kernel_s));
  CHECK(sum.copy_s == 0);
  CHECK(sum.idle_share() > 0.1);
  CHECK(sum.kernel_share() + sum.idle_share() == Approx(1));
}

TEST_CASE("a copy while a kernel runs is an overlap, and the union counts it once") {
  Ground ground;
  volatile std::uint32_t* const flags = ground.flags();
  GpuActivity activity;
  hold<<<1, 1, 0, ground.a>>>(flags, flags + 1);
  check(cudaGetLastError());
  const auto start = std::chrono::steady_clock::now();
  while (flags[0] == 0 && std::chrono::steady_clock::now() - start < std::chrono::seconds{5}) {
  }
  REQUIRE(flags[0] == 1);
  ground.gpu.copy_to_device(ground.device, ground.host(), 16 * mib, ground.b);
  ground.gpu.sync(ground.b);
  flags[1] = 1;
  ground.gpu.sync(ground.a);
  const GpuActivitySummary sum = activity.stop();
  CAPTURE(sum);
  CHECK(sum.dropped == 0);
  CHECK(sum.kernels == 1);
  CHECK(sum.copies_to_device == 1);
  CHECK(sum.bytes_to_device == 16 * mib);
  CHECK(sum.to_device_s > 0.0001);
  CHECK(sum.copy_s == Approx(sum.to_device_s));
  CHECK(sum.overlap_s == Approx(sum.copy_s).epsilon(0.05));
  CHECK(sum.busy_s == Approx(sum.kernel_s).epsilon(0.05));
  CHECK(sum.idle_share() < 0.05);
}

TEST_CASE("copies have their direction and bytes, and a memset is a kernel") {
  Ground ground;
  GpuActivity activity;
  ground.gpu.copy_to_device(ground.device, ground.host(), 3 * mib, ground.a);
  ground.gpu.copy_to_device(ground.device, ground.host(), mib, ground.a);
  ground.gpu.copy_to_host(static_cast<std::byte*>(ground.pinned) + mib, ground.device, 2 * mib,
                          ground.a);
  check(cudaMemsetAsync(ground.device, 1, mib, ground.a));
  ground.gpu.sync(ground.a);
  const GpuActivitySummary sum = activity.stop();
  CAPTURE(sum);
  CHECK(sum.dropped == 0);
  CHECK(sum.copies_to_device == 2);
  CHECK(sum.bytes_to_device == 4 * mib);
  CHECK(sum.copies_to_host == 1);
  CHECK(sum.bytes_to_host == 2 * mib);
  CHECK(sum.other_copies == 0);
  CHECK(sum.kernels == 1);
  CHECK(sum.to_device_s > 0);
  CHECK(sum.to_host_s > 0);
  CHECK(sum.copy_s == Approx(sum.to_device_s + sum.to_host_s).epsilon(0.1));
}

TEST_CASE("kernels and copies of a graph are seen one by one") {
  Ground ground;
  GpuActivity activity;
  {
    const Graph graph{ground};
    for (int k = 0; k < 10; ++k) {
      check(cudaGraphLaunch(graph.exec, ground.a));
    }
    ground.gpu.sync(ground.a);
  }
  check_graph_launches(activity.stop(), 10);
}

TEST_CASE("so are those of a graph that was made and launched before the recording") {
  Ground ground;
  const Graph graph{ground};
  check(cudaGraphLaunch(graph.exec, ground.a));
  ground.gpu.sync(ground.a);
  GpuActivity activity;
  for (int k = 0; k < 10; ++k) {
    check(cudaGraphLaunch(graph.exec, ground.a));
  }
  ground.gpu.sync(ground.a);
  check_graph_launches(activity.stop(), 10);
}

TEST_CASE("more records than a buffer holds all come") {
  Ground ground;
  constexpr std::uint64_t kernels = 60'000;
  GpuActivity activity;
  for (std::uint64_t k = 0; k < kernels; ++k) {
    launch_spin(1, ground.a);
  }
  ground.gpu.sync(ground.a);
  const GpuActivitySummary sum = activity.stop();
  CHECK(sum.dropped == 0);
  CHECK(sum.kernels == kernels);
}

TEST_CASE("what ran before and after is not in a recording, and one follows another") {
  Ground ground;
  launch_spin(20 * ms, ground.a);
  for (std::uint64_t k = 1; k <= 3; ++k) {
    ground.gpu.sync(ground.a);
    GpuActivity activity;
    for (std::uint64_t i = 0; i < k; ++i) {
      launch_spin(ms, ground.a);
    }
    ground.gpu.sync(ground.a);
    const GpuActivitySummary sum = activity.stop();
    launch_spin(ms, ground.a);
    CHECK(sum.kernels == k);
    CHECK(activity.stop().kernels == k);
  }
}

TEST_CASE("a window of a recording leaves out its ends") {
  Ground ground;
  GpuActivity activity;
  launch_spin(ms, ground.a);
  ground.gpu.sync(ground.a);
  std::this_thread::sleep_for(std::chrono::milliseconds{30});
  launch_spin(30 * ms, ground.a);
  ground.gpu.sync(ground.a);
  const GpuActivitySummary whole = activity.stop();
  const GpuActivitySummary end = activity.between(0.9, 1);
  CHECK(whole.kernels == 2);
  CHECK(whole.idle_share() > 0.1);
  CHECK(end.seconds == Approx(0.1 * whole.seconds).epsilon(0.01));
  if (whole.seconds < 0.2) { // else the long kernel began late
    CHECK(end.kernels == 0);
    CHECK(end.kernel_share() == Approx(1));
  }
}

TEST_CASE("what GpuActivity cannot do is refused, and it goes on") {
  Ground ground;
  GpuActivity activity;
  launch_spin(ms, ground.a);
  const auto second = caught<ps::Error>([] { const GpuActivity another; });
  CHECK(has(second, "another one is recording"));
  const auto early = caught<ps::Error>([&] { activity.between(0, 1); });
  CHECK(has(early, "stop() it first"));
  launch_spin(ms, ground.a);
  ground.gpu.sync(ground.a);
  CHECK(activity.stop().kernels == 2);
  for (const auto& [first, last] :
       std::vector<std::pair<double, double>>{{0.5, 0.5}, {0.6, 0.5}, {-0.1, 0.5}, {0.5, 1.1}}) {
    CHECK(has(caught<ps::OptionError>([&] { activity.between(first, last); }), "fractions"));
  }

  const auto no_gpu =
      caught<ps::CudaError>([] { const GpuActivity none{ps::CudaDevice::count()}; });
  CHECK(no_gpu.status() == cudaErrorInvalidDevice);
  CHECK(cudaPeekAtLastError() == cudaSuccess);

  { // a GpuActivity that dies without stop() makes room for the next
    const GpuActivity forgotten;
  }
  GpuActivity next;
  launch_spin(ms, ground.a);
  ground.gpu.sync(ground.a);
  CHECK(next.stop().kernels == 1);
}

namespace shown {

struct Captured {
  Captured() : before{std::cout.rdbuf(text.rdbuf())} {}
  ~Captured() { std::cout.rdbuf(before); }
  std::ostringstream text;
  std::streambuf* before;
};

} // namespace shown

TEST_CASE("activity: a program of one's own, the whole and the steady state") {
  Ground ground;
  const auto work = [&] {
    for (int k = 0; k < 20; ++k) {
      launch_spin(ms, ground.a);
    }
    ground.gpu.sync(ground.a);
  };
  const shown::Captured said;

  ps::GpuActivity activity; // GPU 0, from here on
  work();
  std::cout << activity.stop();
  const ps::GpuActivitySummary steady = activity.between(0.05, 0.95);
  std::cout << "busy with kernels: " << 100 * steady.kernel_share() << " %\n";

  CHECK(said.text.str().rfind("GPU: kernels ", 0) == 0);
  CHECK(said.text.str().find("(20)") != std::string::npos);
  CHECK(steady.kernels >= 16);
  CHECK(steady.kernel_share() > 0.5);
}
