// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Reader takes nothing, so it can only stand first
#include <penstock/penstock.hpp>

#include <utility>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
#ifdef PENSTOCK_REFUSED
  auto copied = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} | ps::AsyncCopier{device};
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | std::move(copied) | ps::Consumer{show};
#else
  auto copied = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} | ps::AsyncCopier{device};
  auto pipeline = std::move(copied) | ps::Consumer{show};
#endif
  pipeline.run();
}
