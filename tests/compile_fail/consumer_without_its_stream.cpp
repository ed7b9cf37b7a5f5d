// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: takes a device batch and the stream.*cudaStream_t stream\)
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
                      [](ps::Batch<const Frame, ps::Device>) {}
#else
                      [](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}
#endif
                  };
  pipeline.run();
}
