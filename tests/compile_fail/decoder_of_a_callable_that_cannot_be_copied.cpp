// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Decoder's callable, and this one cannot be copied: ps::each_worker\(
#include <penstock/penstock.hpp>

#include <memory>

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
                      [scale = std::make_unique<float>(2.0F)](const Frame& in, Image& out) {
                        out.pixels[0] = *scale * in.bytes[0];
                      }
#else
                      ps::each_worker([] {
                        return
                            [scale = std::make_unique<float>(2.0F)](const Frame& in, Image& out) {
                              out.pixels[0] = *scale * in.bytes[0];
                            };
                      })
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}
