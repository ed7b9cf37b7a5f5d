// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a mix has no first or last records: take or drop of its parts
#include <penstock/penstock.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/slice.hpp>

namespace ps = penstock;

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::drop(ps::mix<int>({{ps::records<int>("ints"), 1}}), 100);
#else
      ps::drop(ps::records<int>("ints"), 100);
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
