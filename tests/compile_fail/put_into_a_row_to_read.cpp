// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a ps::Row<const Schema> may only be read: put into the ps::Row<Out>
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Text : ps::Columns<ps::Field<"text", ps::Ragged<char>>, ps::Field<"label", int>> {};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{[](const Frame&, ps::Row<Text> out) { ps::put<"text">(out, 0); }} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](ps::Row<const Text> in, ps::Row<Text>) { ps::put<"text">(in, 1); }
#else
                      [](ps::Row<const Text>, ps::Row<Text> out) { ps::put<"text">(out, 1); }
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Text, ps::Pageable>) {}};
  pipeline.run();
}
