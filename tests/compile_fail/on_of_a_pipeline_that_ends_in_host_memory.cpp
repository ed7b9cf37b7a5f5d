// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: ends in host memory: add an AsyncCopier\{device\}, or walk it by batches\(\)
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
                  | ps::PinnedStager{};
#else
                  | ps::PinnedStager{} | ps::AsyncCopier{device};
#endif
  for (auto frames : pipeline.on(stream)) {
    show(frames, stream);
  }
}
