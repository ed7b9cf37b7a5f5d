// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A program of two files, as in another project: the pipeline here, the use of a batch in
// other.cpp.

#include <penstock/penstock.hpp>

#include <cstdint>
#include <iostream>
#include <vector>
namespace ps = penstock;

void count(ps::Stream<ps::HostDevice> stream, ps::Batch<const std::uint8_t, ps::Device> bytes,
           ps::DeviceArray<std::uint64_t, ps::HostDevice>& counts,
           ps::Workspace<ps::HostDevice>& scratch);

int main() {
  const std::vector<std::uint8_t> bytes(100'000, 7);
  ps::HostDevice device;
  auto counts = ps::device_array<std::uint64_t>(device, 256);
  ps::Workspace scratch{device};
  auto pipeline = ps::Reader{ps::memory(bytes), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Consumer{[&](ps::Batch<const std::uint8_t, ps::Device> batch,
                                   ps::Stream<ps::HostDevice> stream) {
                    count(stream, batch, counts, scratch);
                  }};
  pipeline.run();
  auto stream = device.stream();
  const std::uint64_t sevens = counts.read(stream)[7];
  std::cout << "penstock " << PENSTOCK_VERSION << " counted " << sevens << '\n';
  return sevens == bytes.size() ? 0 : 1;
}
