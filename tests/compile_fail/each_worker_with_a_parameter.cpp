// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: ps::each_worker\(make\) calls make\(\) without arguments, and gets a callable by value
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
                      ps::each_worker([](int) { return [](const Frame&, Image&) {}; })
#else
                      ps::each_worker([] { return [](const Frame&, Image&) {}; })
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}
