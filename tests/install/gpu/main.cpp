// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A program of two files: g++ compiles this one, with the pipeline, and nvcc the other, with the
// GPU's work.

#include <penstock/cuda.hpp>

#include <cstdint>
#include <iostream>
#include <vector>
namespace ps = penstock;

void count(ps::Stream<ps::CudaDevice> stream, ps::Batch<const std::uint8_t, ps::Device> bytes,
           std::uint64_t* counts, ps::Workspace<ps::CudaDevice>& scratch);

int main() try {
  const std::vector<std::uint8_t> bytes(100'000, 7);
  ps::CudaDevice device;
  auto counts = ps::device_array<std::uint64_t>(device, 256);
  ps::Workspace scratch{device};
  auto pipeline = ps::Reader{ps::memory(bytes), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Consumer{[&](ps::Batch<const std::uint8_t, ps::Device> batch,
                                   ps::Stream<ps::CudaDevice> stream) {
                    count(stream, batch, counts.data(), scratch);
                  }};
  pipeline.run();
  auto stream = device.stream();
  const std::uint64_t sevens = counts.read(stream)[7];
  std::cout << "penstock " << PENSTOCK_VERSION << " counted " << sevens << '\n';
  return sevens == bytes.size() ? 0 : 1;
} catch (const ps::Error& error) {
  std::cout << error.what() << '\n';
  return ps::CudaDevice::count() == 0 ? 0 : 1;
}
