// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a FanOut's devices must outlive it, and these are a temporary
#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>

#include <deque>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  std::deque<ps::HostDevice> devices(2);
#ifdef PENSTOCK_REFUSED
  ps::FanOut frames{ps::Reader{ps::records<Frame>("frames"), ps::to_pinned},
                    std::deque<ps::HostDevice>(2)};
#else
  ps::FanOut frames{ps::Reader{ps::records<Frame>("frames"), ps::to_pinned},
                    std::deque<ps::HostDevice*>{&devices[0], &devices[1]}};
#endif
  frames.stop();
}
