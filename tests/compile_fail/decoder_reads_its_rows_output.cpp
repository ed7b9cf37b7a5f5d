// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: fills what it takes second: make it .*ps::Row<Out>
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Sample : ps::Columns<ps::Field<"image", float, 8, 8>, ps::Field<"label", int>> {};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, ps::Row<const Sample>) {}
#else
                      [](const Frame&, ps::Row<Sample>) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}
