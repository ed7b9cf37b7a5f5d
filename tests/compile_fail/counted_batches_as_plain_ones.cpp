// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: of what Last gives only the device knows how many records there are
#include <penstock/penstock.hpp>

namespace ps = penstock;

void keep(ps::Batch<const int, ps::Device>, ps::Batch<ps::Counted<int>, ps::Device>,
          ps::HostStream&) {}
#ifdef PENSTOCK_REFUSED
void show(ps::Batch<const int, ps::Device>, ps::HostStream&) {}
#else
void show(ps::Batch<const ps::Counted<int>, ps::Device>, ps::HostStream&) {}
#endif
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{keep} | ps::Consumer{show};
  pipeline.run();
}
