// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: this stream does not belong to the pipeline's device
#include <penstock/penstock.hpp>

#include <utility>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  ps::HostDevice device;
#ifdef PENSTOCK_REFUSED
  int stream = 0;
#else
  auto stream = device.stream();
#endif
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} | ps::AsyncCopier{device};
  ps::AnyBatches<ps::Batch<const Frame, ps::Device>> frames{std::move(pipeline), stream};
  frames.prepare();
}
