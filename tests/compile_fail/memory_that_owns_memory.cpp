// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: what a Reader reads must be trivially copyable: no std::string
#include <penstock/penstock.hpp>

#include <string>
#include <vector>

namespace ps = penstock;

int main() {
#ifdef PENSTOCK_REFUSED
  const std::vector<std::string> names(10);
#else
  const std::vector<char> names(10);
#endif
  auto pipeline = ps::Reader{ps::memory(names)} | ps::PinnedStager{};
  static_cast<void>(pipeline);
}
