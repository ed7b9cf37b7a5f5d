// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: takes tokens that lie in memory, such as a std::vector, or a source of them
#include <penstock/penstock.hpp>
#include <penstock/sources/windows.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ps = penstock;

int main() {
  const std::vector<std::string> paths{"/dev/null"};
#ifdef PENSTOCK_REFUSED
  const auto reader = ps::Reader{ps::records<std::uint16_t>(paths)};
  auto pipeline = ps::Reader{ps::windows(reader, {.length = 10})} |
#else
  auto pipeline = ps::Reader{ps::windows(ps::records<std::uint16_t>(paths), {.length = 10})} |
#endif
                  ps::Consumer{[](ps::Batch<const ps::Window<std::uint16_t>, ps::Pageable>) {}};
  pipeline.run();
}
