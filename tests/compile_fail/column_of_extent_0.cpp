// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a column of extent 0 has no values: give Field<name, T, extents...> extents of 1 or more
#include <penstock/penstock.hpp>

#include <cstdint>
#include <vector>

namespace ps = penstock;

struct Sample : ps::Columns<ps::Field<"image", std::uint8_t, 4>,
#ifdef PENSTOCK_REFUSED
                            ps::Field<"label", std::int32_t, 0>
#else
                            ps::Field<"label", std::int32_t>
#endif
                            > {
};

int main() {
  const std::vector<std::uint8_t> images(40);
  const std::vector<std::int32_t> labels(10);
  auto pipeline =
      ps::Reader{ps::zip<Sample>(ps::memory(images, {.record_bytes = 4}), ps::memory(labels))} |
      ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}
