// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: Last gives records of one type and Next takes another
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  ps::HostDevice device;
  auto pipeline =
      ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
      ps::Kernel{
#ifdef PENSTOCK_REFUSED
          [](ps::Batch<const float, ps::Device>, ps::Batch<long, ps::Device>, ps::HostStream&) {}
#else
          [](ps::Batch<const int, ps::Device>, ps::Batch<long, ps::Device>, ps::HostStream&) {}
#endif
      } |
      ps::AsyncCopier{ps::to_host} | ps::Writer{"squares"};
  pipeline.run();
}
