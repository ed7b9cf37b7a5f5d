// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: no mutable lambda
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ps = penstock;

int main() {
  std::uint64_t calls = 0;
  auto pipeline =
      ps::Reader{ps::generate<char>(10,
#ifdef PENSTOCK_REFUSED
                                    [calls](std::span<char>, std::uint64_t) mutable { ++calls; }
#else
[calls](std::span<char>, std::uint64_t) { static_cast<void>(calls); }
#endif
                                    )} |
      ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  pipeline.run();
}
