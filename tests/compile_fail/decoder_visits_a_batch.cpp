// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Decoder's callable of batches has two parameters: in\.index\(\)
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};

int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} |
      ps::Decoder{
#ifdef PENSTOCK_REFUSED
          [](ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pageable>, ps::Visit) {}
#else
          [](const Frame&, Image&, ps::Visit) {}
#endif
      } |
      ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}
