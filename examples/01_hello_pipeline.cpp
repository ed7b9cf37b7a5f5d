// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// README's program: a file flows through page-locked memory onto a device, which counts its bytes.
// It needs no GPU. Without a path it reads its own file.
//
//   g++ -std=c++20 -O2 -Iinclude examples/01_hello_pipeline.cpp -pthread -o hello
//   ./hello LICENSE
//
// It prints what each stage did, and then how many lines the file has, as `wc -l` does.

#include <iostream>
#include <penstock/penstock.hpp>
namespace ps = penstock;

int main(int argc, char** argv) {
  ps::HostDevice device; // or a GPU: ps::CudaDevice
  auto counts = ps::device_array<std::uint64_t>(device, 256);
  ps::Workspace scratch{device};
  auto count = [&](ps::Batch<const std::uint8_t, ps::Device> bytes,
                   ps::Stream<decltype(device)> stream) {
    ps::histogram(stream, bytes.data(), bytes.size(), counts.data(), scratch);
  };
  auto pipeline = ps::Reader{ps::records<std::uint8_t>(argv[argc - 1])} // disk -> host memory
                  | ps::PinnedStager{}                                  // -> page-locked memory
                  | ps::AsyncCopier{device}                             // -> device memory
                  | ps::Consumer{count};
  std::cout << pipeline.run(); // a Report: rates, and which stage held the others back
  auto stream = device.stream();
  std::cout << counts.read(stream)['\n'] << " lines\n";
}
