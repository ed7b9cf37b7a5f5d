// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: Last gives device memory and Next takes host memory: put an AsyncCopier\{ps::to_host\}
// between them
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
#ifndef PENSTOCK_REFUSED
                  ps::AsyncCopier{ps::to_host} |
#endif
                  ps::Writer{"copy"};
  pipeline.run();
}
