// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include <penstock/cuda/algorithm.cuh>
#include <penstock/with_device.hpp>

#include "gate.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace penstock;
using penstock::tests::Gate;

namespace {

template <class F> CudaError error_of(F f) {
  return penstock::tests::caught<CudaError>(f);
}
using penstock::tests::has;

// Runs the test cases with this tag in a process of their own, and returns whether they pass there.
bool runs_again(const std::string& variable, const std::string& tag) {
  char self[4096] = {};
  REQUIRE(::readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  return std::system((variable + "=1 '" + self + "' '" + tag + "' 1>&2").c_str()) == 0;
}

bool is_page_locked(const void* at) {
  cudaPointerAttributes about{};
  REQUIRE(cudaPointerGetAttributes(&about, at) == cudaSuccess);
  return about.type == cudaMemoryTypeHost;
}

// Returns the NUMA node of the GPU by what CUDA says of its place; -1 if the system does not know.
int node_of_gpu(int number) {
  char id[32] = "";
  REQUIRE(cudaDeviceGetPCIBusId(id, sizeof id, number) == cudaSuccess);
  for (char& c : id) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  int node = -1;
  std::ifstream{"/sys/bus/pci/devices/" + std::string{id} + "/numa_node"} >> node;
  return node;
}
// Returns the node of the memory there; negative if the system does not say.
int node_of(void* at) {
  int node = -1;
  return ::syscall(SYS_move_pages, 0, 1UL, &at, nullptr, &node, 0) == 0 ? node : -1;
}

struct Nothing {
  PENSTOCK_HD void operator()(std::size_t) const {}
};
struct Trap {
  PENSTOCK_HD void operator()(std::size_t) const {
#if defined(__CUDA_ARCH__)
    __trap();
#endif
  }
};

// Makes a call that fails and whose error stays latched.
cudaError_t latch_an_error() {
  const cudaError_t status = cudaSetDevice(9999);
  REQUIRE(status == cudaErrorInvalidDevice);
  REQUIRE(cudaPeekAtLastError() == status);
  return status;
}

} // namespace

TEST_CASE("a CudaDevice names its number and its GPU") {
  REQUIRE(CudaDevice::count() > 0);
  cudaDeviceProp properties{};
  REQUIRE(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  CHECK(CudaDevice{}.name() == "cuda:0 " + std::string{properties.name});
  CHECK(CudaDevice{}.identity() == CudaDevice{0}.identity());
  for (int number = 1; number != CudaDevice::count(); ++number) {
    CHECK(CudaDevice{number}.identity() != CudaDevice{}.identity());
  }
}

TEST_CASE("pinned memory is on the GPU's node, unless the thread was kept to some processors") {
  const detail::ProcessorSet all = detail::ProcessorSet::of_this_thread();
  for (int number = 0; number != CudaDevice::count(); ++number) {
    CudaDevice gpu{number};
    const detail::ProcessorSet near = gpu.processors_near();
    CHECK((near & all) == near);
    CHECK((near.empty() || node_of_gpu(number) >= 0));
    CHECK(gpu.devices_near() >= 1);
    constexpr std::size_t bytes = std::size_t{64} << 20;
    auto* const at = static_cast<std::byte*>(gpu.allocate_pinned(bytes));
    // Sanitizers and containers may forbid the question.
    const int first = node_of(at);
    const int last = node_of(at + bytes - detail::page);
    CHECK((near.empty() || first < 0 || first == node_of_gpu(number)));
    CHECK((near.empty() || last < 0 || last == node_of_gpu(number)));
    gpu.deallocate_pinned(at, bytes);
    unsigned of_one = 0;
    std::thread{[&] {
      detail::ProcessorSet::listed(std::to_string(::sched_getcpu())).hold_this_thread();
      of_one = gpu.processors_near().count();
    }}.join();
    CHECK((of_one == 0 || all.count() == 1));
  }
}

TEST_CASE("a GPU that is not there is refused with how many there are") {
  const int count = CudaDevice::count();
  for (const int number : {count, -1, 1 << 20}) {
    const CudaError e = error_of([&] { CudaDevice device{number}; });
    CHECK(e.status() == cudaErrorInvalidDevice);
    CHECK(has(e, "CudaDevice{" + std::to_string(number) + "}: this process has " +
                     std::to_string(count) + " GPU"));
    CHECK(has(e, "HostDevice needs none"));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
}

TEST_CASE("the door clears what it throws and ignores, and nothing that succeeds clears anything") {
  CHECK(error_of([] { detail::cuda_check(latch_an_error(), "cudaSetDevice"); }).code() == 101);
  CHECK(cudaPeekAtLastError() == cudaSuccess);

  detail::cuda_ignore(latch_an_error());
  CHECK(cudaPeekAtLastError() == cudaSuccess);

  CHECK(CudaDevice::count() > 0);
  CHECK(cudaPeekAtLastError() == cudaSuccess);

  latch_an_error();
  CHECK(CudaDevice::count() > 0);
  CHECK(error_of([] { CudaDevice device{1 << 20}; }).status() == cudaErrorInvalidDevice);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  cudaGetLastError();
}

TEST_CASE("CUDA does not latch that something is not ready, so nothing needs to be cleared") {
  CudaDevice device;
  CudaStream stream = device.stream();
  CudaEvent event = device.event();
  for (const bool pending : {false, true}) {
    const cudaError_t before = pending ? latch_an_error() : cudaSuccess;
    Gate gate{device};
    gate.shut(stream);
    event.record(stream);
    CHECK_FALSE(event.is_done());
    CHECK(cudaPeekAtLastError() == before);
    CHECK_FALSE(stream.is_done());
    CHECK(cudaPeekAtLastError() == before);
    gate.let_go();
    stream.sync();
    CHECK(event.is_done());
    CHECK(cudaPeekAtLastError() == before);
  }
  cudaGetLastError();
}

TEST_CASE("every device makes its own things and leaves the current device alone") {
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  for (int number = 0; number < CudaDevice::count(); ++number) {
    CAPTURE(number);
    CudaDevice device{number};
    CudaStream stream = device.stream();
    CudaEvent event = device.event();
    event.record(stream); // CUDA refuses a stream and an event of two devices
    event.sync();
    void* const at = device.allocate(1000);
    void* const pinned = device.allocate_pinned(4096);
    device.copy_to_device(at, pinned, 1000, stream);
    stream.sync();

    cudaPointerAttributes about{};
    REQUIRE(cudaPointerGetAttributes(&about, at) == cudaSuccess);
    CHECK(about.type == cudaMemoryTypeDevice);
    CHECK(about.device == number);
    device.deallocate(at, 1000);
    device.deallocate_pinned(pinned, 4096);

    int current = -1;
    REQUIRE(cudaGetDevice(&current) == cudaSuccess);
    CHECK(current == 0);
    {
      const auto attached = device.attach();
      REQUIRE(cudaGetDevice(&current) == cudaSuccess);
      CHECK(current == number);
    }
    REQUIRE(cudaGetDevice(&current) == cudaSuccess);
    CHECK(current == 0);
  }
}

TEST_CASE("device memory is aligned to 256 bytes, and null for none") {
  CudaDevice device;
  CHECK(device.allocate(0) == nullptr);
  device.deallocate(nullptr, 0);
  for (const std::size_t bytes : {1, 3, 255, 257, 1'000'000}) {
    void* const at = device.allocate(bytes);
    REQUIRE(at != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(at) % 256 == 0);
    device.deallocate(at, bytes);
  }
}

TEST_CASE("too much device memory is refused with what was asked for and what is free") {
  CudaDevice device;
  const CudaError e = error_of([&] { device.allocate(std::size_t{1} << 50); });
  CHECK(e.status() == cudaErrorMemoryAllocation);
  CHECK(e.call() == "cudaMalloc");
  CHECK_FALSE(e.sticky());
  CHECK(has(e, "cudaMalloc of 1125899906842624 bytes on cuda:0 failed"));
  CHECK(has(e, " are free. "));
  CHECK(cudaPeekAtLastError() == cudaSuccess);

  void* const at = device.allocate(1); // and the device still works
  CHECK(at != nullptr);
  device.deallocate(at, 1);
}

TEST_CASE("pinned memory is page-locked to the byte and counted") {
  CudaDevice device;
  CHECK(device.pinned_bytes() == 0);
  const std::size_t bytes = 5 * 4096;
  auto* const at = static_cast<std::byte*>(device.allocate_pinned(bytes));
  CHECK(device.pinned_bytes() == bytes);
  CHECK(is_page_locked(at));
  CHECK(is_page_locked(at + bytes - 1));
  CHECK_FALSE(is_page_locked(at + bytes));
  CHECK(at[0] == std::byte{0});
  CHECK(at[bytes - 1] == std::byte{0});
  device.deallocate_pinned(at, bytes);
  CHECK(device.pinned_bytes() == bytes);

  const std::size_t more = std::size_t{6} << 20;
  void* const large = device.allocate_pinned(more);
  CHECK(device.pinned_bytes() == bytes + more);
  device.deallocate_pinned(large, more);
  device.deallocate_pinned(nullptr, 0);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("pinned memory that cannot be had is refused with its bytes and not counted") {
  CudaDevice device;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{4097}, std::size_t{1} << 60}) {
    CHECK(has(error_of([&] { device.allocate_pinned(bytes); }), std::to_string(bytes) + " bytes"));
  }
  CHECK(device.pinned_bytes() == 0);
}

TEST_CASE("bytes go to the GPU and come back unchanged") {
  CudaDevice device;
  CudaStream stream = device.stream();
  const std::size_t bytes = std::size_t{3} << 20;
  auto* const out = static_cast<std::uint8_t*>(device.allocate_pinned(bytes));
  auto* const back = static_cast<std::uint8_t*>(device.allocate_pinned(bytes));
  auto* const there = static_cast<std::uint8_t*>(device.allocate(bytes));
  std::mt19937 random{7};
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::uint8_t>(random());
  }
  device.copy_to_device(there, out, bytes - 5, stream);
  device.copy_to_device(there + bytes - 5, out + bytes - 5, 5, stream);
  device.copy_to_device(there, out, 0, stream);
  device.copy_to_host(back, there, bytes, stream);
  device.sync(stream);
  CHECK(std::memcmp(out, back, bytes) == 0);
  device.deallocate(there, bytes);
  device.deallocate_pinned(back, bytes);
  device.deallocate_pinned(out, bytes);
}

TEST_CASE("a copy that CUDA refuses names its bytes") {
  CudaDevice device;
  CudaStream stream = device.stream();
  void* const pinned = device.allocate_pinned(4096);
  const CudaError e = error_of([&] { device.copy_to_device(nullptr, pinned, 4096, stream); });
  CHECK(e.call() == "cudaMemcpyAsync");
  CHECK(has(e, "of 4096 bytes to the device failed"));
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  device.deallocate_pinned(pinned, 4096);
}

TEMPLATE_TEST_CASE("an event never recorded counts as done", "", HostDevice, CudaDevice) {
  TestType device;
  auto stream = device.stream();
  auto event = device.event();
  CHECK(device.is_done(event));
  device.sync(event);
  device.wait(stream, event);
  device.sync(stream);
  CHECK(stream.is_done());
}

TEMPLATE_TEST_CASE("an event is done when its stream gets there", "", HostDevice, CudaDevice) {
  TestType device;
  auto stream = device.stream();
  auto event = device.event();
  Gate gate{device};
  gate.shut(stream);
  device.record(event, stream);
  CHECK_FALSE(device.is_done(event));
  CHECK_FALSE(stream.is_done());
  gate.let_go();
  device.sync(event);
  CHECK(device.is_done(event));
  device.sync(stream);
  CHECK(stream.is_done());
}

TEMPLATE_TEST_CASE("an event recorded anew marks the new point", "", HostDevice, CudaDevice) {
  TestType device;
  auto stream = device.stream();
  auto event = device.event();
  Gate gate{device};
  event.record(stream);
  event.sync();
  CHECK(event.is_done());
  gate.shut(stream);
  event.record(stream);
  CHECK_FALSE(event.is_done());
  gate.let_go();
  event.sync();
  CHECK(event.is_done());
}

TEMPLATE_TEST_CASE("a wait is for what the event marks at the call", "", HostDevice, CudaDevice) {
  TestType device;
  auto held = device.stream();
  auto idle = device.stream();
  auto waiting = device.stream();
  auto event = device.event();
  auto passed = device.event();
  Gate gate{device};
  gate.shut(held);
  event.record(held);
  waiting.wait(event);
  passed.record(waiting);
  event.record(idle);
  event.sync();
  CHECK(event.is_done());
  CHECK_FALSE(passed.is_done());
  gate.let_go();
  passed.sync();
  CHECK(passed.is_done());
}

TEST_CASE("not ready leaves no error latched") {
  CudaDevice device;
  CudaStream stream = device.stream();
  CudaEvent event = device.event();
  Gate gate{device};
  gate.shut(stream);
  event.record(stream);
  CHECK_FALSE(event.is_done());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK_FALSE(stream.is_done());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("pinned memory is given back after the copies queued from it") {
  CudaDevice device;
  CudaStream stream = device.stream();
  const std::size_t bytes = std::size_t{64} << 20;
  void* const there = device.allocate(bytes);
  void* const pinned = device.allocate_pinned(bytes);
  for (int k = 0; k < 8; ++k) {
    device.copy_to_device(there, pinned, bytes, stream);
  }
  CHECK_FALSE(stream.is_done());
  device.deallocate_pinned(pinned, bytes);
  CHECK(stream.is_done());
  device.deallocate(there, bytes);
}

TEST_CASE("streams and events move, are released and taken over") {
  CudaDevice device;
  CudaStream one = device.stream();
  const cudaStream_t handle = one;
  CudaStream two = std::move(one);
  CHECK(one.get() == nullptr);
  CHECK(two.get() == handle);
  one = std::move(two);
  CHECK(two.get() == nullptr);
  CHECK(one.get() == handle);
  two = CudaStream::from_native_handle(one.release());
  CHECK(one.get() == nullptr);
  CHECK(two.get() == handle);
  two.sync();
  unsigned flags = 0;
  REQUIRE(cudaStreamGetFlags(two, &flags) == cudaSuccess);
  CHECK(flags == cudaStreamNonBlocking);

  CudaEvent first = device.event();
  const cudaEvent_t mark = first.get();
  CudaEvent second = std::move(first);
  CHECK(first.get() == nullptr);
  CHECK(second.get() == mark);
  first = std::move(second);
  CHECK(second.get() == nullptr);
  second = CudaEvent::from_native_handle(first.release());
  CHECK(first.get() == nullptr);
  CHECK(second.get() == mark);
  second.record(two);
  second.sync();
  CHECK(second.is_done());
}

TEST_CASE("with_device takes the GPU where there is one") {
  const auto name = [](auto& device) { return device.name(); };
  CHECK(with_device("auto", name).rfind("cuda:0 ", 0) == 0);
  CHECK(with_device("cuda", name).rfind("cuda:0 ", 0) == 0);
  CHECK(with_device("host", name) == "host");
}

// Other test cases have used GPU 0, so this one runs again in a process of its own.
TEST_CASE("a process that uses the last GPU sets up no other one", "[last]") {
  if (std::getenv("PENSTOCK_TEST_LAST") == nullptr) {
    CHECK(runs_again("PENSTOCK_TEST_LAST", "[last]"));
    return;
  }
  const int last = CudaDevice::count() - 1;
  CudaDevice device{last};
  void* const at = device.allocate(1000);
  void* const pinned = device.allocate_pinned(4096);
  {
    // CUDA's own calls would set up GPU 0 on a thread that has no device.
    const auto attached = device.attach();
    CudaStream stream = device.stream();
    for_each(stream, 1, Nothing{});
    stream.sync();
  }
  std::thread{[&] { const auto attached = device.attach_own_thread(); }}.join();
  device.deallocate_pinned(pinned, 4096);
  device.deallocate(at, 1000);
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  REQUIRE(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &found, 12000,
                                           cudaEnableDefault, &result) == cudaSuccess);
  for (int number = 0; number <= last; ++number) {
    CAPTURE(number);
    unsigned flags = 0;
    int active = -1;
    CHECK(reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(found)(number, &flags, &active) ==
          CUDA_SUCCESS);
    CHECK(active == (number == last ? 1 : 0));
  }
}

// A trap ends the GPU's use for a process, so this test case runs again in a process of its own.
TEST_CASE("a trap in a kernel is a sticky error, and nothing hangs after it", "[trap]") {
  if (std::getenv("PENSTOCK_TEST_TRAP") == nullptr) {
    CHECK(runs_again("PENSTOCK_TEST_TRAP", "[trap]"));
    return;
  }
  CudaDevice device;
  CudaStream stream = device.stream();
  CudaEvent event = device.event();
  void* const at = device.allocate(1000);
  void* const pinned = device.allocate_pinned(4096);
  for_each(stream, 1, Trap{});
  const CudaError e = error_of([&] { stream.sync(); });
  CHECK(e.sticky());
  CHECK(has(e, "start it anew"));
  CHECK(error_of([&] { device.allocate(1); }).sticky());
  CHECK(error_of([&] { device.copy_to_device(at, pinned, 1000, stream); }).sticky());
  CHECK(error_of([&] { event.record(stream); }).sticky());
  CHECK(error_of([&] { stream.is_done(); }).sticky());
  CHECK(error_of([&] { for_each(stream, 1, Trap{}); }).sticky());
  device.deallocate_pinned(pinned, 4096);
  device.deallocate(at, 1000);
}
