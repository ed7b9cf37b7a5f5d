// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a replayed callable takes a frozen device batch
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} |
                  ps::Consumer{ps::replayed(
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}
#else
                      [](ps::FrozenBatch<const Frame>, ps::HostStream&) {}
#endif
                      )};
  pipeline.run();
}
