// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: what a Decoder fills must be trivially copyable: no std::string
#include <penstock/penstock.hpp>

#include <string>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, std::string&) {}
#else
                      [](const Frame&, char&) {}
#endif
                  } |
                  ps::PinnedStager{};
  static_cast<void>(pipeline);
}
