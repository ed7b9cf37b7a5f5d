// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: deleted (member )?(function|constructor)
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{}
#ifdef PENSTOCK_REFUSED
                  | ps::AsyncCopier{ps::HostDevice{}}
#else
                  | ps::AsyncCopier{device}
#endif
                  | ps::Consumer{show};
  pipeline.run();
}
