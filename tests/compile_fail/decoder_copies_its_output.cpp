// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: fills the one Output that it is handed: take it as ps::Output<Out>& out
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
                      [](const Frame&, const ps::Output<Image>&) {}
#else
                      [](const Frame&, ps::Output<Image>& out) { out.add(); }
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}
