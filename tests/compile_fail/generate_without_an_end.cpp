// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: in generate<T>\(f\) it returns a std::size_t
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ps = penstock;

int main() {
  auto pipeline = ps::Reader{ps::generate<char>(
#ifdef PENSTOCK_REFUSED
                      [](std::span<char>, std::uint64_t) {}
#else
                      [](std::span<char>, std::uint64_t) -> std::size_t { return 0; }
#endif
                      )} |
                  ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  pipeline.run();
}
