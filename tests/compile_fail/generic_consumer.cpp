// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: write them out \(no auto, no overloads\): \[\]\(ps::Batch<const In, ps::Device> in,
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::Consumer{
#ifdef PENSTOCK_REFUSED
                                                     [](auto frames) { return frames.size(); }
#else
                                                     [](ps::Batch<const Frame, ps::Pageable>
                                                            frames) { return frames.size(); }
#endif
                                                 };
  pipeline.run();
}
