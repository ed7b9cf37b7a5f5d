// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Reader reads a source, such as ps::records<T>\(path\)
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  auto pipeline =
      ps::Reader{
#ifdef PENSTOCK_REFUSED
          "names"
#else
          ps::records<char>("names")
#endif
      } |
      ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  pipeline.run();
}
