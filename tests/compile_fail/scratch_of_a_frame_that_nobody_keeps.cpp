// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: what a frame took is free when it dies, and this one dies at once, so keep it
#include <penstock/callables/scratch.hpp>
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  ps::Scratch scratch{device, 4096};
#ifdef PENSTOCK_REFUSED
  float* const numbers = scratch.on(stream).take<float>(1000);
#else
  auto frame = scratch.on(stream);
  float* const numbers = frame.take<float>(1000);
#endif
  stream.enqueue([numbers] { numbers[0] = 1; });
  stream.sync();
}
