// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Consumer's callable, and this one cannot be copied: std::ref\(f\) .* std::shared_ptr
#include <penstock/penstock.hpp>

#include <functional>
#include <memory>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  const auto use = [sum = std::make_unique<int>()](ps::Batch<const Frame, ps::Pageable> in) {
    *sum += in.data()[0].bytes[0];
  };
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      [sum = std::make_unique<int>()](ps::Batch<const Frame, ps::Pageable> in) {
                        *sum += in.data()[0].bytes[0];
                      }
#else
                      std::ref(use)
#endif
                  };
  pipeline.run();
}
