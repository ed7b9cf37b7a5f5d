// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: an AnySource, also in a Share of a mix, holds a source of its Schema
#include <penstock/penstock.hpp>
#include <penstock/sources/any_source.hpp>

namespace ps = penstock;

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::AnySource<int>{ps::records<float>("floats")};
#else
      ps::AnySource<int>{ps::records<int>("ints")};
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
