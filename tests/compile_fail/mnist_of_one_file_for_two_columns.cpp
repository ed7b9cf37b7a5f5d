// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: mnist<Schema>\(files\.\.\.\) takes the files of each column
#include <penstock/formats/mnist.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>

namespace ps = penstock;

struct Sample : ps::Columns<ps::Field<"x", float, 3>, ps::Field<"y", int>> {};

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::mnist<Sample>("x");
#else
      ps::mnist<Sample>("x", "y");
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}
