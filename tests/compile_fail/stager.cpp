// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with a PinnedStager, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Pinned>) {}

// refused stager_takes_pinned: Last gives pinned memory and Next takes pageable memory: .*leave out
// what pins
void look(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}
#ifdef PENSTOCK_REFUSED
                  | ps::PinnedStager{}
#else
#endif
                  | ps::AsyncCopier{device} | ps::Consumer{look};
  pipeline.run();
}

// refused pinned_memory_without_a_device: pinned memory is pinned for a device, and this pipeline
// has none: name it, PinnedStager\{device\}
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
                  | ps::PinnedStager{}
#else
                  | ps::PinnedStager{device}
#endif
                  | ps::Consumer{show};
  pipeline.run();
}

// refused stager_of_a_temporary_device: deleted (member )?(function|constructor)
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
                  | ps::PinnedStager{ps::HostDevice{}}
#else
                  | ps::PinnedStager{device}
#endif
                  | ps::Consumer{show};
  pipeline.run();
}

// refused misspelt_option_of_a_stager: these are no PinnedStagerOptions. By name, in this order:
// \.workers, \.depth\.
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers")} |
                  ps::PinnedStager{
#ifdef PENSTOCK_REFUSED
                      {.num_workers = 4}
#else
                      {.workers = 4}
#endif
                  } |
                  ps::AsyncCopier{device} |
                  ps::Consumer{[](ps::Batch<const int, ps::Device>, ps::HostStream&) {}};
  pipeline.run();
}
