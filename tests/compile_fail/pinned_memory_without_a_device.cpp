// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: pinned memory is pinned for a device, and this pipeline has none: name it,
// PinnedStager\{device\}
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Pinned>) {}

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
                  | ps::PinnedStager{}
#else
                  | ps::PinnedStager{device}
#endif
                  | ps::Consumer{show};
  pipeline.run();
}
