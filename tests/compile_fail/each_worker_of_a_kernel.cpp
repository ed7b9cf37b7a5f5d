// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Kernel's callable takes a device batch to read, one to fill, and the stream
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  ps::HostDevice device;
  const auto copy = [](ps::Batch<const Frame, ps::Device>, ps::Batch<Frame, ps::Device>,
                       ps::HostStream&) {};
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} |
                  ps::AsyncCopier{device} |
                  ps::Kernel{
#ifdef PENSTOCK_REFUSED
                      ps::each_worker([copy] { return copy; })
#else
                      copy
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}};
  pipeline.run();
}
