// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/host/device.hpp>

// nvcc links the CUDA runtime by itself. Another compiler may have its headers but no library to
// link, and this header also works without either.
#if defined(__CUDACC__)
#include <penstock/cuda/device.hpp>
#endif

#include <string>
#include <string_view>

namespace penstock {

/// The version that nvcc compiles and that of other compilers are two functions, also for the
/// linker, if one program has both.
#if defined(__CUDACC__)
inline namespace with_cuda {
#else
inline namespace without_cuda {
#endif

/// Calls `f(device)` with a device that lives for the call, and returns what `f` returns, of one
/// type for both devices. `which` is "cuda", "host", or "auto": the first GPU if there is one, else
/// the host. Only a program that nvcc compiles can have a GPU. Blocks while `f` runs. Throws Error
/// if there is no such device, and what `f` throws.
template <class F> decltype(auto) with_device(std::string_view which, F f) {
#if defined(__CUDACC__)
  if (which == "cuda" || (which == "auto" && CudaDevice::count() > 0)) {
    CudaDevice device;
    return f(device);
  }
#else
  if (which == "cuda") {
    throw Error{"penstock: with_device: there is no device \"cuda\" in a program that nvcc did not "
                "compile: compile it with nvcc, or take \"host\"."};
  }
#endif
  if (which == "host" || which == "auto") {
    HostDevice device;
    return f(device);
  }
  detail::throw_error<Error>({"penstock: with_device: there is no device \"", which,
                              "\": take \"auto\", \"cuda\" or \"host\"."});
}

} // namespace with_cuda or without_cuda
} // namespace penstock
