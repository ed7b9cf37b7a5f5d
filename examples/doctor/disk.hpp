// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data.hpp"
#include "limits.hpp"
#include "made_file.hpp"
#include "reading.hpp"
#include "timing.hpp"

#include <penstock/io/posix.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace doctor {

/// How many reads are in flight where a disk is to show what it can: threads that read a disk wait
/// and take no processor.
inline constexpr unsigned disk_threads = 8;

/// Drops the sample from the page cache, as any user may for pages that were written to the disk.
/// Returns why it is not gone; nothing if it is.
inline std::string drop_from_cache(const Data& data) {
  const penstock::PosixIo io;
  std::vector<std::uint64_t> ends(data.paths.size());
  for (const Piece& piece : data.pieces) {
    ends[piece.file] = piece.offset + piece.bytes;
  }
  // Enough to see whether dropping works; to look at each of many files would take too long.
  const std::size_t look_at_each = std::max<std::size_t>(data.paths.size() / 16, 1);
  const auto begin = Clock::now();
  double most = 0;
  for (int tries = 0; tries < 3; ++tries) {
    most = 0;
    for (std::size_t i = 0; i < data.paths.size(); ++i) {
      if (seconds_since(begin) > 5) {
        return "to write the files to the disk and drop them takes too long";
      }
      OpenFile file;
      file.open(data.paths[i]);
      ::fsync(file.number());
      ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_DONTNEED);
      double share = 0;
      if (i % look_at_each == 0) {
        if (io.cached(file.number(), ends[i], share) != 0) {
          return "this system does not tell what is in the page cache";
        }
        most = std::max(most, share);
      }
    }
    if (most <= 0.02) {
      return {};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{50}); // pages in use go the next time
  }
  if (most == 1 && ::access(data.paths[0].c_str(), W_OK) != 0) {
    return "Linux tells only those who may write a file whether it is in the page cache";
  }
  return std::to_string(static_cast<int>(most * 100)) +
         " % of a file stay in the page cache, whoever keeps them there";
}

/// Returns the median GB/s of three quarters of the sample, each read once, after the first as a
/// warm-up; of a small sample, the GB/s of all of it.
inline double quarters_gb_per_s(const Readings& readings, const Data& data, unsigned threads,
                                Way way) {
  const std::size_t parts = data.pieces.size() < 16 ? 1 : 4;
  const std::size_t count = data.pieces.size() / parts;
  std::vector<double> rates;
  for (std::size_t part = 0; part < parts; ++part) {
    rates.push_back(readings.read({part * count, count, false}, threads, way, 0.5).gb_per_s());
  }
  if (parts > 1) {
    rates.erase(rates.begin());
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

/// Measures the disk: through the page cache, which is emptied first, and past it.
inline void measure_disk(const Readings& readings, const Data& data, Limits& limits) {
  if (lies_in_memory(data.paths[0])) {
    limits.missing("disk", "the data lie in memory (tmpfs)");
    return;
  }
  if (const std::uint64_t bytes = data.bytes_of(data.pieces.size()); bytes < mib) {
    limits.missing("disk", "a sample of " + bytes_in_words(bytes) +
                               " is too small to tell: name data of 1 MiB or more");
    return;
  }
  std::string why;
  for (const unsigned threads : {1U, disk_threads}) {
    why = drop_from_cache(data);
    if (!why.empty()) {
      break;
    }
    limits.add("disk_cold_" + std::to_string(threads) +
                   (threads == 1 ? "_thread_gb_per_s" : "_threads_gb_per_s"),
               quarters_gb_per_s(readings, data, threads, Way::cached));
  }
  if (!why.empty()) {
    limits.missing("disk cold", why);
  }
  if (data.small_files) {
    limits.missing("disk direct", "files below 1 MiB are not read past the page cache");
    return;
  }
  // Past the cache, what is still in there would be found by nobody, but slow the reads down.
  drop_from_cache(data);
  try {
    for (const unsigned threads : {1U, disk_threads}) {
      limits.add("disk_direct_" + std::to_string(threads) +
                     (threads == 1 ? "_thread_gb_per_s" : "_threads_gb_per_s"),
                 quarters_gb_per_s(readings, data, threads, Way::direct));
    }
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::invalid_argument) {
      throw;
    }
    limits.missing("disk direct", "the file system refuses reads past the page cache (O_DIRECT)");
  }
}

} // namespace doctor
