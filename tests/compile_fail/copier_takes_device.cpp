// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: Last gives device memory and Next takes host memory: put an AsyncCopier\{ps::to_host
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} | ps::AsyncCopier{device}
#ifdef PENSTOCK_REFUSED
                  | ps::AsyncCopier{device}
#else
#endif
                  | ps::Consumer{show};
  pipeline.run();
}
