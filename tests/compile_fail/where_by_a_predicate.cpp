// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: where\(source, numbers\) takes the numbers of the records
#include <penstock/penstock.hpp>
#include <penstock/sources/where.hpp>

namespace ps = penstock;

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::where(ps::records<int>("ints"), [](int i) { return i > 3; });
#else
      ps::where(ps::records<int>("ints"), {4, 5});
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
