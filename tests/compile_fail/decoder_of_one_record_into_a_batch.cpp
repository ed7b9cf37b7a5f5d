// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: makes one record of each: take two records, .* or two batches
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, ps::Batch<Image, ps::Pageable>) {}
#else
                      [](const Frame&, Image&) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}
