// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: takes a source of plain tokens, such as std::uint16_t, and From's records have columns
#include <penstock/penstock.hpp>
#include <penstock/sources/windows.hpp>
#include <penstock/sources/zip.hpp>

#include <cstdint>
#include <vector>

namespace ps = penstock;

struct Text : ps::Columns<ps::Field<"token", std::uint16_t>> {};

int main() {
  const std::vector<std::uint16_t> tokens(1000);
#ifdef PENSTOCK_REFUSED
  auto pipeline = ps::Reader{ps::windows(ps::zip<Text>(ps::memory(tokens)), {.length = 10})} |
                  ps::Consumer{[](ps::Batch<const ps::Window<Text>, ps::Pageable>) {}};
#else
  auto pipeline = ps::Reader{ps::windows(ps::memory(tokens), {.length = 10})} |
                  ps::Consumer{[](ps::Batch<const ps::Window<std::uint16_t>, ps::Pageable>) {}};
#endif
  pipeline.run();
}
