// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: zip<Schema> fills the columns of a schema: derive it from ps::Columns
#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

namespace ps = penstock;
#ifdef PENSTOCK_REFUSED
struct Pair {
  char left, right;
};
#else
struct Pair : ps::Columns<ps::Field<"left", char>, ps::Field<"right", char>> {};
#endif
int main() {
  auto pipeline = ps::Reader{ps::zip<Pair>(ps::records<char>("left"), ps::records<char>("right"))} |
                  ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}
