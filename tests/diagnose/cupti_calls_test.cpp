// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How calls of CUDA are heard and recorded, with a CUPTI of the test's own in its place: no test
// needs a GPU or libcupti.

#include <penstock/diagnose/detail/allocated_memory.hpp>
#include <penstock/diagnose/gpu_observer.hpp>
#include <penstock/diagnose/watch.hpp>

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/counted_new.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <set>
#include <string>
#include <utility>

using namespace penstock;
using detail::CallListener;
using detail::CallSubscription;
using detail::CudaCall;
using detail::SeenCall;
using detail::WatchLog;
using tests::caught;
using tests::has;

namespace {

/// The state of the CUPTI below.
struct Fake {
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  bool subscribed = false;
  std::set<CUpti_ActivityKind> enabled;
  CUpti_BuffersCallbackRequestFunc requested = nullptr;
  CUpti_BuffersCallbackCompleteFunc completed = nullptr;
  CUptiResult refusal = CUPTI_SUCCESS;        ///< Of cuptiSubscribe().
  CUptiResult domain_refusal = CUPTI_SUCCESS; ///< Of cuptiEnableDomain().
  std::uint64_t now = 1000;
  cudaError_t latched = cudaSuccess; ///< What cudaGetLastError() returns next.
  bool calls_cuda = false;           ///< While a record is read, as an operator new may.
  const void* pageable = nullptr;    ///< Pageable memory, the only one that the runtime knows.
};
Fake fake;

const std::map<std::uint32_t, const char*> runtime_names{
    {CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, "cudaMalloc_v3020"},
    {CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020, "cudaFree_v3020"},
    {CUPTI_RUNTIME_TRACE_CBID_cudaHostRegister_v4000, "cudaHostRegister_v4000"},
    {CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020, "cudaStreamSynchronize_v3020"},
    {CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000, "cudaProfilerStart_v4000"},
    {CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000, "cudaProfilerStop_v4000"}};
const std::map<std::uint32_t, const char*> driver_names{
    {CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, "cuMemAlloc_v2"},
    {CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, "cuStreamSynchronize"}};

/// A call that takes 10 ns, and makes another meanwhile.
template <class Inside>
void call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* params, Inside inside,
          int status = 0) {
  CUpti_CallbackData data{};
  data.functionParams = params;
  data.functionReturnValue = &status;
  data.callbackSite = CUPTI_API_ENTER;
  fake.callback(fake.user, domain, id, &data);
  fake.now += 10;
  inside();
  data.callbackSite = CUPTI_API_EXIT;
  fake.callback(fake.user, domain, id, &data);
}
void runtime(CUpti_CallbackId id, const void* params = nullptr, int status = 0) {
  call(CUPTI_CB_DOMAIN_RUNTIME_API, id, params, [] {}, status);
}
void wait() {
  call(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020, nullptr,
       [] {
         call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, nullptr,
              [] {});
       });
}

/// CUPTI hands over that a kernel ran for 5 ns until now.
void deliver_kernel() {
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.name = "kernel";
  kernel.start = fake.now - 5;
  kernel.end = fake.now;
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0;
  std::size_t most = 0;
  fake.requested(&buffer, &bytes, &most);
  std::memcpy(buffer, &kernel, sizeof kernel);
  fake.completed(nullptr, 0, buffer, bytes, sizeof kernel);
}

struct Heard final : CallListener {
  void enter(const SeenCall& call) noexcept override {
    ++entered;
    kind = call.kind;
  }
  void leave(const SeenCall&) noexcept override { ++left; }
  int entered = 0;
  int left = 0;
  CudaCall kind{};
};

} // namespace

extern "C" {

// A runtime of the test's own, all that is called of it: with the static one each would be there
// twice. It knows nothing of any other memory, and latches that.
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* is, const void* at) {
  if (at != nullptr && at == fake.pageable) {
    is->type = cudaMemoryTypeUnregistered;
    return cudaSuccess;
  }
  fake.latched = cudaErrorInvalidValue;
  return cudaErrorInvalidValue;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaInitDevice(int, unsigned, unsigned) {
  return cudaSuccess;
}
// For threads of another device, of which there are none.
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void**, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult*) {
  return cudaErrorNotSupported;
}
const char* cudaGetErrorName(cudaError_t) {
  return "cudaErrorOfATest";
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error";
}
cudaError_t cudaGetLastError() {
  return std::exchange(fake.latched, cudaSuccess);
}

CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback,
                                    void* user) {
  if (fake.refusal != CUPTI_SUCCESS || fake.subscribed) {
    return fake.subscribed ? CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED : fake.refusal;
  }
  fake.subscribed = true;
  fake.callback = callback;
  fake.user = user;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&fake);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle) {
  fake.subscribed = false;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiEnableDomain(std::uint32_t, CUpti_SubscriberHandle,
                                       CUpti_CallbackDomain domain) {
  return domain == CUPTI_CB_DOMAIN_DRIVER_API ? fake.domain_refusal : CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t id,
                                          const char** name) {
  const auto& names = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? runtime_names : driver_names;
  const auto found = names.find(id);
  if (found == names.end()) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  *name = found->second;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetTimestamp(std::uint64_t* ns) {
  *ns = fake.now++;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult, const char** name) {
  *name = "THE_NAME";
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                                    CUpti_BuffersCallbackCompleteFunc completed) {
  fake.requested = requested;
  fake.completed = completed;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  fake.enabled.insert(kind);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
  fake.enabled.erase(kind);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityFlushAll(std::uint32_t) {
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t,
                                                CUpti_Activity** record) {
  if (*record != nullptr) { // a buffer has one
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  }
  if (fake.calls_cuda) {
    wait();
  }
  *record = reinterpret_cast<CUpti_Activity*>(buffer);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t*) {
  return CUPTI_ERROR_INVALID_PARAMETER;
}
}

TEST_CASE("a call of the runtime that calls the driver is heard once") {
  Heard heard;
  CallSubscription::only().start(heard);
  wait();
  CHECK(heard.entered == 1);
  CHECK(heard.left == 1);
  CHECK(heard.kind == CudaCall::wait);
  call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, nullptr, [] {});
  CHECK(heard.left == 2);
  {
    const CallSubscription::Deaf deaf;
    wait();
  }
  CHECK(heard.left == 2);
  CallSubscription::only().stop();
  CHECK_FALSE(fake.subscribed);
}

TEST_CASE("calls that began before the listening, or end after it, are none") {
  Heard first;
  Heard second;
  CallSubscription::only().start(first);
  call(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, nullptr, [&] {
    CallSubscription::only().stop();
    CallSubscription::only().start(second);
  });
  CHECK(first.entered == 1);
  CHECK(first.left == 0);
  CHECK(second.entered + second.left == 0);
  wait();
  CHECK(second.left == 1);
  CallSubscription::only().ignore();
  wait();
  CHECK(second.left == 1);
  CallSubscription::only().stop();
}

TEST_CASE("what a listener calls is not heard, and the next call is") {
  // Such as by an operator new of the program's that allocates memory of the device: a listener
  // that holds a lock would wait for itself.
  struct Calls final : CallListener {
    void enter(const SeenCall&) noexcept override {
      ++heard;
      if (heard < 100) {
        const CallSubscription::Deaf deaf;
        wait();
      }
      if (heard < 100) {
        wait();
      }
    }
    void leave(const SeenCall&) noexcept override { enter({}); }
    int heard = 0;
  } calls;
  CallSubscription::only().start(calls);
  wait();
  CHECK(calls.heard == 2);
  wait();
  CHECK(calls.heard == 4);
  CallSubscription::only().stop();
}

TEST_CASE("a question about memory leaves no error for the program to find") {
  CHECK_FALSE(detail::is_pageable(&fake));
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("another subscriber is one clear error, and a domain that is refused undoes all") {
  Heard heard;
  fake.refusal = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  const auto error = caught<CuptiError>([&] { CallSubscription::only().start(heard); });
  CHECK(has(error, "cuptiSubscribe failed: THE_NAME"));
  CHECK(has(error, "Another profiler is at work in this process"));
  fake.refusal = CUPTI_SUCCESS;
  fake.domain_refusal = CUPTI_ERROR_UNKNOWN;
  CHECK(has(caught<CuptiError>([&] { CallSubscription::only().start(heard); }),
            "cuptiEnableDomain failed"));
  CHECK_FALSE(fake.subscribed);
  fake.domain_refusal = CUPTI_SUCCESS;
}

TEST_CASE("a log has each function's calls and seconds, and the memory that was allocated") {
  WatchLog& log = WatchLog::only();
  log.start(0);
  log.had_device_memory(500);
  wait();
  wait();
  void* memory = reinterpret_cast<void*>(std::uintptr_t{64});
  const cudaMalloc_v3020_params allocation{&memory, 1000};
  const cudaFree_v3020_params release{memory};
  runtime(CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, &allocation);
  runtime(CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020, &release);
  runtime(CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, &allocation);
  runtime(CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, &allocation, cudaErrorMemoryAllocation);
  const cudaHostRegister_v4000_params page_lock{memory, 77, 0};
  runtime(CUPTI_RUNTIME_TRACE_CBID_cudaHostRegister_v4000, &page_lock);
  const WatchSummary so_far = log.so_far();
  CHECK(so_far.waits.calls == 2);
  const WatchSummary sum = log.stop();
  CHECK(sum.waits.calls == 2);
  CHECK(sum.waits.seconds == Approx(2 * 21e-9)); // with the driver's inside
  CHECK(sum.allocations.calls == 4);
  CHECK(sum.releases.calls == 1);
  CHECK(sum.page_locks.calls == 1);
  CHECK(sum.page_locked == 77);
  CHECK(sum.device_bytes == 1500);
  REQUIRE(sum.functions.size() == 4);
  CHECK(sum.functions.front().name == "cudaStreamSynchronize");
  CHECK(sum.seconds > 100e-9);
  CHECK_FALSE(fake.subscribed);
}

TEST_CASE("a log that is at work refuses to begin again, and goes on") {
  WatchLog& log = WatchLog::only();
  log.start(0);
  wait();
  CHECK(has(caught<CuptiError>([&] { log.start(0); }), "Another profiler is at work"));
  wait();
  CHECK(log.stop().waits.calls == 2);
}

TEST_CASE("the profiler's bracket forgets what came before, and ends what counts") {
  WatchLog& log = WatchLog::only();
  log.start(0);
  wait();
  runtime(CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000);
  wait();
  runtime(CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000);
  wait();
  fake.now += 1'000'000;
  runtime(CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000);
  runtime(CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000); // again, which changes nothing
  wait();
  runtime(CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000);
  const WatchSummary sum = log.stop();
  CHECK(sum.waits.calls == 2);
  CHECK(sum.seconds < 500e-6);
  log.start(0);
  CHECK(log.stop().waits.calls == 0);
}

TEST_CASE("copies of pageable memory are known in every shape, and in both interfaces") {
  std::uint64_t host = 0;
  fake.pageable = &host;
  const auto device = CUdeviceptr{4096};
  void* const at_device = reinterpret_cast<void*>(device);
  const auto bytes = [](CUpti_CallbackDomain domain, CUpti_CallbackId id, const auto& params) {
    CUpti_CallbackData data{};
    data.functionParams = &params;
    return detail::pageable_bytes({domain, id, CudaCall::copy, &data});
  };
  const auto runtime_bytes = [&](CUpti_CallbackId id, const auto& params) {
    return bytes(CUPTI_CB_DOMAIN_RUNTIME_API, id, params);
  };
  const auto driver_bytes = [&](CUpti_CallbackId id, const auto& params) {
    return bytes(CUPTI_CB_DOMAIN_DRIVER_API, id, params);
  };
  CHECK(runtime_bytes(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020,
                      cudaMemcpy_v3020_params{at_device, &host, 5, cudaMemcpyHostToDevice}) == 5);
  CHECK(runtime_bytes(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020,
                      cudaMemcpy_v3020_params{at_device, at_device, 5, cudaMemcpyDefault}) == 0);
  const cudaMemcpy2D_v3020_params two{&host, 8, at_device, 16, 6, 7, cudaMemcpyDeviceToHost};
  CHECK(runtime_bytes(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2D_v3020, two) == 42);
  CHECK(runtime_bytes(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2D_ptds_v7000, two) == 42);
  CHECK(runtime_bytes(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DAsync_v3020,
                      cudaMemcpy2DAsync_v3020_params{at_device, 8, &host, 16, 6, 7,
                                                     cudaMemcpyHostToDevice, nullptr}) == 42);
  cudaMemcpy3DParms three{};
  three.srcPtr = {&host, 16, 6, 7};
  three.dstPtr = {at_device, 16, 6, 7};
  three.extent = {6, 7, 2};
  CHECK(runtime_bytes(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3D_v3020,
                      cudaMemcpy3D_v3020_params{&three}) == 84);
  three.dstArray = reinterpret_cast<cudaArray_t>(at_device); // in elements of it
  CHECK(runtime_bytes(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DAsync_ptsz_v7000,
                      cudaMemcpy3DAsync_ptsz_v7000_params{&three, nullptr}) == 16 * 7 * 2);
  CHECK(runtime_bytes(
            CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbol_v3020,
            cudaMemcpyToSymbol_v3020_params{at_device, &host, 9, 0, cudaMemcpyHostToDevice}) == 9);
  CHECK(runtime_bytes(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromSymbolAsync_v3020,
                      cudaMemcpyFromSymbolAsync_v3020_params{
                          &host, at_device, 9, 0, cudaMemcpyDeviceToHost, nullptr}) == 9);
  CHECK(runtime_bytes(CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020,
                      cudaMemset_v3020_params{&host, 0, 9}) == 0);

  const cuMemcpy_params unified{device, reinterpret_cast<CUdeviceptr>(&host), 11};
  CHECK(driver_bytes(CUPTI_DRIVER_TRACE_CBID_cuMemcpy, unified) == 11);
  CHECK(driver_bytes(CUPTI_DRIVER_TRACE_CBID_cuMemcpy_ptds, unified) == 11);
  CHECK(driver_bytes(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz,
                     cuMemcpyHtoDAsync_v2_ptsz_params{device, &host, 12, nullptr}) == 12);
  CHECK(driver_bytes(CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoH_v2,
                     cuMemcpyAtoH_v2_params{&host, nullptr, 0, 13}) == 13);
  CHECK(driver_bytes(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoA_v2,
                     cuMemcpyHtoA_v2_params{nullptr, 0, &host, 14}) == 14);
  CUDA_MEMCPY2D plane{};
  plane.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  plane.srcDevice = device;
  plane.dstMemoryType = CU_MEMORYTYPE_HOST;
  plane.dstHost = &host;
  plane.WidthInBytes = 5;
  plane.Height = 3;
  CHECK(driver_bytes(CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2, cuMemcpy2D_v2_params{&plane}) == 15);
  plane.dstMemoryType = CU_MEMORYTYPE_DEVICE; // whose host pointer means nothing
  CHECK(driver_bytes(CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2, cuMemcpy2D_v2_params{&plane}) == 0);
  CUDA_MEMCPY3D cube{};
  cube.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  cube.srcDevice = reinterpret_cast<CUdeviceptr>(&host);
  cube.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  cube.WidthInBytes = 5;
  cube.Height = 3;
  cube.Depth = 2;
  CHECK(driver_bytes(CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2,
                     cuMemcpy3DAsync_v2_params{&cube, nullptr}) == 30);
  fake.pageable = nullptr;
}

TEST_CASE("memory counts however it is allocated, until it is given back") {
  detail::AllocatedMemory memory;
  const int done = 0;
  const auto add = [&](CUpti_CallbackDomain domain, CUpti_CallbackId id, const auto& params) {
    CUpti_CallbackData data{};
    data.functionParams = &params;
    data.functionReturnValue = const_cast<int*>(&done);
    memory.add({domain, id, CudaCall::allocation, &data});
  };
  const auto runtime_add = [&](CUpti_CallbackId id, const auto& params) {
    add(CUPTI_CB_DOMAIN_RUNTIME_API, id, params);
  };
  const auto driver_add = [&](CUpti_CallbackId id, const auto& params) {
    add(CUPTI_CB_DOMAIN_DRIVER_API, id, params);
  };
  void* plane = reinterpret_cast<void*>(std::uintptr_t{64});
  std::size_t pitch = 512;
  runtime_add(CUPTI_RUNTIME_TRACE_CBID_cudaMallocPitch_v3020,
              cudaMallocPitch_v3020_params{&plane, &pitch, 100, 10});
  CHECK(memory.device_bytes == 5120);
  cudaPitchedPtr cube{reinterpret_cast<void*>(std::uintptr_t{128}), 256, 100, 3};
  runtime_add(CUPTI_RUNTIME_TRACE_CBID_cudaMalloc3D_v3020,
              cudaMalloc3D_v3020_params{&cube, {100, 3, 2}});
  CHECK(memory.device_bytes == 5120 + 1536);
  runtime_add(CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020, cudaFree_v3020_params{plane});
  runtime_add(CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020, cudaFree_v3020_params{cube.ptr});
  CHECK(memory.device_bytes == 0);
  CHECK(memory.device_most == 5120 + 1536);

  CUdeviceptr at = 1024;
  driver_add(CUPTI_DRIVER_TRACE_CBID_cuMemAllocPitch_v2,
             cuMemAllocPitch_v2_params{&at, &pitch, 100, 4, 4});
  CHECK(memory.device_bytes == 2048);
  driver_add(CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, cuMemFree_v2_params{at});
  driver_add(CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged, cuMemAllocManaged_params{&at, 70, 1});
  driver_add(CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, cuMemFree_v2_params{at});
  driver_add(CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync,
             cuMemAllocFromPoolAsync_params{&at, 80, nullptr, nullptr});
  CHECK(memory.device_bytes == 80);
  CUmemGenericAllocationHandle handle = 7;
  CUmemAllocationProp where{};
  where.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  driver_add(CUPTI_DRIVER_TRACE_CBID_cuMemCreate, cuMemCreate_params{&handle, 900, &where, 0});
  CHECK(memory.device_bytes == 980);
  driver_add(CUPTI_DRIVER_TRACE_CBID_cuMemRelease, cuMemRelease_params{handle});
  CHECK(memory.device_bytes == 80);
  where.location.type = CU_MEM_LOCATION_TYPE_HOST;
  driver_add(CUPTI_DRIVER_TRACE_CBID_cuMemCreate, cuMemCreate_params{&handle, 900, &where, 0});
  CHECK(memory.device_bytes == 80);
  driver_add(CUPTI_DRIVER_TRACE_CBID_cuMemAllocHost_v2, cuMemAllocHost_v2_params{&plane, 33});
  CHECK(memory.page_locked == 33);
}

TEST_CASE("the GPU's work counts in each bracket, and not between, whenever CUPTI hands it over") {
  WatchLog& log = WatchLog::only();
  const auto wait_and_work = [] {
    wait();
    deliver_kernel();
  };
  log.start(0);
  wait_and_work();
  for (int bracket = 0; bracket < 3; ++bracket) {
    runtime(CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000);
    wait_and_work();
    runtime(CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000);
    wait_and_work();
  }
  const WatchSummary sum = log.stop();
  CHECK(sum.gpu.kernels == 3);
  REQUIRE(sum.kernels.size() == 1);
  CHECK(sum.kernels.front().launches == 3);
  CHECK(sum.gpu.busy_s == Approx(15e-9));
}

TEST_CASE("what is called while a record is read is not heard, since it would wait for itself") {
  WatchLog& log = WatchLog::only();
  log.start(0);
  fake.now += 10; // the first one begins later
  fake.calls_cuda = true;
  for (int i = 0; i < 10'000; ++i) { // more than are left with CUPTI's side
    deliver_kernel();
  }
  fake.calls_cuda = false;
  wait();
  const WatchSummary sum = log.stop();
  CHECK(sum.waits.calls == 1);
  CHECK(sum.gpu.kernels == 10'000);
}

TEST_CASE("a log of many calls keeps the newest, and counts all") {
  constexpr std::uint64_t many = 600'000; // more than are kept
  WatchLog& log = WatchLog::only();
  log.start(0);
  const auto work = [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i < last; ++i) {
      runtime(CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020);
      if (i % 100 == 0) {
        deliver_kernel();
      }
    }
  };
  work(0, many);
  const std::uint64_t bytes = tests::memory::allocated_bytes;
  work(many, 2 * many);
  CHECK(tests::memory::allocated_bytes - bytes < many); // less than a byte a call
  const WatchSummary so_far = log.so_far();
  const WatchSummary sum = log.stop();
  for (const WatchSummary* const one : {&so_far, &sum}) {
    CHECK(one->waits.calls == 2 * many);
    CHECK(one->gpu.kernels == 2 * many / 100);
    CHECK(one->late == 0);
    CHECK(one->idle.wait_s + one->idle.between_s + one->gpu.busy_s == Approx(one->seconds));
  }
}

TEST_CASE("a GpuObserver that cannot begin holds nothing of CUPTI's, whichever allocation fails") {
  GpuObserver observer;
  Report report;
  observer.begin(); // what is allocated once, is
  observer.end(report);
  if (!tests::memory::can_refuse) {
    return;
  }
  std::uint64_t refusals = 0;
  for (std::uint64_t k = 1;; ++k, ++refusals) {
    CAPTURE(k);
    tests::memory::refuse_allocation(k);
    bool begun = false;
    try {
      observer.begin();
      begun = true;
    } catch (const std::bad_alloc&) { // the k-th
    }
    tests::memory::refuse_allocation(0);
    CHECK(fake.subscribed == begun);
    CHECK(fake.enabled.empty() == !begun);
    if (begun) {
      observer.end(report);
      break;
    }
  }
  CHECK(refusals > 0);
  CHECK_FALSE(fake.subscribed);
}
