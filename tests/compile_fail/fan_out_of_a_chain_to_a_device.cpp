// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: this chain is on a device already: leave out its AsyncCopier
#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>

#include <deque>
#include <utility>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

int main() {
  std::deque<ps::HostDevice> devices(2);
  auto chain = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}
#ifdef PENSTOCK_REFUSED
               | ps::AsyncCopier{devices[0]}
#endif
  ;
  ps::FanOut frames{std::move(chain), devices};
  frames.stop();
}
