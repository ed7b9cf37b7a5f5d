// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: zip<Schema>\(sources\.\.\.\) reads each column from a source, such as
// ps::records<T>\(path\)
#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

namespace ps = penstock;

struct Pair : ps::Columns<ps::Field<"left", char>, ps::Field<"right", char>> {};

int main() {
  auto pipeline =
      ps::Reader{
#ifdef PENSTOCK_REFUSED
          ps::zip<Pair>(ps::records<char>("left"), "right")
#else
          ps::zip<Pair>(ps::records<char>("left"), ps::records<char>("right"))
#endif
      } |
      ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}
