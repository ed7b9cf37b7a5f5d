// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: files of arrays hold numbers
#include <penstock/formats/npy.hpp>
#include <penstock/penstock.hpp>

#include <cstddef>

namespace ps = penstock;

#ifdef PENSTOCK_REFUSED
struct T {
  float x, y;
};
#else
using T = std::byte;
#endif

int main() {
  auto pipeline =
      ps::Reader{ps::npy<T>("file")} | ps::Consumer{[](ps::Batch<const T, ps::Pageable>) {}};
  pipeline.run();
}
