// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: reads T's as they lie in the files, and T has columns
#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

namespace ps = penstock;
struct Sample : ps::Columns<ps::Field<"label", char>, ps::Field<"value", float>> {};

int main() {
#ifdef PENSTOCK_REFUSED
  auto source = ps::records<Sample>("samples");
#else
  auto source = ps::zip<Sample>(ps::records<char>("labels"), ps::records<float>("values"));
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}
