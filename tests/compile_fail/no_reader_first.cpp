// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a pipeline starts with a Reader.*write ps::Reader\{source\} \|
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto pipeline =
#ifdef PENSTOCK_REFUSED
#else
      ps::Reader{ps::records<Frame>("frames")} |
#endif
      ps::PinnedStager{} | ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}
