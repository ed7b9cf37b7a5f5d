// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of steady-state costs on a GPU, and the counters of CUDA's functions.

#include "support/interposed.hpp"

#include <penstock/cuda.hpp>
#include <penstock/cuda/unpack.cuh>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using TestDevice = penstock::CudaDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  D device;
  f(device);
}

__global__ void nothing() {}

inline void work(cudaStream_t stream) {
  // A launch takes its configuration from CUDA and gives it back, in calls of its own.
  const penstock::tests::interposed::Inside inside;
  nothing<<<1, 1, 0, stream>>>();
}

#include "suite/zero_cost_suite.hpp"

namespace suite {

// Throws, so that a failed call is not taken for an offence.
void succeed(cudaError_t status) {
  if (status != cudaSuccess) {
    throw std::runtime_error{cudaGetErrorString(status)};
  }
}

std::vector<Offence> device_offences(TestDevice& device) {
  const auto owned = std::make_shared<ps::CudaStream>(device.stream());
  const auto event = std::make_shared<ps::CudaEvent>(device.event());
  const std::shared_ptr<void> there{device.allocate(64),
                                    [&device](void* at) { device.deallocate(at, 64); }};
  const cudaStream_t stream = owned->get();
  alignas(4096) static char page[4096];
  return {
      {"cudaMalloc", Kind::creation, 2,
       [] {
         void* at = nullptr;
         succeed(cudaMalloc(&at, 64));
         succeed(cudaFree(at));
       }},
      {"cudaMallocAsync", Kind::creation, 2,
       [owned, stream] {
         void* at = nullptr;
         succeed(cudaMallocAsync(&at, 64, stream));
         succeed(cudaFreeAsync(at, stream));
       }},
      {"cudaMallocManaged", Kind::creation, 2,
       [] {
         void* at = nullptr;
         succeed(cudaMallocManaged(&at, 64));
         succeed(cudaFree(at));
       }},
      {"cudaMallocHost", Kind::creation, 2,
       [] {
         void* at = nullptr;
         succeed(cudaMallocHost(&at, 64));
         succeed(cudaFreeHost(at));
       }},
      {"cudaHostAlloc", Kind::creation, 2,
       [] {
         void* at = nullptr;
         succeed(cudaHostAlloc(&at, 64, cudaHostAllocDefault));
         succeed(cudaFreeHost(at));
       }},
      {"cudaHostRegister", Kind::creation, 2,
       [] {
         succeed(cudaHostRegister(page, sizeof page, cudaHostRegisterDefault));
         succeed(cudaHostUnregister(page));
       }},
      {"cudaStreamCreate", Kind::creation, 2,
       [] {
         cudaStream_t made{};
         succeed(cudaStreamCreate(&made));
         succeed(cudaStreamDestroy(made));
       }},
      {"cudaStreamCreateWithFlags", Kind::creation, 2,
       [] {
         cudaStream_t made{};
         succeed(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
         succeed(cudaStreamDestroy(made));
       }},
      {"cudaStreamCreateWithPriority", Kind::creation, 2,
       [] {
         cudaStream_t made{};
         succeed(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, 0));
         succeed(cudaStreamDestroy(made));
       }},
      {"cudaEventCreate", Kind::creation, 2,
       [] {
         cudaEvent_t made{};
         succeed(cudaEventCreate(&made));
         succeed(cudaEventDestroy(made));
       }},
      {"cudaEventCreateWithFlags", Kind::creation, 2,
       [] {
         cudaEvent_t made{};
         succeed(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
         succeed(cudaEventDestroy(made));
       }},
      {"cudaDeviceSynchronize", Kind::blocking, 1, [] { succeed(cudaDeviceSynchronize()); }},
      {"cudaStreamSynchronize", Kind::blocking, 1,
       [owned, stream] { succeed(cudaStreamSynchronize(stream)); }},
      {"cudaEventSynchronize", Kind::blocking, 1,
       [event] { succeed(cudaEventSynchronize(event->get())); }},
      {"cudaMemcpy", Kind::blocking, 1,
       [there] { succeed(cudaMemcpy(there.get(), page, 64, cudaMemcpyHostToDevice)); }},
      {"cudaMemset", Kind::blocking, 1, [there] { succeed(cudaMemset(there.get(), 0, 64)); }},
      {"cudaLaunchHostFunc", Kind::callback, 1,
       [owned, stream] { succeed(cudaLaunchHostFunc(stream, [](void*) {}, nullptr)); }},
      {"cudaStreamAddCallback", Kind::callback, 1,
       [owned, stream] {
         const auto nothing = [](cudaStream_t, cudaError_t, void*) {};
         succeed(cudaStreamAddCallback(stream, nothing, nullptr, 0));
       }},
  };
}

} // namespace suite
