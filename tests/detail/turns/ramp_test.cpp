// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The schedule by which slots begin small and grow, alone.

#include "support/catch.hpp"

#include <penstock/detail/turns/ramp.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

using penstock::detail::Ramp;
using Sizes = std::vector<std::uint64_t>;

namespace {

Sizes sizes_of(const Ramp& ramp, std::uint64_t slots) {
  Sizes sizes;
  for (std::uint64_t slot = 0; slot != slots; ++slot) {
    sizes.push_back(ramp.size(slot));
  }
  return sizes;
}

} // namespace

TEST_CASE("slots begin small, double, and stay at the usual size") {
  CHECK(sizes_of(Ramp{100, 32, 1}, 5) == Sizes{32, 64, 100, 100, 100});
  CHECK(sizes_of(Ramp{64, 32, 1}, 3) == Sizes{32, 64, 64});
  CHECK(sizes_of(Ramp{5, 1, 2}, 8) == Sizes{1, 1, 2, 2, 4, 4, 5, 5});
  CHECK(sizes_of(Ramp{32, 32, 8}, 2) == Sizes{32, 32});
  CHECK(sizes_of(Ramp{7, 32, 8}, 2) == Sizes{7, 7});
  CHECK(sizes_of(Ramp{1, 1, 8}, 2) == Sizes{1, 1});
  CHECK(sizes_of(Ramp{1000}, 2) == Sizes{1000, 1000});
  CHECK(Ramp{1000}.slots() == 0);
  CHECK(Ramp{1000, 1, 8}.slots() == 80);
}

TEST_CASE("each slot begins where the one before it ends, and so many hold so many units") {
  for (const std::uint64_t usual : {1, 2, 3, 31, 32, 33, 63, 64, 65, 1000}) {
    for (const std::uint64_t first : {1, 2, 32, 5000}) {
      for (const std::uint64_t same : {0, 1, 3, 64}) {
        const Ramp ramp{usual, first, same};
        CAPTURE(usual, first, same);
        std::uint64_t begin = 0;
        bool right = ramp.slots_of(0) == 0;
        for (std::uint64_t slot = 0; slot != 1000; ++slot) {
          const std::uint64_t size = ramp.size(slot);
          right = right && ramp.begin(slot) == begin && size >= 1 && size <= usual;
          right = right && ramp.slots_of(begin + 1) == slot + 1;
          right = right && ramp.slots_of(begin + size) == slot + 1;
          right = right && (slot < ramp.slots() || size == usual);
          begin += size;
        }
        CHECK(right);
      }
    }
  }
}
