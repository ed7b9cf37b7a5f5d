// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: npz<T>\(files, name\) reads one array of an archive
#include <penstock/formats/npz.hpp>
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::npz<float>("x.npz");
#else
      ps::npz<float>("x.npz", "prices");
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const float, ps::Pageable>) {}};
  pipeline.run();
}
