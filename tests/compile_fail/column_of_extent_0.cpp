// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a column of extent 0 has no values: give Field<name, T, extents...> extents of 1 or more
#include <penstock/penstock.hpp>

#include <cstdint>

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
  auto pipeline = ps::Reader{ps::records<std::uint64_t>("frames")} |
                  ps::Decoder{[](ps::Batch<const std::uint64_t, ps::Pageable>,
                                 ps::Batch<Sample, ps::Pageable>) {}} |
                  ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}
