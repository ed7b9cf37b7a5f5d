// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with a FanOut, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>

#include <deque>
#include <utility>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

// refused fan_out_of_a_closed_chain: a FanOut takes what begins with a Reader and has no last stage
int main() {
  std::deque<ps::HostDevice> devices(2);
  auto chain = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}
#ifdef PENSTOCK_REFUSED
               | ps::Consumer{[](ps::Batch<const Frame, ps::Pinned>) {}}
#endif
  ;
  ps::FanOut frames{std::move(chain), devices};
  frames.stop();
}

// refused fan_out_of_a_chain_to_a_device: this chain is on a device already: leave out its
// AsyncCopier
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

// refused fan_out_of_a_pageable_chain: a FanOut copies from pinned memory, and this chain ends in
// other memory
int main() {
  std::deque<ps::HostDevice> devices(2);
#ifdef PENSTOCK_REFUSED
  ps::FanOut frames{ps::Reader{ps::records<Frame>("frames")}, devices};
#else
  ps::FanOut frames{ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}, devices};
#endif
  frames.stop();
}

// refused fan_out_of_no_devices: a FanOut takes a chain, a range of devices of one kind, or of
// pointers to them
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

// refused fan_out_of_temporary_devices: a FanOut's devices must outlive it, and these are a
// temporary
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

// refused fan_out_on_another_stream: this stream does not belong to the FanOut's devices
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

// refused misspelt_option_of_a_fan_out: a FanOut takes a chain, .* by name in this order: \.batch,
// \.depth\.
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
