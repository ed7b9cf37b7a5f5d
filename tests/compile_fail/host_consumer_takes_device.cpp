// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: Last gives device memory and Next takes host memory: .*let a Consumer take ps::Device
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
#ifdef PENSTOCK_REFUSED
void show(ps::Batch<const Frame, ps::Pageable>) {}
#else
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}
#endif
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}
