// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: no column of this row has that name: see Spelled, and the names that Schema has
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
                      [](const Frame&, ps::Row<Sample> out) { ps::get<"lable">(out) = 1; }
#else
                      [](const Frame&, ps::Row<Sample> out) { ps::get<"label">(out) = 1; }
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}
