// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include <penstock/cuda/device.hpp>

#include "support/catch.hpp"
#include "support/caught.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>

// CudaDevice over a CUDA runtime that fails when told to, as a real one does not. It is defined
// below and takes the place of cudart in this program: it has two GPUs, latches errors as CUDA
// does, and counts all that lives.

using namespace penstock;

namespace {

// Contexts are numbered by their devices, from 1 on.
CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(device) + 1);
}

struct Runtime {
  int current = 0;      // where calls go: the device of the context, or 0
  int chosen = 0;       // by cudaSetDevice()
  CUcontext context{};  // the thread's, none at first
  int retained = 0;     // contexts
  std::set<int> set_up; // GPUs with a context that was made current
  cudaError_t latched = cudaSuccess;
  cudaError_t error = cudaErrorMemoryAllocation;
  std::string fail;    // the name of the call that fails
  int fail_at = 0;     // or the k-th one, 1 is the next
  bool broken = false; // all calls fail
  bool fired = false;
  std::uintptr_t made = 0;
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::vector<cudaStreamCaptureMode> modes; // the thread's mode at each call
  int unknown = 0;                          // given back, but not there or no longer there
  std::set<void*> live;                     // streams, events and device memory
  std::set<void*> locked;                   // page-locked memory
  void* last_locked = nullptr;
  std::vector<std::string> calls;
  std::vector<int> devices; // the current device of each call

  cudaError_t pass(const char* call) {
    calls.emplace_back(call);
    devices.push_back(current);
    modes.push_back(mode);
    if (broken || fail == call || (fail_at > 0 && --fail_at == 0)) {
      fired = true;
      latched = error == cudaErrorNotReady ? latched : error; // an answer, not an error
      return error;
    }
    return cudaSuccess;
  }
  void bind(CUcontext it) {
    context = it;
    current = it == nullptr ? 0 : static_cast<int>(reinterpret_cast<std::uintptr_t>(it) - 1);
    if (it != nullptr) {
      set_up.insert(current);
    }
  }
  CUresult pass_driver(const char* call) { // it latches nothing
    const cudaError_t before = latched;
    const cudaError_t status = pass(call);
    latched = before;
    return static_cast<CUresult>(status);
  }
  bool has_called(const std::string& call, int device) const {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i] == call && devices[i] == device) {
        return true;
      }
    }
    return false;
  }
  template <class Handle> cudaError_t make(const char* call, Handle* to) {
    const cudaError_t status = pass(call);
    if (status == cudaSuccess) {
      *to = reinterpret_cast<Handle>(made += 256);
      live.insert(*to);
    }
    return status;
  }
  cudaError_t drop(const char* call, void* handle) {
    unknown += live.erase(handle) == 0 ? 1 : 0;
    return pass(call);
  }
};
Runtime cuda;

template <class F> CudaError error_of(F f) {
  return penstock::tests::caught<CudaError>(f);
}
using penstock::tests::has;

bool is_mapped(void* at) {
  unsigned char there = 0;
  return ::mincore(at, 4096, &there) == 0;
}

// Makes every call that a pipeline makes.
void use_all(int number) {
  struct Memory {
    CudaDevice& device;
    void* there = nullptr;
    void* pinned = nullptr;
    ~Memory() {
      device.deallocate(there, 100);
      device.deallocate_pinned(pinned, 4096);
    }
  };
  CudaDevice device{number};
  [[maybe_unused]] const auto attached = device.attach();
  Memory memory{device};
  memory.pinned = device.allocate_pinned(4096);
  memory.there = device.allocate(100);
  CudaStream stream = device.stream();
  CudaEvent event = device.event();
  device.copy_to_device(memory.there, memory.pinned, 100, stream);
  device.record(event, stream);
  device.wait(stream, event);
  stream.wait(event);
  device.is_done(event);
  stream.is_done();
  device.copy_to_host(memory.pinned, memory.there, 100, stream);
  device.sync(event);
  device.sync(stream);
  stream.sync();
}

} // namespace

