// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: gives records of one type and Next takes another
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Sample : ps::Columns<ps::Field<"image", float, 8, 8>, ps::Field<"label", int>> {};
struct Other : ps::Columns<ps::Field<"picture", float, 8, 8>, ps::Field<"label", int>> {};
void decode(ps::Batch<const Frame, ps::Pageable>, ps::Batch<Sample, ps::Pageable>) {}
#ifdef PENSTOCK_REFUSED
void show(ps::Batch<const Other, ps::Pageable>) {}
#else
void show(ps::Batch<const Sample, ps::Pageable>) {}
#endif
int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::Decoder{decode} | ps::Consumer{show};
  pipeline.run();
}
