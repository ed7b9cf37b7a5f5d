// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 10_file_to_file: from a file through a stage into a new file, with no GPU. Several threads turn
// 16-bit samples of sound into floats from -1 to 1, in order. The new file appears when it is
// whole: if you stop this program half-way, you find what was there before.
//
//   10_file_to_file [SAMPLES FLOATS]
//
// Without files it makes some samples. It prints the Report.

#include "support/temporary_file.hpp"

#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

namespace ps = penstock;

/// Converts a whole batch at once, which the compiler makes vector instructions of.
void to_floats(ps::Batch<const std::int16_t, ps::Pageable> samples,
               ps::Batch<float, ps::Pageable> floats) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    floats.data()[i] = static_cast<float>(samples.data()[i]) / 32768.0F;
  }
}

std::string some_samples() {
  std::string bytes;
  std::uint32_t state = 1;
  for (int i = 0; i < 2'000'000; ++i) {
    state = state * 1664525 + 1013904223;
    bytes += static_cast<char>(state >> 24);
  }
  return bytes;
}

int main(int argc, char** argv) try {
  if (argc != 1 && argc != 3) {
    throw std::invalid_argument{"usage: 10_file_to_file [SAMPLES FLOATS]"};
  }
  std::optional<TemporaryFile> samples;
  std::optional<TemporaryFile> floats;
  const std::string in = argc == 3 ? argv[1] : samples.emplace(some_samples()).path();
  const std::string out = argc == 3 ? argv[2] : floats.emplace("").path();

  auto pipeline = ps::Reader{ps::records<std::int16_t>(in)} |
                  ps::Decoder{to_floats, {.workers = 2}} | ps::Writer{out};
  std::cout << pipeline.run();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "10_file_to_file: " << error.what() << '\n';
  return 1;
}

// prints:
//   1000000 records, …
//   …
