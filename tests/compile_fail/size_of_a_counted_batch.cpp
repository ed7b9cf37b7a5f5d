// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: only the device knows how many records a counted batch has
#include <penstock/penstock.hpp>

namespace ps = penstock;

std::size_t room(ps::Batch<const ps::Counted<int>, ps::Device> some) {
#ifdef PENSTOCK_REFUSED
  return some.size();
#else
  return some.capacity();
#endif
}
int main() {
  return room({}) == 0 ? 0 : 1;
}
