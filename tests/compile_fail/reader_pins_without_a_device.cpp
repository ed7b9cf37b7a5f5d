// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: pinned memory is pinned for a device, and this pipeline has none: .*add an
// AsyncCopier\{device\}, or leave out what pins
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
#ifdef PENSTOCK_REFUSED
void show(ps::Batch<const Frame, ps::Pinned>) {}
#else
void show(ps::Batch<const Frame, ps::Pageable>) {}
#endif
int main() {
  auto pipeline =
#ifdef PENSTOCK_REFUSED
      ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}
#else
      ps::Reader{ps::records<Frame>("frames")}
#endif
      | ps::Consumer{show};
  pipeline.run();
}
