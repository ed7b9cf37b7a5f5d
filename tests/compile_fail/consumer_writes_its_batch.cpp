// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Consumer only reads its batch: make it ps::Batch<const In
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::Consumer{
#ifdef PENSTOCK_REFUSED
                                                     [](ps::Batch<Frame, ps::Pageable>) {}
#else
                                                     [](ps::Batch<const Frame, ps::Pageable>) {}
#endif
                                                 };
  pipeline.run();
}
