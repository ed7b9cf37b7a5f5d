// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory_budget.hpp"
#include "timing.hpp"

#include <penstock/formats/files.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace doctor {

/// Up to 1 MiB of a file: what one read takes.
struct Piece {
  std::size_t file;
  std::uint64_t offset;
  std::size_t bytes;
};
inline constexpr std::size_t piece_bytes = mib;

/// The files that the user has, and the sample of them that is measured.
struct Data {
  std::uint64_t all_files = 0;
  std::uint64_t all_bytes = 0;
  /// Files so small that each is a record: then opening them counts, and not their bytes alone.
  bool small_files = false;
  std::vector<std::string> paths; ///< Of the sample.
  std::vector<Piece> pieces;      ///< Of the sample, file by file.
  /// How many of the first pieces are used: those that could be brought into the page cache.
  std::size_t used = 0;

  /// Returns the bytes of the first `count` pieces.
  std::uint64_t bytes_of(std::size_t count) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += pieces[i].bytes;
    }
    return sum;
  }
  /// Returns the paths of the files that the first `count` pieces are of.
  std::vector<std::string> files_of(std::size_t count) const {
    const std::size_t files = count == 0 ? 0 : pieces[count - 1].file + 1;
    return {paths.begin(), paths.begin() + static_cast<std::ptrdiff_t>(files)};
  }
};

/// Finds the files that a path names, itself or those in and below it, and chooses a sample of at
/// most 1 GiB, and a quarter of the memory that is free: files spread evenly over all. Opens none.
/// Throws for what cannot be found or has no bytes.
inline Data find_data(const std::string& path) {
  constexpr std::uint64_t small = mib;
  constexpr std::size_t most_small_files = 20'000;
  constexpr std::uint64_t largest_small_file = 64 * mib;
  constexpr double most_seconds = 10;

  auto found = penstock::files(path, {.largest = std::numeric_limits<std::uint64_t>::max()});
  const auto begin = Clock::now();
  found.open({.progress = [&](const penstock::Preparation& now) {
    if (seconds_since(begin) > most_seconds) {
      throw std::runtime_error{path + " has more files than can be looked at in " +
                               std::to_string(static_cast<int>(most_seconds)) + " s (" +
                               std::to_string(now.files) +
                               " were): name a folder in it that has fewer"};
    }
  }});
  Data data;
  data.all_files = found.size();
  std::vector<std::uint64_t> lengths(found.size());
  found.lengths(0, lengths);
  for (const std::uint64_t length : lengths) {
    data.all_bytes += length;
  }
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  if (data.all_bytes == 0) {
    throw std::runtime_error{path + (folder ? " has only empty files" : " is empty") +
                             ": there is nothing to read. Name a file or folder with data"};
  }
  const std::uint64_t mean = data.all_bytes / data.all_files;
  data.small_files = folder && mean < small;
  const std::uint64_t most_bytes = affordable(gib, 4);
  const std::uint64_t wanted =
      data.small_files ? most_small_files : most_bytes / std::max<std::uint64_t>(mean, 1) + 1;
  const std::uint64_t step = std::max<std::uint64_t>(data.all_files / wanted, 1);
  std::uint64_t left = most_bytes;
  for (std::uint64_t number = 0; number < data.all_files && left != 0; number += step) {
    const std::uint64_t length = lengths[number];
    if (length == 0 || (data.small_files && length > std::min(largest_small_file, left))) {
      continue;
    }
    const std::uint64_t taken = std::min(length, left);
    for (std::uint64_t at = 0; at < taken; at += piece_bytes) {
      data.pieces.push_back(
          {data.paths.size(), at,
           static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, taken - at))});
    }
    data.paths.push_back(found.path(number));
    left -= taken;
  }
  if (data.pieces.empty()) {
    throw std::runtime_error{"the files in " + path +
                             " that were looked at are empty, or larger "
                             "than 64 MiB among many small ones: name a folder of files like those "
                             "that you read"};
  }
  data.used = data.pieces.size();
  return data;
}

} // namespace doctor
