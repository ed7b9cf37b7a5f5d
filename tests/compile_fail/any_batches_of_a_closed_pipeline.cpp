// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: AnyBatches<B> is made of an open pipeline that gives B
#include <penstock/penstock.hpp>

#include <utility>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{[](const Frame& in, Frame& out) { out = in; }}
#ifdef PENSTOCK_REFUSED
                  | ps::Consumer{[](ps::Batch<const Frame, ps::Pageable>) {}}
#endif
  ;
  ps::AnyBatches<ps::Batch<const Frame, ps::Pageable>> frames{std::move(pipeline)};
  frames.prepare();
}
