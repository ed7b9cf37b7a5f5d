// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Decoder's callable, and this one cannot be copied: std::ref\(f\) .* std::shared_ptr
#include <penstock/penstock.hpp>

#include <memory>
#include <utility>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};

int main() {
#ifdef PENSTOCK_REFUSED
  auto scale = std::make_unique<float>(2.0F);
#else
  auto scale = std::make_shared<float>(2.0F);
#endif
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{[scale = std::move(scale)](const Frame& in, Image& out) {
                    out.pixels[0] = *scale * in.bytes[0];
                  }} |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}
