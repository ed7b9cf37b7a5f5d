// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: nothing for on\(\) to hand out: call run\(\)
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} | ps::Consumer{show};
  auto stream = device.stream();
#ifdef PENSTOCK_REFUSED
  for (auto frames : pipeline.on(stream)) {
    show(frames, stream);
  }
#else
  pipeline.run();
#endif
}
