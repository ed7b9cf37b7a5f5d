// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Reader reads a source, such as ps::records<T>\(path\)
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  ps::HostDevice device;
  auto pipeline =
      ps::Reader{
#ifdef PENSTOCK_REFUSED
          "names"
#else
          ps::records<char>("names")
#endif
          ,
          ps::to_pinned} |
      ps::AsyncCopier{device} |
      ps::Consumer{[](ps::Batch<const char, ps::Device>, ps::HostStream&) {}};
  pipeline.run();
}
