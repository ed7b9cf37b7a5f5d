// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: another device's stream: take a cudaStream_t on a CudaDevice, a HostStream& on a
// HostDevice
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<const Frame, ps::Device>, int*) {}
#else
                      [](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}
#endif
                  };
  pipeline.run();
}
