// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: device batches have one worker, .* give the Consumer the callable
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  ps::HostDevice device;
  const auto use = [](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {};
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} |
                  ps::AsyncCopier{device} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      ps::each_worker([use] { return use; })
#else
                      use
#endif
                  };
  pipeline.run();
}
