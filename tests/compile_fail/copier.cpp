// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with an AsyncCopier, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

// refused copier_takes_pageable: Last gives pageable memory and Next takes pinned memory: put a
// PinnedStager\{\} between
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
#else
                  | ps::PinnedStager{}
#endif
                  | ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}

// refused copier_takes_device: Last gives device memory and Next takes host memory: put an
// AsyncCopier\{ps::to_host
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} | ps::AsyncCopier{device}
#ifdef PENSTOCK_REFUSED
                  | ps::AsyncCopier{device}
#else
#endif
                  | ps::Consumer{show};
  pipeline.run();
}

// refused copier_of_no_device: an AsyncCopier copies to a device
int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{}
#ifdef PENSTOCK_REFUSED
                  | ps::AsyncCopier{stream}
#else
                  | ps::AsyncCopier{device}
#endif
                  | ps::Consumer{show};
  pipeline.run();
}

// refused copier_of_a_temporary_device: deleted (member )?(function|constructor)
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{}
#ifdef PENSTOCK_REFUSED
                  | ps::AsyncCopier{ps::HostDevice{}}
#else
                  | ps::AsyncCopier{device}
#endif
                  | ps::Consumer{show};
  pipeline.run();
}

// refused pinned_back_to_the_host: Last gives pinned memory and Next takes device memory: put an
// AsyncCopier\{device\}
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} |
#ifndef PENSTOCK_REFUSED
                  ps::AsyncCopier{device} |
#endif
                  ps::AsyncCopier{ps::to_host};
  pipeline.prepare();
}

// refused ragged_columns_back_to_the_host: Last gives columns of ps::Ragged, and Next copies to the
// host, which does not know how long they have become: let a Kernel fill columns of fixed extents
struct Text : ps::Columns<ps::Field<"text", ps::Ragged<char>>> {};
struct Word : ps::Columns<ps::Field<"text", char, 16>> {};

int main() {
  ps::HostDevice device;
  auto texts = [](ps::Batch<const int, ps::Pinned>, ps::Batch<Text, ps::Pinned>) {};
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::Decoder{texts} |
                  ps::AsyncCopier{device} |
#ifndef PENSTOCK_REFUSED
                  ps::Kernel{[](ps::Batch<const Text, ps::Device>, ps::Batch<Word, ps::Device>,
                                ps::HostStream&) {}} |
#endif
                  ps::AsyncCopier{ps::to_host};
  pipeline.prepare();
}

// refused misspelt_option_of_a_copier: these are no CopierOptions. By name, in this order: \.batch,
// \.depth\.
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} |
                  ps::AsyncCopier{device,
#ifdef PENSTOCK_REFUSED
                                  {.batch_size = 256}
#else
                                  {.batch = 256}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const int, ps::Device>, ps::HostStream&) {}};
  pipeline.run();
}
