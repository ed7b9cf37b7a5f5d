// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a mix has an order of its own, which windows\(\) would lose
#include <penstock/penstock.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/windows.hpp>

namespace ps = penstock;

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::windows(ps::mix<int>({{ps::records<int>("ints"), 1}}), {.length = 10});
#else
      ps::windows(ps::records<int>("ints"), {.length = 10});
#endif
  auto pipeline =
      ps::Reader{source} | ps::Consumer{[](ps::Batch<const ps::Window<int>, ps::Pageable>) {}};
  pipeline.run();
}
