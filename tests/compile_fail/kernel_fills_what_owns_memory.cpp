// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: what a Kernel fills must be trivially copyable
#include <penstock/penstock.hpp>

#include <string>

namespace ps = penstock;

struct Named {
#ifdef PENSTOCK_REFUSED
  std::string name;
#else
  char name[8];
#endif
};

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{[](ps::Batch<const int, ps::Device>, ps::Batch<Named, ps::Device>,
                                ps::HostStream&) {}} |
                  ps::AsyncCopier{ps::to_host};
  pipeline.prepare();
}
