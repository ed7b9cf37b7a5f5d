// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cmath>
#include <cstdio>
#include <string>

namespace penstock::detail {

// Figures as a person reads them.

/// Returns the number with as many digits behind the point.
[[gnu::cold, gnu::noinline]] inline std::string digits(double number, int behind_the_point) {
  char text[64];
  const int length = std::snprintf(text, sizeof text, "%.*f", behind_the_point,
                                   std::isfinite(number) && std::abs(number) < 1e15 ? number : 0);
  return {text, static_cast<std::size_t>(length)};
}
inline std::string per_cent(double share) {
  return digits(100 * share, 0) + " %";
}
/// Rounds a gain down to a tenth: a promise.
inline double promised(double gain) {
  return std::floor(gain * 10 + 0.01) / 10;
}
inline std::string times(double gain) {
  return "x " + digits(promised(gain), 1);
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
[[gnu::cold]] inline std::string time_of(double seconds) {
  return seconds < 1e-3 ? digits(seconds * 1e6, 1) + " us"
         : seconds < 1  ? digits(seconds * 1e3, 1) + " ms"
                        : digits(seconds, 1) + " s";
}
[[gnu::cold]] inline std::string bytes_of(double bytes) {
  return bytes < 1 << 10   ? digits(bytes, 0) + (bytes > 0.5 && bytes < 1.5 ? " byte" : " bytes")
         : bytes < 1 << 20 ? digits(bytes / (1 << 10), 0) + " KiB"
                           : digits(bytes / (1 << 20), 0) + " MiB";
}
inline std::string rate_of(double bytes, double seconds) {
  return digits(seconds > 0 ? bytes / seconds / 1e9 : 0, 2) + " GB/s";
}
/// "Decoder: .workers 4 -> 9"
[[gnu::cold]] inline std::string change_of(const std::string& stage, const char* option,
                                           double from, double to) {
  return stage + ": " + option + ' ' + digits(from, 0) + " -> " + digits(to, 0);
}

} // namespace penstock::detail