// The driver's calls.
void* driver_call(const std::string& name) {
  const auto device = [](CUdevice* it, int number) {
    *it = number;
    return cuda.pass_driver("cuDeviceGet");
  };
  const auto retain = [](CUcontext* it, CUdevice number) {
    const CUresult status = cuda.pass_driver("cuDevicePrimaryCtxRetain");
    cuda.retained += status == CUDA_SUCCESS ? 1 : 0;
    *it = context_of(number);
    return status;
  };
  const auto release = [](CUdevice) {
    --cuda.retained;
    return CUDA_SUCCESS;
  };
  const auto current = [](CUcontext* it) {
    *it = cuda.context;
    return cuda.pass_driver("cuCtxGetCurrent");
  };
  const auto make_current = [](CUcontext it) {
    const CUresult status = cuda.pass_driver("cuCtxSetCurrent");
    if (status == CUDA_SUCCESS) {
      cuda.bind(it);
    }
    return status;
  };
  // As a driver answers a thread without a context: then the runtime is asked.
  const auto capturing = [](CUstream, CUstreamCaptureStatus*) {
    return CUDA_ERROR_INVALID_CONTEXT;
  };
  return name == "cuDeviceGet"                 ? reinterpret_cast<void*>(+device)
         : name == "cuDevicePrimaryCtxRetain"  ? reinterpret_cast<void*>(+retain)
         : name == "cuDevicePrimaryCtxRelease" ? reinterpret_cast<void*>(+release)
         : name == "cuCtxGetCurrent"           ? reinterpret_cast<void*>(+current)
         : name == "cuCtxSetCurrent"           ? reinterpret_cast<void*>(+make_current)
         : name == "cuStreamIsCapturing"       ? reinterpret_cast<void*>(+capturing)
                                               : nullptr;
}

extern "C" {
cudaError_t cudaGetLastError() {
  return std::exchange(cuda.latched, cudaSuccess);
}
const char* cudaGetErrorName(cudaError_t) {
  return "cudaErrorOfTest";
}
const char* cudaGetErrorString(cudaError_t) {
  return "a test's error";
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 2;
  return cuda.pass("cudaGetDeviceCount");
}
// Without a context it tells what was chosen last, though calls go to device 0.
cudaError_t cudaGetDevice(int* device) {
  *device = cuda.context == nullptr ? cuda.chosen : cuda.current;
  return cuda.pass("cudaGetDevice");
}
cudaError_t cudaSetDevice(int device) {
  cuda.chosen = device;
  cuda.bind(context_of(device));
  return cuda.pass("cudaSetDevice");
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "Test GPU");
  return cuda.pass("cudaGetDeviceProperties");
}
cudaError_t cudaInitDevice(int, unsigned, unsigned) {
  return cuda.pass("cudaInitDevice");
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cuda.make("cudaStreamCreateWithFlags", stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  return cuda.drop("cudaStreamDestroy", s);
}
cudaError_t cudaStreamQuery(cudaStream_t) {
  return cuda.pass("cudaStreamQuery");
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cuda.pass("cudaStreamSynchronize");
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return cuda.pass("cudaStreamWaitEvent");
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cuda.make("cudaEventCreateWithFlags", event);
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  return cuda.drop("cudaEventDestroy", e);
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return cuda.pass("cudaEventRecord");
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  return cuda.pass("cudaEventQuery");
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return cuda.pass("cudaEventSynchronize");
}
cudaError_t cudaMalloc(void** at, std::size_t) {
  return cuda.make("cudaMalloc", at);
}
cudaError_t cudaFree(void* at) {
  return cuda.drop("cudaFree", at);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = 111;
  *total = 222;
  return cuda.pass("cudaMemGetInfo");
}
cudaError_t cudaHostRegister(void* at, std::size_t, unsigned) {
  cuda.last_locked = at;
  const cudaError_t status = cuda.pass("cudaHostRegister");
  if (status == cudaSuccess) {
    cuda.locked.insert(at);
  }
  return status;
}
cudaError_t cudaHostUnregister(void* at) {
  cuda.locked.erase(at);
  return cuda.pass("cudaHostUnregister");
}
cudaError_t cudaPeekAtLastError() {
  return cuda.latched;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = driver_call(name);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cuda.capturing;
  return cuda.pass("cudaStreamIsCapturing");
}
// Not counted: it fails only if everything does, and then nobody is told.
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, cuda.mode);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t) {
  return cuda.pass("cudaMemcpyAsync");
}
}

