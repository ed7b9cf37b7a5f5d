// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: the records of a mix come in an order of its own: call where\(\) of its parts
#include <penstock/penstock.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/where.hpp>

namespace ps = penstock;

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::where(ps::mix<int>({{ps::records<int>("ints"), 1}}), {1, 2});
#else
      ps::where(ps::records<int>("ints"), {1, 2});
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
