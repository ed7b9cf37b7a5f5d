// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace ps = penstock;

/// As it lies in the file, and as the model wants it.
/// @{
struct Scan {
  std::uint8_t label;
  std::uint8_t pixels[63];
};
struct Example {
  std::uint32_t label;
  float pixels[63];
};
/// @}

/// Writes where the training stands, in a new file that then takes the old one's place: after a
/// crash one of the two is there, whole.
inline void save(const std::string& path, const ps::Position& position) {
  std::ofstream{path + ".new"} << position << '\n';
  std::filesystem::rename(path + ".new", path);
}
/// Returns where it stood; the beginning if there is no file.
inline ps::Position stood(const std::string& path) {
  ps::Position position;
  std::ifstream{path} >> position;
  return position;
}

/// Trains for `epochs`, or goes on where `checkpoint` says. All ranks call it; step(batch) waits
/// for those of all, as the sum of their gradients does.
template <class Step>
void train(const std::string& scans, const std::string& checkpoint, std::uint64_t epochs,
           const ps::Ranks& me, Step step) {
  auto data = ps::Reader{ps::records<Scan>(scans),
                         {.epochs = epochs,
                          .order = {.shuffle = 1337, .ranks = me},
                          .batch = 64,
                          .drop_last = true}} |
              ps::Decoder{[](const Scan& in, Example& out) {
                out.label = in.label;
                for (int i = 0; i < 63; ++i) {
                  out.pixels[i] = static_cast<float>(in.pixels[i]) / 255;
                }
              }};
  std::uint64_t steps = 0;
  for (auto batch : data.batches({.from = stood(checkpoint)})) {
    step(batch);
    if (++steps % 100 == 0 && me.rank == 0) {
      save(checkpoint, batch.position()); // with the model's weights
    }
  }
}
