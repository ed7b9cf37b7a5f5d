// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: nothing for batches\(\) to hand out: call run\(\)
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Pageable>) {}

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::Consumer{show};
#ifdef PENSTOCK_REFUSED
  for (auto frames : pipeline.batches()) {
    show(frames);
  }
#else
  pipeline.run();
#endif
}
