// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: fills a batch in pageable: make that ps::Batch<Out, ps::Pinned>
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};
#ifdef PENSTOCK_REFUSED
void decode(ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pageable>) {}
#else
void decode(ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pinned>) {}
#endif
void show(ps::Batch<const Image, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::Decoder{decode, ps::to_pinned} |
                  ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}
