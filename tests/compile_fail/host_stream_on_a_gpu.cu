// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: another device's stream: take a cudaStream_t on a CudaDevice
#include <penstock/cuda.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  ps::CudaDevice gpu;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{gpu} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}
#else
                      [](ps::Batch<const Frame, ps::Device>, cudaStream_t) {}
#endif
                  };
  pipeline.run();
}
