// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: Next's callable takes another device's stream
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct OtherStream {};
#ifdef PENSTOCK_REFUSED
using Stream = OtherStream;
#else
using Stream = ps::HostStream;
#endif

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{[](ps::Batch<int, ps::Device>, Stream&) {}} |
                  ps::AsyncCopier{ps::to_host};
  pipeline.prepare();
}
