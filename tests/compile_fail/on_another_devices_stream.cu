// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: this stream does not belong to the pipeline's device: pass a cudaStream_t for a
// CudaDevice
#include <penstock/cuda.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  ps::CudaDevice gpu;
  ps::HostDevice device;
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} | ps::AsyncCopier{gpu};
#ifdef PENSTOCK_REFUSED
  auto stream = device.stream();
#else
  auto stream = gpu.stream();
#endif
  for (auto frames : pipeline.on(stream)) {
    static_cast<void>(frames.data());
  }
}
