// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <numeric>

namespace ps = penstock;

/// A line at each call: what is done, how much of all that is, and how fast since the last line.
struct ShowProgress {
  void operator()(const ps::Report& so_far) {
    const std::uint64_t now_done = so_far.records + so_far.skipped;
    const double records = static_cast<double>(now_done - done);
    std::cerr << now_done << " records";
    if (so_far.records_in_all != ps::unknown_size) {
      std::cerr << ", " << 100 * now_done / std::max<std::uint64_t>(so_far.records_in_all, 1)
                << " %";
    }
    std::cerr << ", " << std::llround(records / (so_far.seconds - seconds)) << " records/s\n";
    done = now_done;
    seconds = so_far.seconds;
  }

  std::uint64_t done = 0;
  double seconds = 0;
};

/// The sum of all numbers, with a line each half second.
template <class Source> double sum_with_progress(const Source& source) {
  double sum = 0;
  auto pipeline =
      ps::Reader{source} | ps::Consumer{[&](ps::Batch<const float, ps::Pageable> batch) {
        sum = std::accumulate(batch.data(), batch.data() + batch.size(), sum);
      }};
  ShowProgress show;
  show(pipeline.run({.progress = std::ref(show)}));
  return sum;
}
