// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <cxxabi.h>

namespace penstock::detail {

/// Writes three digits, or all before the point: 0.0123, 12.3, 1234.
inline std::string figure(double value) {
  const double size = std::abs(value);
  const int before = size < 1 ? 1 : static_cast<int>(std::log10(size)) + 1;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", size < 0.1 ? 3 : std::max(3 - before, 0), value);
  return text.data();
}
inline std::string figure_ms(double seconds) {
  return figure(seconds * 1e3) + " ms";
}
inline std::string figure_us(double seconds) {
  return figure(seconds * 1e6) + " us";
}
inline std::string percent(double share) {
  return figure(share * 100) + " %";
}
/// Writes bytes with the unit that leaves at least one digit before the point.
inline std::string figure_bytes(std::uint64_t bytes) {
  constexpr std::array units{"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < units.size(); ++unit) {
    value /= 1000;
  }
  return (unit == 0 ? std::to_string(bytes) : figure(value)) + ' ' + units[unit];
}
/// Writes "1 wait" and "2 waits".
inline std::string counted(std::uint64_t count, const char* one, const char* many = nullptr) {
  return std::to_string(count) + ' ' +
         (count == 1        ? one
          : many != nullptr ? many
                            : std::string{one} + 's');
}

/// Returns what is written in the source for a mangled name, without a return type and parameters.
inline std::string source_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text{
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free};
  std::string name = status == 0 && text != nullptr ? text.get() : mangled;
  for (const std::string_view anonymous : {"(anonymous namespace)::"}) {
    for (auto at = name.find(anonymous); at != name.npos; at = name.find(anonymous)) {
      name.erase(at, anonymous.size());
    }
  }
  // The parameters begin at the first parenthesis outside of <>.
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (name[i] == '(' && depth == 0) {
      name.resize(i);
      break;
    }
  }
  return name.starts_with("void ") ? name.substr(5) : name;
}
/// Returns that name without template arguments.
inline std::string base_name(const std::string& mangled) {
  std::string base;
  int depth = 0;
  for (const char c : source_name(mangled)) {
    depth += c == '<' ? 1 : 0;
    base += depth == 0 ? std::string{c} : std::string{};
    depth -= c == '>' ? 1 : 0;
  }
  return base;
}
/// Returns a name that fits into a line.
inline std::string short_name(const std::string& mangled) {
  constexpr std::size_t most = 72;
  const std::string name = source_name(mangled);
  return name.size() <= most ? name : name.substr(0, most - 3) + "...";
}

} // namespace penstock::detail
