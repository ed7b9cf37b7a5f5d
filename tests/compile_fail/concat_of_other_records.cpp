// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: concat\(a, b, \.\.\.\) joins sources of one schema
#include <penstock/penstock.hpp>
#include <penstock/sources/concat.hpp>

namespace ps = penstock;

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::concat(ps::records<int>("ints"), ps::records<float>("floats"));
#else
      ps::concat(ps::records<int>("ints"), ps::records<int>("more"));
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
