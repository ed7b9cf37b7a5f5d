// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: this pipeline is a temporary and would be gone before the loop starts: give it a name
// first
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
#ifdef PENSTOCK_REFUSED
  for (auto frames :
       (ps::Reader{ps::records<Frame>("frames")} | ps::Decoder{[](const Frame&, Frame&) {
        }}).batches()) {
    static_cast<void>(frames.data());
  }
#else
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::Decoder{[](const Frame&, Frame&) {}};
  for (auto frames : pipeline.batches()) {
    static_cast<void>(frames.data());
  }
#endif
}
