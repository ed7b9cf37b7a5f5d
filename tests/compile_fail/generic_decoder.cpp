// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: write them out \(no auto, no overloads\): \[\]\(ps::Batch<const In, ps::Pageable> in,
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
                      [](auto in, auto out) { out.data()[0] = in.data()[0]; }
#else
                      [](ps::Batch<const Frame, ps::Pageable> in,
                         ps::Batch<Image, ps::Pageable> out) {
                        out.data()[0].pixels[0] = in.data()[0].bytes[0];
                      }
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}
