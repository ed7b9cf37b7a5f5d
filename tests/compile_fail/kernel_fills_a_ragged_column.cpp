// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: only a GPU would know how long the records of a Ragged column are: let a Kernel fill
// columns of fixed extents
#include <penstock/penstock.hpp>

namespace ps = penstock;

#ifdef PENSTOCK_REFUSED
struct Word : ps::Columns<ps::Field<"text", ps::Ragged<char>>> {};
#else
struct Word : ps::Columns<ps::Field<"text", char, 16>> {};
#endif

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{[](ps::Batch<const int, ps::Device>, ps::Batch<Word, ps::Device>,
                                ps::HostStream&) {}} |
                  ps::AsyncCopier{ps::to_host};
  pipeline.prepare();
}
