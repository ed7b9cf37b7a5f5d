// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/formats/labelled_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::tests {

/// Files in memory, each labelled with its number.
struct FileRecords {
  using schema = LabelledFile;
  std::vector<std::string> files;

  std::uint64_t size() const { return files.size(); }
  template <HostSpace Where> std::size_t read(Batch<schema, Where> into) const {
    for (std::size_t i = 0; i != into.size(); ++i) {
      const std::string& file = files[into.index() + i];
      std::copy(file.begin(), file.end(), get<"bytes">(into).put(i, file.size()));
      get<"label">(into)[i] = static_cast<std::int32_t>(into.index() + i);
    }
    return into.size();
  }
};

/// Pixels that are like a photograph's: smooth, with an edge and some noise; of `channels` bytes.
inline std::vector<std::uint8_t> some_picture(std::size_t width, std::size_t height,
                                              std::size_t channels, unsigned seed = 1) {
  std::vector<std::uint8_t> pixels(width * height * channels);
  std::uint32_t noise = seed;
  for (std::size_t i = 0; i != pixels.size(); ++i) {
    const std::size_t x = i / channels % width;
    const std::size_t y = i / channels / width;
    noise = noise * 1664525 + 1013904223;
    const std::size_t edge = 3 * x > width + y ? 90 : 0;
    const std::size_t slope = (i % channels + 1) * x * 40 / width + y * 40 / height;
    pixels[i] = static_cast<std::uint8_t>(std::min<std::size_t>(edge + slope + (noise >> 28), 255));
  }
  return pixels;
}

} // namespace penstock::tests
