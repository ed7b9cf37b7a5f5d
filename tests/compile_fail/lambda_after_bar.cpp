// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: what stands right of \| is not a stage: wrap a callable in a Decoder or a Consumer
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
                  | [](ps::Batch<const Frame, ps::Pageable>) {};
#else
                  | ps::Consumer{[](ps::Batch<const Frame, ps::Pageable>) {}};
#endif
  pipeline.run();
}
