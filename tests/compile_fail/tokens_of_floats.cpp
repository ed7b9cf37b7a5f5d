// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: tokens<T>\(paths\) reads whole numbers
#include <penstock/formats/tokens.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>

namespace ps = penstock;

#ifdef PENSTOCK_REFUSED
using T = float;
#else
using T = std::uint16_t;
#endif

int main() {
  auto pipeline =
      ps::Reader{ps::tokens<T>("file")} | ps::Consumer{[](ps::Batch<const T, ps::Pageable>) {}};
  pipeline.run();
}
