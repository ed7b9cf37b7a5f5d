// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "odr.hpp"
#include "support/catch.hpp"

#include <numeric>
#include <vector>

TEST_CASE("two translation units that use the same pipeline become one program") {
  std::vector<std::uint32_t> numbers(100'000);
  std::iota(numbers.begin(), numbers.end(), 1U);
  CHECK(sum_of(numbers) == 5'000'050'000U);
  CHECK(sum_in_the_other_unit(numbers) == 5'000'050'000U);
}