TEST_CASE("whichever CUDA call fails, what was made is given back and nothing stays latched") {
  int fired = 0;
  for (int k = 1;; ++k) {
    CAPTURE(k);
    cuda = Runtime{};
    cuda.fail_at = k;
    bool thrown = false;
    try {
      use_all(1);
    } catch (const CudaError& e) {
      thrown = true;
      CHECK(has(e, "penstock: "));
      CHECK(e.status() == cudaErrorMemoryAllocation);
    }
    if (!cuda.fired) {
      CHECK_FALSE(thrown);
      break;
    }
    ++fired;
    const std::string& call = cuda.calls[static_cast<std::size_t>(k - 1)];
    CAPTURE(call);
    const std::set<std::string> of_destructors{"cudaFree", "cudaStreamDestroy", "cudaEventDestroy",
                                               "cudaHostUnregister"};
    if (of_destructors.count(call) != 0) {
      CHECK_FALSE(thrown);
    }
    CHECK(cuda.latched == cudaSuccess);
    CHECK(cuda.live.empty());
    CHECK(cuda.locked.empty());
    if (cuda.last_locked != nullptr) {
      CHECK_FALSE(is_mapped(cuda.last_locked));
    }
  }
  CHECK(fired > 25);
}

TEST_CASE("each call that must not fail unseen throws with its own name") {
  for (const char* call :
       {"cudaGetDeviceCount", "cudaGetDeviceProperties", "cudaInitDevice", "cuCtxSetCurrent",
        "cudaGetDevice", "cuCtxGetCurrent", "cuDeviceGet", "cuDevicePrimaryCtxRetain",
        "cudaHostRegister", "cudaMalloc", "cudaStreamCreateWithFlags", "cudaEventCreateWithFlags",
        "cudaMemcpyAsync", "cudaEventRecord", "cudaStreamWaitEvent", "cudaEventQuery",
        "cudaStreamQuery", "cudaEventSynchronize", "cudaStreamSynchronize"}) {
    CAPTURE(call);
    cuda = Runtime{};
    cuda.fail = call;
    const CudaError e = error_of([] { use_all(1); });
    // A caller gets one error whichever of the calls fails that make a device current.
    const bool of_several = std::set<std::string>{"cudaGetDevice", "cuCtxGetCurrent", "cuDeviceGet",
                                                  "cuDevicePrimaryCtxRetain"}
                                .count(call) != 0;
    CHECK(e.call() == (of_several ? "cuCtxSetCurrent" : call));
    CHECK(cuda.retained == 0);
    CHECK(cuda.latched == cudaSuccess);
    CHECK(cuda.live.empty());
  }
}

TEST_CASE("a GPU that cannot be made current to give memory back leaves what was latched before") {
  cuda = Runtime{};
  CudaDevice device{1};
  void* const there = device.allocate(100);
  cuda.latched = cudaErrorInvalidValue;
  cuda.fail = "cuCtxSetCurrent";
  device.deallocate(there, 100);
  CHECK(cuda.fired);
  CHECK(cuda.live.empty());
  CHECK(cuda.latched == cudaErrorInvalidValue);
}

TEST_CASE("the context that a thread had is current again, whosever it is") {
  cuda = Runtime{};
  const CUcontext users = context_of(2);
  cuda.bind(users);
  CudaDevice device{1};
  {
    const auto attached = device.attach();
    CHECK(cuda.current == 1);
  }
  CHECK(cuda.context == users);
  CHECK(cuda.set_up == std::set<int>{1, 2});
}

