// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: take\(source, n\) and drop\(source, n\) are of a source
#include <penstock/penstock.hpp>
#include <penstock/sources/slice.hpp>

namespace ps = penstock;

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::take("ints", 100);
#else
      ps::take(ps::records<int>("ints"), 100);
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
