// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ps = penstock;

struct Reading {
  std::int32_t celsius;
  std::uint32_t station;
};

/// One record at a time, so that a bad one is left out alone.
inline void to_kelvin(const Reading& reading, double& kelvin) {
  if (reading.celsius < -273) {
    throw std::invalid_argument{"station " + std::to_string(reading.station) + " says " +
                                std::to_string(reading.celsius) + " degrees"};
  }
  kelvin = reading.celsius + 273.15;
}

/// Writes all readings that can be, and says in `log` what was left out.
inline void convert(const std::string& from, const std::string& to, std::ostream& log) {
  auto pipeline = ps::Reader{ps::records<Reading>(from)} |
                  ps::Decoder{to_kelvin, {.on_error = {.skips = 10'000}}} | ps::Writer{to};
  const ps::Report& report = pipeline.run();

  std::vector<ps::SkippedItem> bad = report.skips; // as they failed, in several threads
  std::ranges::sort(bad, {}, &ps::SkippedItem::record);
  for (const ps::SkippedItem& item : bad) {
    log << "record " << item.record << ": " << item.reason << '\n';
  }
  log << report.records << " readings, " << report.skipped << " left out\n";
}
