// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does it cost to set up 512 MiB of pinned memory, as a pipeline does before its first run?
//
// - penstock: CudaDevice::allocate_pinned: an anonymous mapping, with huge pages if there are any,
//   touched by several threads, then page-locked by cudaHostRegister.
// - one_thread: such a mapping by hand, touched by one thread: shows what huge pages alone gain.
// - cudaMallocHost: the same memory from CUDA.
//
// One set-up is timed by the wall clock, in a process that has used the GPU before. The memory is
// given back before the next set-up, in free_ms. Before anything is timed, each contender's memory
// is written at both ends of every page, goes to the GPU and comes back, and CUDA must say that it
// is page-locked. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true.

#include "support/contender.hpp"
#include "support/gpu.hpp"

#include <penstock/cuda.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/mman.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using Clock = std::chrono::steady_clock;

constexpr std::size_t bytes = std::size_t{512} << 20;
constexpr std::size_t page = 4096;
constexpr std::size_t huge_page = std::size_t{2} << 20;

/// One way to set the memory up.
struct Pool {
  std::string name;
  std::function<void*()> set_up;
  std::function<void(void*)> give_back;
  bool tried = false;
};

/// Huge pages, touched by this thread only, and page-locked.
class OneThread {
 public:
  void* set_up() {
    mapping_ = mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    if (mapping_ == MAP_FAILED) {
      throw std::runtime_error{"mmap failed"};
    }
    auto* at = static_cast<char*>(mapping_);
    at += huge_page - reinterpret_cast<std::uintptr_t>(at) % huge_page;
    madvise(at, bytes, MADV_HUGEPAGE);
    for (std::size_t offset = 0; offset < bytes; offset += page) {
      static_cast<volatile char*>(at)[offset] = 0;
    }
    check(cudaHostRegister(at, bytes, cudaHostRegisterDefault), "cudaHostRegister");
    return at;
  }
  void give_back(void* at) {
    check(cudaHostUnregister(at), "cudaHostUnregister");
    munmap(mapping_, bytes + huge_page);
  }

 private:
  void* mapping_ = nullptr;
};

/// Throws unless it gives page-locked memory that goes to the GPU and back.
void try_out(const Pool& pool) {
  auto* const at = static_cast<unsigned char*>(pool.set_up());
  cudaPointerAttributes about{};
  check(cudaPointerGetAttributes(&about, at), "cudaPointerGetAttributes");
  if (about.type != cudaMemoryTypeHost) {
    throw std::runtime_error{pool.name + " gave memory that is not page-locked"};
  }
  for (std::size_t offset = 0; offset < bytes; offset += page) {
    const std::uint64_t number = offset / page;
    std::memcpy(at + offset, &number, sizeof number);
    std::memcpy(at + offset + page - sizeof number, &number, sizeof number);
  }
  const std::vector<unsigned char> expected(at, at + bytes);
  const DeviceBytes on_gpu = make_on_device(bytes);
  check(cudaMemcpy(on_gpu.get(), at, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
  std::memset(at, 0xFF, bytes);
  check(cudaMemcpy(at, on_gpu.get(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy to the host");
  const bool same = std::memcmp(at, expected.data(), bytes) == 0;
  pool.give_back(at);
  if (!same) {
    throw std::runtime_error{pool.name + ": what came back from the GPU is not what was sent"};
  }
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void add(Pool& pool) {
  add_benchmark("pool/" + pool.name + "/512MiB", [&pool](benchmark::State& state) {
    if (!pool.tried) {
      try_out(pool);
      pool.tried = true;
    }
    double freeing = 0;
    for (auto _ : state) {
      const auto start = Clock::now();
      void* const at = pool.set_up();
      state.SetIterationTime(seconds_since(start));
      const auto end = Clock::now();
      pool.give_back(at);
      freeing = seconds_since(end);
    }
    state.counters["free_ms"] = 1e3 * freeing;
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  });
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    ps::CudaDevice gpu;
    OneThread one_thread;
    std::vector<Pool> pools{{"penstock", [&] { return gpu.allocate_pinned(bytes); },
                             [&](void* at) { gpu.deallocate_pinned(at, bytes); }},
                            {"one_thread", [&] { return one_thread.set_up(); },
                             [&](void* at) { one_thread.give_back(at); }},
                            {"cudaMallocHost",
                             [] {
                               void* at = nullptr;
                               check(cudaMallocHost(&at, bytes), "cudaMallocHost");
                               return at;
                             },
                             [](void* at) { check(cudaFreeHost(at), "cudaFreeHost"); }}};
    for (Pool& pool : pools) {
      add(pool);
    }
    return run_all();
  });
}
