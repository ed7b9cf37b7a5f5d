// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: an AnySource, also in a Share of a mix, holds a source of its Schema
#include <penstock/penstock.hpp>
#include <penstock/sources/mix.hpp>

namespace ps = penstock;

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::mix<int>({{ps::records<int>("ints"), 7}, {ps::records<float>("floats"), 3}});
#else
      ps::mix<int>({{ps::records<int>("ints"), 7}, {ps::records<int>("ints"), 3}});
#endif
  source.open();
}
