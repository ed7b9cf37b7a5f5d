// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: out of a noexcept callable that ends the process: take the noexcept away
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  auto pipeline = ps::Reader{ps::records<int>("numbers")} |
                  ps::Decoder{[](const int& in, ps::Output<int>& out)
#ifdef PENSTOCK_REFUSED
                                  noexcept
#endif
                              { out.push(in); }} |
                  ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
