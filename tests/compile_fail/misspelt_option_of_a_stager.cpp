// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: these are no PinnedStagerOptions. By name, in this order: \.workers, \.depth\.
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers")} |
                  ps::PinnedStager{
#ifdef PENSTOCK_REFUSED
                      {.num_workers = 4}
#else
                      {.workers = 4}
#endif
                  } |
                  ps::AsyncCopier{device} |
                  ps::Consumer{[](ps::Batch<const int, ps::Device>, ps::HostStream&) {}};
  pipeline.run();
}
