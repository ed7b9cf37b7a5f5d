// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: an AnySource, also in a Share of a mix, holds a source, such
#include <penstock/penstock.hpp>
#include <penstock/sources/mix.hpp>

namespace ps = penstock;

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::mix<int>({{ps::records<int>("ints"), 7}, {"more", 3}});
#else
      ps::mix<int>({{ps::records<int>("ints"), 7}, {ps::records<int>("more"), 3}});
#endif
  source.open();
}
