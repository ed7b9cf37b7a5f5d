// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace doctor {

/// Returns a number with three digits that count, or all of its whole ones.
inline std::string three_digits(double number) {
  std::ostringstream text;
  if (number >= 0.1) {
    text << std::fixed << std::setprecision(number >= 100 ? 0 : number >= 10 ? 1 : 2);
  } else {
    text << std::setprecision(3);
  }
  text << number;
  return text.str();
}

/// Returns how many times as fast something is, with one digit behind the point. It rounds down: a
/// promise.
inline std::string tenths(double times) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << std::floor(times * 10 + 0.01) / 10;
  return text.str();
}

/// Returns "1 byte" or "2 bytes".
inline std::string bytes_in_words(std::uint64_t bytes) {
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

/// A name without its unit, and the unit in words.
struct Named {
  std::string name;
  std::string unit;
};

/// Takes the unit off the end of a limit's name: "bus_to_host_gb_per_s" is "bus to host", "GB/s".
inline Named without_unit(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> units{
      {{"_gb_per_s", "GB/s"},
       {"_s_per_gib", "s for 1 GiB"},
       {"_per_s", "a second"},
       {"_us", "us"}}};
  std::string_view unit;
  for (const auto& [ending, words] : units) {
    if (name.ends_with(ending)) {
      name.remove_suffix(ending.size());
      unit = words;
      break;
    }
  }
  std::string words{name};
  std::replace(words.begin(), words.end(), '_', ' ');
  return {std::move(words), std::string{unit}};
}

/// What was measured, each figure under a name that ends in its unit, and what could not be
/// measured, with the reason.
class Limits {
 public:
  struct Figure {
    std::string name;
    double value;
  };
  struct Missing {
    std::string what;
    std::string why;
  };

  void add(std::string name, double value) {
    if (std::isfinite(value) && value > 0) {
      figures_.push_back({std::move(name), value});
    } else {
      missing(without_unit(name).name, "it took no time that a clock could tell");
    }
  }
  void missing(std::string what, std::string why) {
    missing_.push_back({std::move(what), std::move(why)});
  }
  /// Returns a figure; 0 if it was not measured.
  double operator[](std::string_view name) const {
    const auto at = std::find_if(figures_.begin(), figures_.end(),
                                 [&](const Figure& figure) { return figure.name == name; });
    return at == figures_.end() ? 0 : at->value;
  }
  const std::vector<Figure>& figures() const { return figures_; }
  const std::vector<Missing>& what_is_missing() const { return missing_; }

 private:
  std::vector<Figure> figures_;
  std::vector<Missing> missing_;
};

} // namespace doctor
