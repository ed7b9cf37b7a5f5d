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
