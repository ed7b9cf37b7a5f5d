// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The link: the rate of copies of 256 MiB from pinned memory to the GPU, which no pipeline can
// exceed. Prints GB/s, the median of five times 4 GiB.

#include <penstock/cuda.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>

int main() try {
  constexpr std::size_t bytes = std::size_t{256} << 20;
  constexpr int copies = 16;
  penstock::CudaDevice gpu;
  void* host = gpu.allocate_pinned(bytes);
  void* device = gpu.allocate(bytes);
  std::memset(host, 1, bytes);
  auto stream = gpu.stream();
  std::array<double, 5> rates{};
  for (double& rate : rates) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < copies; ++i) {
      gpu.copy_to_device(device, host, bytes, stream);
    }
    gpu.sync(stream);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    rate = copies * static_cast<double>(bytes) / took.count() / 1e9;
  }
  std::sort(rates.begin(), rates.end());
  std::printf("%.2f\n", rates[rates.size() / 2]);
  gpu.deallocate(device, bytes);
  gpu.deallocate_pinned(host, bytes);
} catch (const std::exception& error) {
  std::fprintf(stderr, "link: %s\n", error.what());
  return 1;
}
