// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: these are no KernelOptions. By name, in this order: \.streams, .*, \.extents\.
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{[](ps::Batch<int, ps::Device>, ps::HostStream&) {},
#ifdef PENSTOCK_REFUSED
                             {.stream = 2}
#else
                             {.streams = 2}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const int, ps::Device>, ps::HostStream&) {}};
  pipeline.run();
}
