// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: deleted (member )?(function|constructor)
#include <penstock/penstock.hpp>

#include <vector>

namespace ps = penstock;

std::vector<char> load() {
  return std::vector<char>(10);
}

int main() {
#ifdef PENSTOCK_REFUSED
  auto pipeline = ps::Reader{ps::memory(load())} |
#else
  const std::vector<char> names = load();
  auto pipeline = ps::Reader{ps::memory(names)} |
#endif
                  ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  pipeline.run();
}
