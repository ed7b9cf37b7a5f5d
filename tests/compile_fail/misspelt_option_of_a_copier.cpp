// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: these are no CopierOptions. By name, in this order: \.batch, \.depth\.
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} |
                  ps::AsyncCopier{device,
#ifdef PENSTOCK_REFUSED
                                  {.batch_size = 256}
#else
                                  {.batch = 256}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const int, ps::Device>, ps::HostStream&) {}};
  pipeline.run();
}
