// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: this pipeline ends in host memory, so its batches need no stream
#include <penstock/penstock.hpp>

#include <utility>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{device};
#ifdef PENSTOCK_REFUSED
  ps::AnyBatches<ps::Batch<const Frame, ps::Pinned>> frames{std::move(pipeline), stream};
#else
  static_cast<void>(stream);
  ps::AnyBatches<ps::Batch<const Frame, ps::Pinned>> frames{std::move(pipeline)};
#endif
  frames.prepare();
}
