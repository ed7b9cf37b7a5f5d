// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Consumer's callable, and this one cannot be copied: std::ref\(f\) .* ps::each_worker\(
#include <penstock/penstock.hpp>

#include <memory>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      [sum = std::make_unique<int>()](ps::Batch<const Frame, ps::Pageable> in) {
                        *sum += in.data()[0].bytes[0];
                      }
#else
                      ps::each_worker([] {
                        return [sum = std::make_unique<int>()](
                                   ps::Batch<const Frame, ps::Pageable> in) {
                          *sum += in.data()[0].bytes[0];
                        };
                      })
#endif
                  };
  pipeline.run();
}
