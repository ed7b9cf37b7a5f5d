// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/cuda/detail/capture_mode.hpp>
#include <penstock/cuda/detail/current_device.hpp>
#include <penstock/cuda/error.hpp>
#include <penstock/cuda/event.hpp>
#include <penstock/cuda/graph.hpp>
#include <penstock/cuda/stream.hpp>
#include <penstock/device/detail/fed_devices.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>
#include <penstock/machine/detail/mapping.hpp>
#include <penstock/machine/detail/processor_set.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

namespace penstock::detail {

/// Enqueues `count` copies, 16 at most.
inline void copy_together(void* const* to, const void* const* from, const std::size_t* bytes,
                          std::size_t count, cudaStream_t stream) {
#if CUDART_VERSION >= 12080
  std::size_t first = 0;
  cudaMemcpyAttributes in_order{};
  in_order.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
#if CUDART_VERSION >= 13000
  const cudaError_t status =
      cudaMemcpyBatchAsync(to, from, bytes, count, &in_order, &first, 1, stream);
#else
  std::size_t failed = 0;
  const cudaError_t status = cudaMemcpyBatchAsync(const_cast<void**>(to), const_cast<void**>(from),
                                                  const_cast<std::size_t*>(bytes), count, &in_order,
                                                  &first, 1, &failed, stream);
#endif
  cuda_check(status, "cudaMemcpyBatchAsync", bytes[0], " and more to the device");
#else
  for (std::size_t i = 0; i != count; ++i) {
    cuda_check(cudaMemcpyAsync(to[i], from[i], bytes[i], cudaMemcpyDefault, stream),
               "cudaMemcpyAsync", bytes[i], " to the device");
  }
#endif
}
/// Enqueues several copies from pinned memory to a GPU's: from CUDA 12.8 on, up to 16 of them by
/// one call, since columns are few.
inline void copy_pieces(std::span<const CopyPiece> pieces, cudaStream_t stream) {
  constexpr std::size_t most = 16;
  void* to[most];
  const void* from[most];
  std::size_t bytes[most];
  while (!pieces.empty()) {
    const std::size_t count = std::min(pieces.size(), most);
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = pieces[i].to;
      from[i] = pieces[i].from;
      bytes[i] = pieces[i].bytes;
    }
    copy_together(to, from, bytes, count, stream);
    pieces = pieces.subspan(count);
  }
}

/// Finds what a callable's own CUDA calls have left behind: `kernel<<<…>>>` returns nothing, and a
/// launch that CUDA refuses (more threads than a block may have, no code for this GPU) only latches
/// an error in its thread. One peek a callable, some 25 ns. For the calling thread alone.
///
/// It sees a code that was not latched before. An error with the code of a pending one stays
/// unseen, as does one that the callable has cleared, as CUB's launches do.
class CudaLaunchCheck {
 public:
  /// Call before the first callable: an error latched by now is somebody else's, and stays.
  void begin() noexcept { before_ = cudaPeekAtLastError(); }
  /// Call after each callable; `whose` names it. Throws CudaError, and clears the error that it
  /// throws.
  void check(const char* whose) {
    const cudaError_t now = cudaPeekAtLastError();
    if (now != before_ && now != cudaSuccess) [[unlikely]] {
      before_ = cudaSuccess;
      cuda_fail(now, "a launch, or another CUDA call,", std::string{" in "} + whose,
                "What it was to do did not happen. For a launch check its blocks, its threads, its "
                "shared memory, and that the program has code for this GPU.");
    }
    before_ = now;
  }
  /// Call after a callable that threw: its exception tells of the error, which is not the next
  /// one's.
  void forget() noexcept {
    if (cudaPeekAtLastError() != before_) {
      cudaGetLastError();
      before_ = cudaSuccess;
    }
  }

 private:
  cudaError_t before_{cudaSuccess};
};

/// The memory of the current GPU, in bytes; zeros if CUDA does not say.
struct MemoryInfo {
  MemoryInfo() {
    const cudaError_t status = cudaMemGetInfo(&free, &total);
    if (status != cudaSuccess) {
      cuda_ignore(status);
      free = total = 0;
    }
  }

  std::size_t free{};
  std::size_t total{};
};

/// Returns what to do when the current GPU has not enough memory.
inline std::string memory_cure() {
  const MemoryInfo memory;
  const std::string cure = "Take a smaller batch, copy or depth.";
  return memory.total == 0 ? cure
                           : "Of its " + std::to_string(memory.total) + " bytes " +
                                 std::to_string(memory.free) + " are free. " + cure;
}

} // namespace penstock::detail

namespace penstock {

/// A GPU. Thin: it makes CUDA's own streams, events and memory.
///
/// It must outlive its memory. Any thread may call, whichever device is current there, and whatever
/// others capture; one thread a stream at a time. Calls throw CudaError. A call that succeeds
/// leaves the calling thread's last error as it is.
class CudaDevice {
 public:
  using stream_type = CudaStream;                    ///< What stream() makes.
  using event_type = CudaEvent;                      ///< What event() makes.
  using graph_type = CudaGraph;                      ///< What capture() makes.
  using stream_argument = cudaStream_t;              ///< How calls and callables take a stream.
  using launch_check_type = detail::CudaLaunchCheck; ///< Finds launches that failed unseen.

