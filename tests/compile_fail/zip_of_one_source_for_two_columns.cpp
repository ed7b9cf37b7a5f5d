// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: takes one source for each column of the schema
#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

namespace ps = penstock;

struct Pair : ps::Columns<ps::Field<"left", char>, ps::Field<"right", char>> {};

int main() {
  auto pipeline =
      ps::Reader{
#ifdef PENSTOCK_REFUSED
          ps::zip<Pair>(ps::records<char>("left"))
#else
          ps::zip<Pair>(ps::records<char>("left"), ps::records<char>("right"))
#endif
      } |
      ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}
