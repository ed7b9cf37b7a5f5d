// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: fills what it takes second: make it ps::Batch<Out
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
          [](ps::Batch<const Frame, ps::Pageable>, ps::Batch<const Image, ps::Pageable>) {}
#else
          [](ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pageable>) {}
#endif
      } |
      ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}
