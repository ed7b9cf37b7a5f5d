// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: mix\(\{\{a, 7\}, \{b, 3\}\}\) does not know what the records are
#include <penstock/penstock.hpp>
#include <penstock/sources/mix.hpp>

#include <vector>

namespace ps = penstock;

int main() {
  const std::vector<int> more(9);
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::mix({{ps::records<int>("ints"), 7}, {ps::memory(more), 3}});
#else
      ps::mix<int>({{ps::records<int>("ints"), 7}, {ps::memory(more), 3}});
#endif
  source.open();
}
