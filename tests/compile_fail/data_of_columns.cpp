// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a batch of columns has no bytes of its own: ask for one column,
// get<\\?"name\\?">\(batch\)
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Sample : ps::Columns<ps::Field<"image", float, 8, 8>, ps::Field<"label", int>> {};
const float* images(ps::Batch<const Sample, ps::Pageable> samples) {
#ifdef PENSTOCK_REFUSED
  return samples.data();
#else
  return ps::get<"image">(samples).data();
#endif
}

int main() {
  return images({}) != nullptr;
}
