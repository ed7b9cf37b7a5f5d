// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: Last gives pageable memory and Next takes pinned memory: put a PinnedStager\{\} between
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
#else
                  | ps::PinnedStager{}
#endif
                  | ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}
