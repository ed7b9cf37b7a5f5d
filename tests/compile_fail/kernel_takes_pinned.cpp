// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: Last gives pinned memory and Next takes device memory: put an AsyncCopier\{device\}
// between them
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} |
#ifndef PENSTOCK_REFUSED
                  ps::AsyncCopier{device} |
#endif
                  ps::Kernel{[](ps::Batch<int, ps::Device>, ps::HostStream&) {}};
  pipeline.prepare();
}
