// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a FanOut takes a chain, .* by name in this order: \.batch, \.depth\.
#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>

#include <deque>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  std::deque<ps::HostDevice> devices(2);
  ps::FanOut frames{ps::Reader{ps::records<Frame>("frames"), ps::to_pinned},
                    devices,
#ifdef PENSTOCK_REFUSED
                    {.batch_size = 256}
#else
                    {.batch = 256}
#endif
  };
  frames.stop();
}
