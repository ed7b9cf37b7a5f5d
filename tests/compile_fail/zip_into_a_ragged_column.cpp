// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: zip\(\) cannot fill a Ragged column: write a source
#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

namespace ps = penstock;

struct Pair : ps::Columns<ps::Field<"left", char>,
#ifdef PENSTOCK_REFUSED
                          ps::Field<"right", ps::Ragged<char>>
#else
                          ps::Field<"right", char>
#endif
                          > {
};

int main() {
  auto pipeline = ps::Reader{ps::zip<Pair>(ps::records<char>("left"), ps::records<char>("right"))} |
                  ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}
