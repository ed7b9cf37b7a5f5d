// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a batch lies in ps::Pageable, ps::Pinned or ps::Device
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
#ifdef PENSTOCK_REFUSED
void show(ps::Batch<const Frame, ps::HostDevice>) {}
#else
void show(ps::Batch<const Frame, ps::Pageable>) {}
#endif
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::Consumer{show};
  pipeline.run();
}
