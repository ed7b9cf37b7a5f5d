// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Consumer's callable takes a device batch and the stream, or one host batch
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::Consumer{
#ifdef PENSTOCK_REFUSED
                                                                 [](const Frame&) {}
#else
                                                                 [](ps::Batch<const Frame,
                                                                              ps::Pageable>) {}
#endif
                                                             };
  pipeline.run();
}
