// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: deleted (member )?(function|constructor)
#include <penstock/cuda.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, cudaStream_t) {}

int main() {
  ps::CudaDevice gpu;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{}
#ifdef PENSTOCK_REFUSED
                  | ps::AsyncCopier{ps::CudaDevice{}}
#else
                  | ps::AsyncCopier{gpu}
#endif
                  | ps::Consumer{show};
  pipeline.run();
}
