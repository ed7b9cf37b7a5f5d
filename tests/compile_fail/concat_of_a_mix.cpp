// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a mix has no first or last records: call concat\(\) of its parts
#include <penstock/penstock.hpp>
#include <penstock/sources/concat.hpp>
#include <penstock/sources/mix.hpp>

namespace ps = penstock;

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::concat(ps::records<int>("ints"), ps::mix<int>({{ps::records<int>("ints"), 1}}));
#else
      ps::concat(ps::records<int>("ints"), ps::records<int>("ints"));
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
