// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: this stream does not belong to the FanOut's devices
#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>

#include <deque>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  std::deque<ps::HostDevice> devices(2);
  ps::FanOut frames{ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}, devices};
#ifdef PENSTOCK_REFUSED
  float stream = 0;
#else
  auto stream = devices[1].stream();
#endif
  for (auto batch : frames.on(1, stream)) {
    static_cast<void>(batch.size());
  }
}
