// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: an AsyncCopier copies to a device
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{}
#ifdef PENSTOCK_REFUSED
                  | ps::AsyncCopier{stream}
#else
                  | ps::AsyncCopier{device}
#endif
                  | ps::Consumer{show};
  pipeline.run();
}