TEST_CASE("a GPU is made current though CUDA says that it is, if the thread has no context") {
  cuda = Runtime{};
  CudaDevice device{1};
  {
    const auto attached = device.attach();
    cudaSetDevice(1); // as a library does that puts back what it found
  }
  int says = 0;
  cudaGetDevice(&says);
  CHECK(says == 1);
  CHECK(cuda.context == nullptr);
  device.deallocate(device.allocate(100), 100);
  CHECK(cuda.has_called("cudaMalloc", 1));
  CHECK(cuda.has_called("cudaFree", 1));
  CHECK_FALSE(cuda.has_called("cudaMalloc", 0));
  CHECK_FALSE(cuda.has_called("cudaFree", 0));
  CHECK(cuda.context == nullptr);
  CHECK(cuda.set_up == std::set<int>{1});
  CHECK(cuda.retained == 0);
}

TEST_CASE("a GPU that breaks down for good lets all be destroyed") {
  cuda = Runtime{};
  {
    CudaDevice device{1};
    CudaStream stream = device.stream();
    CudaEvent event = device.event();
    void* const there = device.allocate(100);
    void* const pinned = device.allocate_pinned(4096);
    cuda.error = cudaErrorIllegalAddress;
    cuda.broken = true;
    CHECK(error_of([&] { stream.sync(); }).sticky());
    device.deallocate(there, 100);
    device.deallocate_pinned(pinned, 4096);
    CHECK_FALSE(is_mapped(pinned));
  }
  CHECK(cuda.live.empty());
  CHECK(cuda.latched == cudaSuccess);
}

TEST_CASE("the things of GPU 1 are made there, and nothing is set up on GPU 0, which is current") {
  cuda = Runtime{};
  {
    CudaDevice device{1};
    CHECK(device.name() == "cuda:1 Test GPU");
    CudaStream stream = device.stream();
    CudaEvent event = device.event();
    void* const there = device.allocate(100);
    void* const pinned = device.allocate_pinned(4096);
    device.deallocate(there, 100);
    device.deallocate_pinned(pinned, 4096);
    CHECK(cuda.current == 0);
    {
      const auto attached = device.attach();
      CHECK(cuda.current == 1);
    }
    CHECK(cuda.current == 0);
    CHECK(cuda.context == nullptr);
  }
  CHECK(cuda.set_up == std::set<int>{1});
  CHECK(cuda.retained == 0);
  for (const char* call : {"cudaStreamCreateWithFlags", "cudaEventCreateWithFlags", "cudaMalloc",
                           "cudaHostRegister", "cudaFree", "cudaHostUnregister"}) {
    CAPTURE(call);
    CHECK(cuda.has_called(call, 1));
    CHECK_FALSE(cuda.has_called(call, 0));
  }
}

TEST_CASE("the device that is current already is not set again") {
  cuda = Runtime{};
  use_all(0);
  CHECK(cuda.has_called("cudaMalloc", 0));
  CHECK_FALSE(cuda.has_called("cuCtxSetCurrent", 0));
}

TEST_CASE("pinned memory is unlocked, and then its pages go") {
  cuda = Runtime{};
  CudaDevice device{0};
  void* const pinned = device.allocate_pinned(4096);
  CHECK(is_mapped(pinned));
  CHECK(device.pinned_bytes() == 4096);
  cuda.calls.clear();
  device.deallocate_pinned(pinned, 4096);
  CHECK(cuda.calls == std::vector<std::string>{"cudaGetDevice", "cudaHostUnregister"});
  CHECK_FALSE(is_mapped(pinned));
}

TEST_CASE("memory that cannot be had is refused with its bytes, its GPU and the cure") {
  cuda = Runtime{};
  CudaDevice device{1};
  cuda.fail = "cudaMalloc";
  const CudaError e = error_of([&] { device.allocate(12345); });
  CHECK(has(e, "cudaMalloc of 12345 bytes on cuda:1 failed: cudaErrorOfTest (2), a test's error."));
  CHECK(has(e, "Of its 222 bytes 111 are free."));

  cuda.fail = "cudaHostRegister";
  const CudaError pinned = error_of([&] { device.allocate_pinned(8192); });
  CHECK(has(pinned, "cudaHostRegister of 8192 bytes on cuda:1 failed"));
  CHECK(has(pinned, "ulimit -l"));
  CHECK(device.pinned_bytes() == 0);
  CHECK_FALSE(is_mapped(cuda.last_locked));
}

