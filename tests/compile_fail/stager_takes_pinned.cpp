// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: Last gives pinned memory and Next takes pageable memory: .*leave out what pins
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}
#ifdef PENSTOCK_REFUSED
                  | ps::PinnedStager{}
#else
#endif
                  | ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}
