// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: put\(\) is for a Ragged column, .* write to ps::get<
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Text : ps::Columns<ps::Field<"text", ps::Ragged<char>>, ps::Field<"label", int>> {};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, ps::Row<Text> out) { ps::put<"label">(out, 1); }
#else
                      [](const Frame&, ps::Row<Text> out) { ps::put<"text">(out, 1); }
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Text, ps::Pageable>) {}};
  pipeline.run();
}
