// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: nothing can follow Last.*put Next before it
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};
void decode(const Frame&, Image&) {}
void show(ps::Batch<const Frame, ps::Pageable>) {}
void show_image(ps::Batch<const Image, ps::Pageable>) {}

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
                  | ps::Consumer{show} | ps::Decoder{decode}
#else
                  | ps::Decoder{decode} | ps::Consumer{show_image}
#endif
  ;
  pipeline.run();
}
