// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: Last gives device memory and Next takes host memory: put an AsyncCopier\{ps::to_host
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};
void decode(const Frame&, Image&) {}
void show(ps::Batch<const Image, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}
#ifdef PENSTOCK_REFUSED
                  | ps::AsyncCopier{device} | ps::Decoder{decode}
#else
                  | ps::Decoder{decode, ps::to_pinned} | ps::AsyncCopier{device}
#endif
                  | ps::Consumer{show};
  pipeline.run();
}
