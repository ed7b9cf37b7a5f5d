// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a pipeline starts with a Reader
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};
void decode(const Frame&, Image&) {}
void show(ps::Batch<const Image, ps::Pageable>) {}

int main() {
  auto pipeline =
#ifdef PENSTOCK_REFUSED
#else
      ps::Reader{ps::records<Frame>("frames")} |
#endif
      ps::Decoder{decode} | ps::Consumer{show};
  pipeline.run();
}
