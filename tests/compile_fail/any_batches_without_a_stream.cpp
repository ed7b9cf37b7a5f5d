// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: this pipeline ends on a device, so its batches come on a stream
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
  ps::AnyBatches<ps::Batch<const Frame, ps::Device>> frames{std::move(pipeline)};
#else
  ps::AnyBatches<ps::Batch<const Frame, ps::Device>> frames{std::move(pipeline), stream};
#endif
  frames.prepare();
}
