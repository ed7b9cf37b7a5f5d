// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: what a Reader reads must be trivially copyable: no std::string
#include <penstock/penstock.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace ps = penstock;

int main() {
#ifdef PENSTOCK_REFUSED
  using T = std::string;
#else
  using T = char;
#endif
  auto pipeline =
      ps::Reader{ps::generate<T>(10, [](std::span<T>, std::uint64_t) {})} | ps::PinnedStager{};
  static_cast<void>(pipeline);
}
