// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a FanOut copies from pinned memory, and this chain ends in other memory
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
  ps::FanOut frames{ps::Reader{ps::records<Frame>("frames")}, devices};
#else
  ps::FanOut frames{ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}, devices};
#endif
  frames.stop();
}
