// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a FanOut takes a chain, a range of devices of one kind, or of pointers to them
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
  const std::deque<int> numbers{0, 1};
  ps::FanOut frames{ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}, numbers};
#else
  ps::FanOut frames{ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}, devices};
#endif
  frames.stop();
}
