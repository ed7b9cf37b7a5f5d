// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with scratch memory, and cures: tests/tools/check_refusals.py.

#include <penstock/callables/scratch.hpp>
#include <penstock/penstock.hpp>

namespace ps = penstock;

// refused scratch_of_a_frame_that_nobody_keeps: what a frame took is free when it dies, and this
// one dies at once, so keep it
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

// refused workspace_of_a_frame_that_nobody_keeps: what a frame took is free when it dies, and this
// one dies at once, so keep it
int main() {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  ps::Scratch scratch{device, 4096};
#ifdef PENSTOCK_REFUSED
  float* const numbers = static_cast<float*>(scratch.on(stream).workspace(4000).data());
#else
  auto frame = scratch.on(stream);
  float* const numbers = static_cast<float*>(frame.workspace(4000).data());
#endif
  stream.enqueue([numbers] { numbers[0] = 1; });
  stream.sync();
}
