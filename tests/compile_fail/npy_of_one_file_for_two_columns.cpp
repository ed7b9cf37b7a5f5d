// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: npy<Schema>\(files\.\.\.\) takes the files of each column
#include <penstock/formats/npy.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>

namespace ps = penstock;

struct Sample : ps::Columns<ps::Field<"x", float, 3>, ps::Field<"y", int>> {};

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::npy<Sample>("x.npy");
#else
      ps::npy<Sample>("x.npy", "y.npy");
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}
