// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: one device a pipeline
#include <penstock/cuda.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  ps::CudaDevice gpu;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
                  | ps::PinnedStager{gpu}
#else
                  | ps::PinnedStager{device}
#endif
                  | ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}
