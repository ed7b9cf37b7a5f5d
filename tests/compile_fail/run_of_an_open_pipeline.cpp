// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: run\(\) needs a last stage that keeps what it takes: end the pipeline with a Consumer
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} | ps::AsyncCopier{device}
#ifdef PENSTOCK_REFUSED
  ;
#else
      | ps::Consumer{show};
#endif
  pipeline.run();
}
