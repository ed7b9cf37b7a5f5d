// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: pictures are decoded into host memory
#include <penstock/formats/jpeg.hpp>
#include <penstock/penstock.hpp>

namespace ps = penstock;

#ifdef PENSTOCK_REFUSED
using Where = ps::Device;
#else
using Where = ps::Pageable;
#endif

int main() {
  auto stage = ps::jpeg<3, 8, 8, Where>();
  static_cast<void>(stage);
}
