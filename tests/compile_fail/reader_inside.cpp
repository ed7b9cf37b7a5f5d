// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Reader takes nothing, so it can only stand first: .*zip
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
                  | ps::Reader{ps::records<Frame>("frames")}
#else
#endif
                  | ps::PinnedStager{} | ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}
