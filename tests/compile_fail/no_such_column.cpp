// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: no column of this batch has that name: see Spelled
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Sample : ps::Columns<ps::Field<"image", float, 8, 8>, ps::Field<"label", int>> {};
int first_label(ps::Batch<const Sample, ps::Pageable> samples) {
#ifdef PENSTOCK_REFUSED
  return ps::get<"lable">(samples)[0];
#else
  return ps::get<"label">(samples)[0];
#endif
}

int main() {
  return first_label({});
}
