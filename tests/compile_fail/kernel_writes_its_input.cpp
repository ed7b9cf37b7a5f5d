// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Kernel only reads the first of two batches: make it ps::Batch<const In, ps::Device>
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  ps::HostDevice device;
  auto pipeline =
      ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
      ps::Kernel{
#ifdef PENSTOCK_REFUSED
          [](ps::Batch<int, ps::Device>, ps::Batch<long, ps::Device>, ps::HostStream&) {}
#else
          [](ps::Batch<const int, ps::Device>, ps::Batch<long, ps::Device>, ps::HostStream&) {}
#endif
      } |
      ps::AsyncCopier{ps::to_host} | ps::Writer{"squares"};
  pipeline.run();
}
