// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include <penstock/cuda/device.hpp>

#include "support/catch.hpp"
#include "support/caught.hpp"

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>
#include <type_traits>

// How CUDA errors become exceptions. No test needs a GPU, and none sees one: every CUDA call fails
// for real. device_test.cu asks whether an error stays latched: without a driver CUDA always
// latches.

using namespace penstock;

namespace {

const bool gpus_are_hidden = ::setenv("CUDA_VISIBLE_DEVICES", "", 1) == 0;

template <class F> CudaError error_of(F f) {
  return penstock::tests::caught<CudaError>(f);
}
using penstock::tests::has;

cudaError_t fail_for_real() {
  REQUIRE(gpus_are_hidden);
  void* at = nullptr;
  const cudaError_t status = cudaMalloc(&at, 42);
  REQUIRE(status != cudaSuccess);
  return status;
}

template <class T>
concept FromHandle = requires(T handle) { CudaStream::from_native_handle(handle); };
template <class T>
concept EventFromHandle = requires(T handle) { CudaEvent::from_native_handle(handle); };

static_assert(AnyDevice<CudaDevice>);
static_assert(std::is_same_v<Stream<CudaDevice>, cudaStream_t>);
static_assert(!std::is_copy_constructible_v<CudaDevice> &&
              !std::is_move_constructible_v<CudaDevice> && !std::is_convertible_v<int, CudaDevice>);
static_assert(!std::is_copy_constructible_v<CudaStream> && !std::is_copy_assignable_v<CudaStream> &&
              std::is_nothrow_move_constructible_v<CudaStream> &&
              std::is_nothrow_move_assignable_v<CudaStream>);
static_assert(!std::is_copy_constructible_v<CudaEvent> && !std::is_copy_assignable_v<CudaEvent> &&
              std::is_nothrow_move_constructible_v<CudaEvent> &&
              std::is_nothrow_move_assignable_v<CudaEvent>);
static_assert(std::is_convertible_v<CudaStream&, cudaStream_t>);
static_assert(!std::is_convertible_v<cudaStream_t, CudaStream>);
static_assert(FromHandle<cudaStream_t> && !FromHandle<int> && !FromHandle<std::nullptr_t>);
static_assert(EventFromHandle<cudaEvent_t> && !EventFromHandle<int> &&
              !EventFromHandle<std::nullptr_t>);

} // namespace

TEST_CASE("thirteen CUDA errors are sticky and no other") {
  std::set<int> sticky;
  for (int code = 0; code < 1200; ++code) {
    if (detail::is_sticky(static_cast<cudaError_t>(code))) {
      sticky.insert(code);
    }
  }
  CHECK(sticky == std::set<int>{cudaErrorContained, cudaErrorIllegalAddress, cudaErrorLaunchTimeout,
                                cudaErrorAssert, cudaErrorHardwareStackError,
                                cudaErrorIllegalInstruction, cudaErrorMisalignedAddress,
                                cudaErrorInvalidAddressSpace, cudaErrorInvalidPc,
                                cudaErrorLaunchFailure, cudaErrorTensorMemoryLeak,
                                cudaErrorMpsClientTerminated, cudaErrorExternalDevice});
  CHECK(sticky.size() == 13);
}

TEST_CASE("a failed CUDA call is thrown with its name, its error and its bytes") {
  const cudaError_t status = fail_for_real();
  const CudaError e =
      error_of([&] { detail::cuda_check(status, "cudaMalloc", 42, " on the moon"); });
  CHECK(e.status() == status);
  CHECK(e.code() == static_cast<int>(status));
  CHECK(e.call() == "cudaMalloc");
  CHECK_FALSE(e.sticky());
  CHECK(has(e, "cudaMalloc of 42 bytes on the moon failed: "));
  CHECK(has(e, cudaGetErrorName(status)));
  CHECK(has(e, "(" + std::to_string(status) + ")"));
  CHECK(has(e, cudaGetErrorString(status)));
}

TEST_CASE("a CUDA call that succeeds passes the door") {
  CHECK_NOTHROW(detail::cuda_check(cudaSuccess, "cudaMalloc"));
  CHECK_NOTHROW(detail::cuda_check(cudaSuccess, "cudaMalloc", 1, ""));
  CHECK_THROWS_AS(detail::cuda_check(cudaErrorInvalidValue, "cudaMalloc"), DeviceError);
}

TEST_CASE("a sticky CUDA error says that the process must be started anew") {
  const CudaError sticky = error_of(
      [] { detail::cuda_fail(cudaErrorIllegalAddress, "cudaEventQuery", "", "Try less."); });
  CHECK(sticky.sticky());
  CHECK(has(sticky, "start it anew"));
  CHECK_FALSE(has(sticky, "Try less."));

  const CudaError other =
      error_of([] { detail::cuda_fail(cudaErrorMemoryAllocation, "cudaMalloc", "", "Try less."); });
  CHECK_FALSE(other.sticky());
  CHECK(has(other, "Try less."));
  CHECK_FALSE(has(other, "anew"));
}

TEST_CASE("not ready is an answer, and other errors are thrown") {
  CHECK_FALSE(detail::cuda_is_done(cudaErrorNotReady, "cudaEventQuery"));
  CHECK(detail::cuda_is_done(cudaSuccess, "cudaEventQuery"));
  const CudaError e =
      error_of([] { detail::cuda_is_done(cudaErrorLaunchFailure, "cudaEventQuery"); });
  CHECK(e.call() == "cudaEventQuery");
  CHECK(e.sticky());
}

TEST_CASE("without a GPU the count is 0") {
  static_assert(noexcept(CudaDevice::count()));
  REQUIRE(gpus_are_hidden);
  CHECK(CudaDevice::count() == 0);
}

TEST_CASE("without a GPU a CudaDevice says so and names the cure") {
  for (const int number : {0, 7}) {
    const CudaError e = error_of([&] { CudaDevice device{number}; });
    CHECK(e.call() == "cudaGetDeviceCount");
    CHECK(has(e, "CudaDevice{" + std::to_string(number) + "}: this process has no GPU"));
    CHECK(has(e, cudaGetErrorString(e.status())));
    CHECK(has(e, "HostDevice needs none"));
  }
}

TEST_CASE("without a GPU streams and events throw by the door") {
  CHECK(error_of([] { CudaStream stream; }).call() == "cudaStreamCreateWithFlags");
  CHECK(error_of([] { CudaEvent event; }).call() == "cudaEventCreateWithFlags");
}
