// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: ends on a device: for \(auto batch : pipeline.on\(stream\)\)
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} | ps::AsyncCopier{device};
#ifdef PENSTOCK_REFUSED
  for (auto frames : pipeline.batches()) {
    show(frames, stream);
  }
#else
  for (auto frames : pipeline.on(stream)) {
    show(frames, stream);
  }
#endif
}
