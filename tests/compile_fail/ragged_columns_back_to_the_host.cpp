// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: Last gives columns of ps::Ragged, and Next copies to the host, which does not know how
// long they have become: let a Kernel fill columns of fixed extents
#include <penstock/penstock.hpp>

namespace ps = penstock;

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
