// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>
#include <penstock/run/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

struct Result {
  penstock::Report report;
  std::vector<std::uint64_t> counts;
};

/// How much faster the pipeline was than the same work without one; 0 if it was not tried.
struct Comparison {
  double naive = 0;
  double sequential = 0;
};

/// What a plain loop over the file counts.
struct Reference {
  std::uint64_t bytes = 0;
  std::array<std::uint64_t, 256> counts{};
};

inline Reference plain_loop(const std::string& path) {
  Reference reference;
  // Opens and refuses as the pipeline does, so that a bad path is one error of one kind.
  auto file = penstock::records<std::uint8_t>(path);
  file.open();
  reference.bytes = file.size();
  std::vector<std::uint8_t> piece(std::size_t{1} << 22);
  for (std::uint64_t at = 0; at < reference.bytes; at += piece.size()) {
    const std::size_t n = std::min<std::uint64_t>(piece.size(), reference.bytes - at);
    file.read(penstock::Batch<std::uint8_t, penstock::Pageable>{piece.data(), n, at});
    for (std::size_t i = 0; i < n; ++i) {
      ++reference.counts[piece[i]];
    }
  }
  return reference;
}

inline void check(const Result& result, const Reference& expected) {
  if (result.report.bytes != expected.bytes) {
    throw std::runtime_error{"the pipeline delivered " + std::to_string(result.report.bytes) +
                             " bytes of " + std::to_string(expected.bytes)};
  }
  for (std::size_t value = 0; value < 256; ++value) {
    if (result.counts[value] != expected.counts[value]) {
      throw std::runtime_error{"value " + std::to_string(value) + " was counted " +
                               std::to_string(result.counts[value]) +
                               " times; a plain loop finds " +
                               std::to_string(expected.counts[value])};
    }
  }
}

/// Returns the entropy in bits a byte: 0 for one value only, 8 for noise.
inline double entropy_bits(const Result& result) {
  double bits = 0;
  for (const std::uint64_t count : result.counts) {
    if (count != 0) {
      const double p = static_cast<double>(count) / static_cast<double>(result.report.bytes);
      bits -= p * std::log2(p);
    }
  }
  return std::max(bits, 0.0); // and not -0
}

inline double gb_per_s(const penstock::Report& report) {
  return report.seconds > 0 ? static_cast<double>(report.bytes) / report.seconds / 1e9 : 0;
}

inline void print_text(const Result& result, const Comparison& other) {
  std::ostringstream text;
  text << result.report.bytes << " bytes, " << gb_per_s(result.report) << " GB/s, entropy "
       << entropy_bits(result) << " bits a byte; the same counts as a plain loop\n"
       << result.report;
  if (other.naive != 0) {
    text << "  faster than read, copy, kernel, synchronise by one thread: " << other.naive
         << " times\n"
         << "  faster than the same workers, pinned memory and grain, one step after the other: "
         << other.sequential << " times\n";
  }
  std::cout << text.str();
}

inline void print_json(const Result& result, const Comparison& other) {
  using penstock::Json;
  std::vector<Json> stages;
  for (const penstock::StageReport& stage : result.report.stages) {
    stages.push_back(Json::object({{"name", stage.name},
                                   {"records", stage.records},
                                   {"bytes", stage.bytes},
                                   {"busy_s", stage.busy_s},
                                   {"starved_s", stage.starved_s},
                                   {"blocked_s", stage.blocked_s}}));
  }
  std::vector<Json::Member> all{
      {"bytes", result.report.bytes},
      {"counts", Json::array({result.counts.begin(), result.counts.end()})},
      {"entropy_bits", entropy_bits(result)},
      {"seconds", result.report.seconds},
      {"gb_per_s", gb_per_s(result.report)},
      {"device", result.report.device},
      {"limiting_stage", result.report.limiting_stage},
      {"stages", Json::array(stages)}};
  if (other.naive != 0) {
    all.emplace_back("times_faster_than_naive", other.naive);
    all.emplace_back("times_faster_than_sequential", other.sequential);
  }
  std::cout << Json::object(all).text() << '\n';
}

/// A line on the terminal that shows how far the run is, ten times a second; nothing elsewhere.
class Progress {
  using Clock = std::chrono::steady_clock;

 public:
  explicit Progress(std::uint64_t bytes) : bytes_{bytes}, on_{isatty(STDERR_FILENO) == 1} {}

  void show(std::uint64_t done) {
    if (const auto now = Clock::now(); on_ && now - shown_ >= std::chrono::milliseconds{100}) {
      shown_ = now;
      std::fprintf(stderr, "\r%3.0f %% of %.2f GB",
                   100.0 * static_cast<double>(done) / static_cast<double>(bytes_),
                   static_cast<double>(bytes_) / 1e9);
    }
  }
  void clear() const {
    if (on_) {
      std::fprintf(stderr, "\r%40s\r", "");
    }
  }

 private:
  const std::uint64_t bytes_;
  const bool on_;
  Clock::time_point shown_ = Clock::now();
};
