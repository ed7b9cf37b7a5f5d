// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: only reads what it takes first: make it .*ps::Row<const In>
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};
struct Sample : ps::Columns<ps::Field<"image", float, 8, 8>, ps::Field<"label", int>> {};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{[](const Frame&, ps::Row<Sample>) {}} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](ps::Row<Sample>, Image&) {}
#else
                      [](ps::Row<const Sample>, Image&) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}
