// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The functions of CUDA that are counted, or at least known to be a device's. The program is linked
// with --wrap=cudaMalloc and so on, for every name here: calls of cudaMalloc then come here, and
// __real_cudaMalloc is CUDA's own, whether linked statically or not.
//
// If a function is missing here, its allocations and locks count as the library's, and are seen.

#include "support/interposed.hpp"

#include <cstddef>
#include <type_traits>

#include <cuda_runtime_api.h>

using penstock::tests::interposed::Inside;
using penstock::tests::interposed::Kind;

#if CUDART_VERSION >= 13000
// <<<>>> calls these, and only nvcc declares them.
extern "C" cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t,
                                          cudaStream_t);
#endif

#define PENSTOCK_TESTS_WRAP(function, parameters, arguments, ...)                                  \
  extern "C" cudaError_t __real_##function parameters;                                             \
  static_assert(std::is_same_v<decltype(__real_##function), decltype(function)>);                  \
  extern "C" cudaError_t __wrap_##function parameters {                                            \
    const Inside inside{__VA_ARGS__};                                                              \
    return __real_##function arguments;                                                            \
  }

// These make something, or give it back.
PENSTOCK_TESTS_WRAP(cudaMalloc, (void** at, std::size_t bytes), (at, bytes), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaMallocAsync, (void** at, std::size_t bytes, cudaStream_t stream),
                    (at, bytes, stream), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaMallocManaged, (void** at, std::size_t bytes, unsigned flags),
                    (at, bytes, flags), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaFree, (void* at), (at), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaFreeAsync, (void* at, cudaStream_t stream), (at, stream), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaMallocHost, (void** at, std::size_t bytes), (at, bytes), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaHostAlloc, (void** at, std::size_t bytes, unsigned flags),
                    (at, bytes, flags), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaFreeHost, (void* at), (at), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaHostRegister, (void* at, std::size_t bytes, unsigned flags),
                    (at, bytes, flags), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaHostUnregister, (void* at), (at), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaStreamCreate, (cudaStream_t * stream), (stream), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags),
                    (stream, flags), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaStreamCreateWithPriority,
                    (cudaStream_t * stream, unsigned flags, int priority),
                    (stream, flags, priority), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaStreamDestroy, (cudaStream_t stream), (stream), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaEventCreate, (cudaEvent_t * event), (event), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags),
                    Kind::creation)
PENSTOCK_TESTS_WRAP(cudaEventDestroy, (cudaEvent_t event), (event), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaGraphInstantiate,
                    (cudaGraphExec_t * made, cudaGraph_t graph, unsigned long long flags),
                    (made, graph, flags), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaGraphExecDestroy, (cudaGraphExec_t graph), (graph), Kind::creation)
PENSTOCK_TESTS_WRAP(cudaGetDriverEntryPointByVersion,
                    (const char* name, void** function, unsigned version, unsigned long long flags,
                     cudaDriverEntryPointQueryResult* result),
                    (name, function, version, flags, result), Kind::creation)

// These wait for the device.
PENSTOCK_TESTS_WRAP(cudaDeviceSynchronize, (), (), Kind::blocking)
PENSTOCK_TESTS_WRAP(cudaStreamSynchronize, (cudaStream_t stream), (stream), Kind::blocking)
PENSTOCK_TESTS_WRAP(cudaEventSynchronize, (cudaEvent_t event), (event), Kind::blocking)
PENSTOCK_TESTS_WRAP(cudaMemcpy, (void* to, const void* from, std::size_t bytes, cudaMemcpyKind way),
                    (to, from, bytes, way), Kind::blocking)
PENSTOCK_TESTS_WRAP(cudaMemset, (void* at, int value, std::size_t bytes), (at, value, bytes),
                    Kind::blocking)

// These call the host back.
PENSTOCK_TESTS_WRAP(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t f, void* data),
                    (stream, f, data), Kind::callback)
PENSTOCK_TESTS_WRAP(cudaStreamAddCallback,
                    (cudaStream_t stream, cudaStreamCallback_t f, void* data, unsigned flags),
                    (stream, f, data, flags), Kind::callback)

// These may be called at any time.
PENSTOCK_TESTS_WRAP(cudaMemcpyAsync,
                    (void* to, const void* from, std::size_t bytes, cudaMemcpyKind way,
                     cudaStream_t stream),
                    (to, from, bytes, way, stream))
#if CUDART_VERSION >= 13000
PENSTOCK_TESTS_WRAP(cudaMemcpyBatchAsync,
                    (void* const* to, const void* const* from, const std::size_t* bytes,
                     std::size_t copies, cudaMemcpyAttributes* attributes, std::size_t* firsts,
                     std::size_t attribute_count, cudaStream_t stream),
                    (to, from, bytes, copies, attributes, firsts, attribute_count, stream))
#endif
PENSTOCK_TESTS_WRAP(cudaMemsetAsync, (void* at, int value, std::size_t bytes, cudaStream_t stream),
                    (at, value, bytes, stream))
PENSTOCK_TESTS_WRAP(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
PENSTOCK_TESTS_WRAP(cudaEventRecordWithFlags,
                    (cudaEvent_t event, cudaStream_t stream, unsigned flags),
                    (event, stream, flags))
PENSTOCK_TESTS_WRAP(cudaEventQuery, (cudaEvent_t event), (event))
PENSTOCK_TESTS_WRAP(cudaStreamQuery, (cudaStream_t stream), (stream))
PENSTOCK_TESTS_WRAP(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                    (stream, event, flags))
PENSTOCK_TESTS_WRAP(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t stream), (graph, stream))
PENSTOCK_TESTS_WRAP(cudaLaunchKernel,
                    (const void* kernel, dim3 blocks, dim3 threads, void** arguments,
                     std::size_t shared_bytes, cudaStream_t stream),
                    (kernel, blocks, threads, arguments, shared_bytes, stream))
PENSTOCK_TESTS_WRAP(cudaLaunchKernelExC,
                    (const cudaLaunchConfig_t* launch, const void* kernel, void** arguments),
                    (launch, kernel, arguments))
#if CUDART_VERSION >= 13000
PENSTOCK_TESTS_WRAP(__cudaGetKernel, (cudaKernel_t * kernel, const void* function),
                    (kernel, function))
PENSTOCK_TESTS_WRAP(__cudaLaunchKernel,
                    (cudaKernel_t kernel, dim3 blocks, dim3 threads, void** arguments,
                     std::size_t shared_bytes, cudaStream_t stream),
                    (kernel, blocks, threads, arguments, shared_bytes, stream))
#endif
PENSTOCK_TESTS_WRAP(cudaGetLastError, (), ())
PENSTOCK_TESTS_WRAP(cudaPeekAtLastError, (), ())
PENSTOCK_TESTS_WRAP(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode), (mode))
PENSTOCK_TESTS_WRAP(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* status),
                    (stream, status))
PENSTOCK_TESTS_WRAP(cudaGetDevice, (int* number), (number))
PENSTOCK_TESTS_WRAP(cudaSetDevice, (int number), (number))
PENSTOCK_TESTS_WRAP(cudaGetDeviceCount, (int* count), (count))
PENSTOCK_TESTS_WRAP(cudaGetDeviceProperties, (cudaDeviceProp * properties, int number),
                    (properties, number))
PENSTOCK_TESTS_WRAP(cudaInitDevice, (int number, unsigned device_flags, unsigned flags),
                    (number, device_flags, flags))
PENSTOCK_TESTS_WRAP(cudaMemGetInfo, (std::size_t* free, std::size_t* total), (free, total))
