// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include <penstock/penstock.hpp>

#include <cstdint>
namespace ps = penstock;

void count(ps::Stream<ps::HostDevice> stream, ps::Batch<const std::uint8_t, ps::Device> bytes,
           ps::DeviceArray<std::uint64_t, ps::HostDevice>& counts,
           ps::Workspace<ps::HostDevice>& scratch) {
  ps::histogram(stream, bytes.data(), bytes.size(), counts.data(), scratch);
}
