// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "odr.hpp"

std::uint64_t sum_in_the_other_unit(std::span<const std::uint32_t> numbers) {
  return sum_of(numbers);
}