  /// Takes GPU `number`, as CUDA numbers them, and sets it up, which blocks for some tenths of a
  /// second the first time in a process. Throws if there is no such GPU, or no driver.
  explicit CudaDevice(int number = 0) : number_{number} {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    detail::cuda_ignore(status);
    if (status != cudaSuccess || devices == 0) {
      refuse(status != cudaSuccess ? status : cudaErrorNoDevice, "cudaGetDeviceCount",
             "this process has no GPU");
    }
    if (number < 0 || number >= devices) {
      refuse(cudaErrorInvalidDevice, "CudaDevice",
             devices == 1 ? "this process has 1 GPU, number 0"
                          : "this process has " + std::to_string(devices) +
                                " GPUs, numbered 0 to " + std::to_string(devices - 1));
    }
    cudaDeviceProp properties{};
    check_here(cudaGetDeviceProperties(&properties, number), "cudaGetDeviceProperties");
    name_ = label() + " " + properties.name;
    char bus[32];
    std::snprintf(bus, sizeof bus, "%04x:%02x:%02x.0", properties.pciDomainID, properties.pciBusID,
                  properties.pciDeviceID);
    bus_id_ = bus;
    check_here(cudaInitDevice(number, 0, 0), "cudaInitDevice");
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  /// Returns how many GPUs this process has; 0 where there is no driver.
  static int count() noexcept {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    detail::cuda_ignore(status);
    return status == cudaSuccess ? devices : 0;
  }

  /// Returns a name such as "cuda:0 NVIDIA H200".
  std::string name() const { return name_; }
  /// Returns the GPU's number, as CUDA counts them.
  int number() const noexcept { return number_; }
  /// Returns what all objects of this GPU share, and no other GPU's has.
  std::uintptr_t identity() const noexcept { return static_cast<std::uintptr_t>(number_) + 1; }
  /// Makes this the calling thread's current device until the object that it returns dies: kernels
  /// and the algorithms of cuda/algorithm.cuh need that. Then what was current before is so again.
  /// With another GPU than 0, attach your own threads, or call cudaSetDevice() there, before you
  /// call CUDA: it sets up GPU 0 otherwise.
  [[nodiscard]] detail::AttachedDevice attach() { return detail::AttachedDevice{number_}; }
  /// Attaches a thread of penstock's own, whose callables then work whoever captures a graph.
  [[nodiscard]] detail::OwnThread attach_own_thread() { return detail::OwnThread{number_}; }

  /// Makes a stream of this GPU.
  CudaStream stream() {
    const detail::AttachedDevice here{number_};
    return CudaStream{};
  }
  /// Makes an event of this GPU.
  CudaEvent event() {
    const detail::AttachedDevice here{number_};
    return CudaEvent{};
  }

  /// Returns `bytes` of GPU memory aligned to 256, not cleared; null for 0. May wait for the GPU's
  /// work.
  void* allocate(std::size_t bytes) {
    void* at = nullptr;
    if (bytes == 0) {
      return at;
    }
    const detail::AttachedDevice here{number_};
    const detail::RelaxedCapture relaxed;
    const cudaError_t status = cudaMalloc(&at, bytes);
    if (status != cudaSuccess) {
      detail::cuda_fail(status, "cudaMalloc", asked(bytes), detail::memory_cure());
    }
    return at;
  }
  /// Gives memory back. Blocks until the GPU has done all queued work. Ignores null.
  void deallocate(void* at, std::size_t) noexcept {
    if (at != nullptr) {
      const detail::CurrentDevice here{number_};
      const detail::RelaxedCapture relaxed;
      detail::cuda_ignore(cudaFree(at));
    }
  }
  /// Returns `bytes` of zeroed, page-locked host memory, a multiple of 4096; blocks until it is all
  /// there. From 2 MiB on it is on the GPU's NUMA node, if there are several.
  void* allocate_pinned(std::size_t bytes) {
    const detail::AttachedDevice here{number_};
    const detail::RelaxedCapture relaxed;
    void* const at = map(bytes);
    const cudaError_t status = cudaHostRegister(at, bytes, cudaHostRegisterDefault);
    if (status != cudaSuccess) {
      detail::unmap_pages(at, bytes);
      detail::cuda_fail(status, "cudaHostRegister", asked(bytes),
                        "Take fewer or smaller slots (a smaller depth), or raise the limits on "
                        "page-locked memory (ulimit -l, the container's).");
    }
    pinned_bytes_.fetch_add(bytes, StdAtomics::relaxed);
    return at;
  }
  /// Gives page-locked memory back. All queued work that uses it must be done: a copy still on its
  /// way would go to pages that are someone else's by then. Ignores null.
  void deallocate_pinned(void* at, std::size_t bytes) noexcept {
    if (at != nullptr) {
      const detail::CurrentDevice here{number_};
      const detail::RelaxedCapture relaxed;
      detail::cuda_ignore(cudaHostUnregister(at));
      detail::unmap_pages(at, bytes);
    }
  }
  /// Returns which of the calling thread's processors are on the GPU's NUMA node; none if there is
  /// one node, or if the thread was kept to some of the process's processors.
  detail::ProcessorSet processors_near() const {
    return detail::processors_near("", bus_id_, detail::ProcessorSet::of_this_thread());
  }
  /// Returns how many of the host's GPUs are on that node, this one included.
  unsigned devices_near() const { return detail::devices_near("", bus_id_); }
  /// Returns the bytes of memory that the GPU has in all; 0 if CUDA does not say.
  std::uint64_t memory_bytes() const {
    const detail::AttachedDevice here{number_};
    const detail::RelaxedCapture relaxed;
    return detail::MemoryInfo{}.total;
  }
  /// Returns the bytes ever page-locked by this device, given back or not.
  std::uint64_t pinned_bytes() const noexcept { return pinned_bytes_.load(StdAtomics::relaxed); }

  /// Copies `bytes` from pinned memory to the GPU's when the stream gets there; returns at once.
  void copy_to_device(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
    detail::cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream),
                       "cudaMemcpyAsync", bytes, " to the device");
  }
  /// Enqueues several copies from pinned memory to the GPU's, up to 16 of them by one call.
  void copy_to_device(std::span<const CopyPiece> pieces, cudaStream_t stream) {
    if (pieces.size() == 1) {
      copy_to_device(pieces[0].to, pieces[0].from, pieces[0].bytes, stream);
      return;
    }
    detail::copy_pieces(pieces, stream);
  }
  /// Enqueues a copy from the GPU's memory to pinned memory; returns at once.
  void copy_to_host(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
    detail::cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream),
                       "cudaMemcpyAsync", bytes, " to the host");
  }

  /// Captures what `f()` enqueues on `lanes`, as CudaGraph::capture() does.
  template <class F> CudaGraph capture(std::span<CudaStream> lanes, F f) {
    const detail::AttachedDevice here{number_};
    return CudaGraph::capture(lanes, std::move(f));
  }

  /// Do what the members of CudaEvent and CudaStream do; the stream may be any of this GPU.
  /// @{
  void record(CudaEvent& event, cudaStream_t stream) { event.record(stream); }
  void wait(cudaStream_t stream, const CudaEvent& event) {
    detail::cuda_check(cudaStreamWaitEvent(stream, event.get(), 0), "cudaStreamWaitEvent");
  }
  bool is_done(const CudaEvent& event) { return event.is_done(); }
  void sync(const CudaEvent& event) { event.sync(); }
  void sync(cudaStream_t stream) {
    const detail::RelaxedCapture relaxed;
    detail::cuda_check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  /// @}

  /// Throws if `stream` captures a graph: nothing on it could tell when a batch was used. Does no
  /// harm to the capture. Costs some 15 ns.
  void check_not_capturing(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t asked = detail::capture_status(stream, status);
    if (asked != cudaSuccess) {
      detail::cuda_fail(asked, "cudaStreamIsCapturing", {},
                        "A stream that waits for the default stream is captured meanwhile: use a "
                        "stream made with cudaStreamNonBlocking.");
    }
    if (status != cudaStreamCaptureStatusNone) {
      throw CudaError{
          "penstock: this stream captures a graph, so nothing on it could tell when a batch or a "
          "value was used: end the capture in the loop's body, or the callable, that began it.",
          "cudaStreamIsCapturing", cudaErrorStreamCaptureUnsupported};
    }
  }

 private:
  std::string label() const { return "cuda:" + std::to_string(number_); }
  std::string asked(std::size_t bytes) const {
    return " of " + std::to_string(bytes) + " bytes on " + label();
  }
  [[noreturn]] void refuse(cudaError_t status, const char* call, const std::string& why) const {
    throw CudaError{"penstock: CudaDevice{" + std::to_string(number_) + "}: " + why + ": " +
                        detail::cuda_text(status) +
                        ". CUDA_VISIBLE_DEVICES may hide GPUs; a HostDevice needs none.",
                    call, status};
  }
  void check_here(cudaError_t status, const char* call) const {
    if (status != cudaSuccess) {
      detail::cuda_fail(status, call, " on " + label());
    }
  }
  void* map(std::size_t bytes) const {
    try {
      return detail::map_pages_near(bytes, [this] { return processors_near(); });
    } catch (const Error& e) {
      throw CudaError{e.what(), "allocate_pinned", cudaErrorMemoryAllocation};
    }
  }

  const int number_;
  std::string name_;
  std::string bus_id_; // as the kernel writes it
  StdAtomics::Atomic<std::uint64_t> pinned_bytes_{0};
};

static_assert(AnyDevice<CudaDevice>);

} // namespace penstock
