// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: this pipeline is a temporary and would be gone before the loop starts: give it a name
// first
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto stream = device.stream();
#ifdef PENSTOCK_REFUSED
  for (auto frames :
       (ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} | ps::AsyncCopier{device})
           .on(stream)) {
    show(frames, stream);
  }
#else
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} | ps::AsyncCopier{device};
  for (auto frames : pipeline.on(stream)) {
    show(frames, stream);
  }
#endif
}
