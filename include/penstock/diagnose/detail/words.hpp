// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>

namespace penstock::detail {

[[gnu::cold, gnu::noinline]] inline std::string digits(double number, int behind_the_point) {
  char text[64];
  const int length = std::snprintf(text, sizeof text, "%.*f", behind_the_point,
                                   std::isfinite(number) && std::abs(number) < 1e15 ? number : 0);
  return {text, static_cast<std::size_t>(length)};
}
/// "1 wait", "2 waits"; `many` if that is not `one` and an s.
[[gnu::cold]] inline std::string counted(double count, const char* one,
                                         const char* many = nullptr) {
  std::string text = digits(count, 0) + ' ';
  if (std::round(count) == 1) {
    text += one;
  } else {
    many ? text += many : (text += one) += 's';
  }
  return text;
}

} // namespace penstock::detail
