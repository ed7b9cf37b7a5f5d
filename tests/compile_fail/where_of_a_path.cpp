// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: where\(source, numbers\) is of a source
#include <penstock/penstock.hpp>
#include <penstock/sources/where.hpp>

namespace ps = penstock;

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::where("ints", {1, 2});
#else
      ps::where(ps::records<int>("ints"), {1, 2});
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
