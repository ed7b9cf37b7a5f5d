// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: generate<T> calls f\(std::span<T> out, std::uint64_t first\)
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ps = penstock;

int main() {
  auto pipeline = ps::Reader{ps::generate<char>(10,
#ifdef PENSTOCK_REFUSED
                                                [](char& out) { out = 0; }
#else
[](std::span<char>, std::uint64_t) {}
#endif
                                                )} |
                  ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  pipeline.run();
}