TEST_CASE("the count is 0 where CUDA does not tell it, and that stays unlatched") {
  cuda = Runtime{};
  CHECK(CudaDevice::count() == 2);
  cuda.fail = "cudaGetDeviceCount";
  CHECK(CudaDevice::count() == 0);
  CHECK(cuda.latched == cudaSuccess);
}

TEST_CASE("not ready is false, and what was latched before stays so") {
  cuda = Runtime{};
  cuda.latched = cudaErrorInvalidValue;
  CudaDevice device{0};
  CudaStream stream = device.stream();
  CudaEvent event = device.event();
  CHECK(event.is_done());
  CHECK(stream.is_done());
  cuda.error = cudaErrorNotReady;
  cuda.broken = true;
  CHECK_FALSE(event.is_done());
  CHECK(cuda.latched == cudaErrorInvalidValue);
  CHECK_FALSE(stream.is_done());
  CHECK(cuda.latched == cudaErrorInvalidValue);
  cuda.broken = false;
}

TEST_CASE(
    "what others' captures would refuse is called in relaxed mode, and what makes work is not") {
  cuda = Runtime{};
  use_all(0);
  const std::set<std::string> relaxed{"cudaMalloc",       "cudaFree",
                                      "cudaHostRegister", "cudaHostUnregister",
                                      "cudaEventQuery",   "cudaEventSynchronize",
                                      "cudaStreamQuery",  "cudaStreamSynchronize"};
  std::set<std::string> seen;
  for (std::size_t i = 0; i < cuda.calls.size(); ++i) {
    CAPTURE(cuda.calls[i]);
    const bool expected = relaxed.count(cuda.calls[i]) != 0;
    CHECK((cuda.modes[i] == cudaStreamCaptureModeRelaxed) == expected);
    seen.insert(cuda.calls[i]);
  }
  CHECK(std::includes(seen.begin(), seen.end(), relaxed.begin(), relaxed.end()));
  CHECK(cuda.mode == cudaStreamCaptureModeGlobal);
  {
    CudaDevice device{0};
    const auto thread = device.attach_own_thread();
    CHECK(cuda.mode == cudaStreamCaptureModeRelaxed);
  }
  CHECK(cuda.mode == cudaStreamCaptureModeGlobal);
}

TEST_CASE("a stream that captures is refused with the cure, and so is one that cannot be asked") {
  cuda = Runtime{};
  CudaDevice device{0};
  CudaStream stream = device.stream();
  CHECK_NOTHROW(device.check_not_capturing(stream));
  for (const auto status : {cudaStreamCaptureStatusActive, cudaStreamCaptureStatusInvalidated}) {
    cuda.capturing = status;
    const CudaError e = error_of([&] { device.check_not_capturing(stream); });
    CHECK(has(e, "this stream captures a graph"));
    CHECK(has(e, "end the capture"));
    CHECK(e.status() == cudaErrorStreamCaptureUnsupported);
    CHECK_FALSE(e.sticky());
  }
  cuda.fail = "cudaStreamIsCapturing";
  const CudaError e = error_of([&] { device.check_not_capturing(nullptr); });
  CHECK(has(e, "cudaStreamNonBlocking"));
  CHECK(cuda.latched == cudaSuccess);
}

TEST_CASE("an owner that is assigned to destroys what it had, and nothing is destroyed twice") {
  cuda = Runtime{};
  {
    CudaDevice device{0};
    CudaStream stream = device.stream();
    CudaEvent event = device.event();
    stream = device.stream();
    event = device.event();
    CHECK(cuda.live.size() == 2);

    CudaStream moved_stream = std::move(stream);
    CudaEvent moved_event = std::move(event);
    CHECK(stream.get() == nullptr);
    CHECK(event.get() == nullptr);
    const cudaStream_t kept_stream = moved_stream.release();
    const cudaEvent_t kept_event = moved_event.release();
    CHECK(cuda.live.size() == 2);
    CHECK(CudaStream::from_native_handle(kept_stream).get() == kept_stream);
    CHECK(CudaEvent::from_native_handle(kept_event).get() == kept_event);
  }
  CHECK(cuda.live.empty());
  CHECK(cuda.unknown == 0);
}
