// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of guests over a CUDA runtime that needs no GPU. On a GPU: guest_gpu_test.cu.

#include "support/fake_cuda.hpp"

#include <cstddef>
#include <cstdint>

inline void plus_one(cudaStream_t stream, const std::uint32_t* in, std::uint32_t* out,
                     std::size_t n) {
  fake_cuda::enqueue(stream, [=] {
    for (std::size_t i = 0; i < n; ++i) {
      out[i] = in[i] + 1;
    }
  });
}
inline void count_all(cudaStream_t stream, std::uint64_t* count, std::size_t n) {
  fake_cuda::enqueue(stream, [=] { *count = n; });
}
inline constexpr cudaError_t refused_launch_code = cudaErrorInvalidConfiguration;
inline void refused_launch(cudaStream_t stream) {
  fake_cuda::refused_launch(stream);
}
inline std::size_t captures_beside() {
  return 300;
}

#include "suite/guest_suite.hpp"

namespace suite {

TEST_CASE("used_on(null) records an event on the default stream for each batch") {
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  auto pipeline = to_device(gpu);
  const auto recorded = [](cudaStream_t on) { return fake_cuda::runtime().records[on]; };
  const int before = recorded(nullptr);
  for (auto batch : pipeline.on(stream)) {
    batch.used_on(0);
  }
  CHECK(recorded(nullptr) - before == static_cast<int>(batch_count));
}

TEST_CASE("batches of one record cost no more events and graphs than thousands of places") {
  struct Made {
    int events, all; // graphs are among all
    std::size_t bytes;
  };
  const auto made = [](std::size_t batch) {
    fake_cuda::Runtime& cuda = fake_cuda::runtime();
    const Made before{cuda.events, cuda.live, cuda.device_bytes};
    ps::CudaDevice gpu;
    auto pipeline =
        ps::Reader{ps::generate<U>(10'000'000,
                                   [](std::span<U> out, std::uint64_t first) {
                                     std::iota(out.begin(), out.end(), static_cast<U>(first));
                                   }),
                   ps::to_pinned,
                   {.depth = 2}} |
        ps::AsyncCopier{gpu, {.batch = batch}} |
        ps::Consumer{ps::replayed([](ps::FrozenBatch<const U>, cudaStream_t) {}, {.lanes = 3})};
    pipeline.prepare();
    return Made{cuda.events - before.events, cuda.live - before.all,
                cuda.device_bytes - before.bytes};
  };
  const Made usual = made(4096);
  const Made small = made(1);
  CAPTURE(usual.all, usual.bytes, small.all, small.bytes);
  CHECK(small.events == usual.events);
  CHECK(small.events <= 264);
  CHECK(small.all <= usual.all + 2400); // graphs of 1792 more places
  CHECK(small.bytes <= usual.bytes);
}

TEST_CASE("nothing waits for the whole device, and all is given back") {
  const int before = fake_cuda::runtime().live;
  {
    ps::CudaDevice gpu;
    auto sink = ps::device_array<U>(gpu, batch_size);
    auto pipeline = to_device(gpu) | ps::Consumer{[&](In in, cudaStream_t stream) {
                      plus_one(stream, in.data(), sink.data(), in.size());
                    }};
    pipeline.run();
  }
  CHECK(fake_cuda::runtime().device_syncs == 0);
  CHECK(fake_cuda::runtime().live == before);
}

} // namespace suite
