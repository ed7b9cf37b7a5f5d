// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Asks of which kind any bytes are, alone and as the beginning of a large file.

#include "fuzz/target.hpp"

#include <penstock/sources/detail/foreign_kind.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

PENSTOCK_FUZZ_TARGET(fuzz_foreign) {
  using namespace penstock::detail;
  for (const std::uint64_t size : {std::uint64_t{input.size()}, std::uint64_t{1} << 40}) {
    for (const bool others : {false, true}) {
      as_file(input, std::max<std::uint64_t>(size, input.size()),
              [&](const HeaderFile& file) { refuse_foreign(file, " But.", others); });
    }
  }
}
