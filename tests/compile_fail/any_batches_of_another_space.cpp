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
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} | ps::AsyncCopier{device};
#ifdef PENSTOCK_REFUSED
  ps::AnyBatches<ps::Batch<const Frame, ps::Pinned>> frames{std::move(pipeline), stream};
#else
  ps::AnyBatches<ps::Batch<const Frame, ps::Device>> frames{std::move(pipeline), stream};
#endif
  frames.prepare();
}
