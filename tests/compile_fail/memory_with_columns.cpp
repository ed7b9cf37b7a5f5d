// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: reads T's as they lie, and T has columns
#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

#include <vector>

namespace ps = penstock;
struct Sample : ps::Columns<ps::Field<"label", char>, ps::Field<"value", float>> {};

int main() {
  const std::vector<char> labels(8);
  const std::vector<float> values(8);
#ifdef PENSTOCK_REFUSED
  const std::vector<Sample> samples(8);
  auto source = ps::memory(samples);
#else
  auto source = ps::zip<Sample>(ps::memory(labels), ps::memory(values));
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}
