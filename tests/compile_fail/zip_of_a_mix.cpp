// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a mix has an order of its own, which zip\(\) would lose
#include <penstock/penstock.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/zip.hpp>

namespace ps = penstock;

struct Pair : ps::Columns<ps::Field<"left", int>, ps::Field<"right", int>> {};

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::zip<Pair>(ps::records<int>("ints"), ps::mix<int>({{ps::records<int>("ints"), 1}}));
#else
      ps::zip<Pair>(ps::records<int>("ints"), ps::records<int>("ints"));
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}
