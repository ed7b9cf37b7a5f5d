// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: gives records of one type and Next takes another
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};
#ifdef PENSTOCK_REFUSED
void decode(ps::Batch<const Image, ps::Pageable>, ps::Batch<Image, ps::Pageable>) {}
#else
void decode(ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pageable>) {}
#endif
void show(ps::Batch<const Image, ps::Pageable>) {}

int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::Decoder{decode} | ps::Consumer{show};
  pipeline.run();
}
