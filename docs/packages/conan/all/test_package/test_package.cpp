// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A pipeline of host memory into the host device, which needs no GPU.

#include <penstock/penstock.hpp>

#include <cstddef>
#include <iostream>
#include <vector>
namespace ps = penstock;

int main() {
  const std::vector<int> numbers(100'000, 7);
  ps::HostDevice device;
  std::size_t counted = 0;
  auto pipeline = ps::Reader{ps::memory(numbers), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Consumer{[&](ps::Batch<const int, ps::Device> in, ps::HostStream& stream) {
                    stream.enqueue([in, &counted] { counted += in.size(); });
                  }};
  pipeline.run();
  std::cout << "penstock " << PENSTOCK_VERSION << " counted " << counted << '\n';
  return counted == numbers.size() ? 0 : 1;
}
