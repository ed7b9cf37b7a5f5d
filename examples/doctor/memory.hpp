// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data.hpp"
#include "limits.hpp"
#include "memory_budget.hpp"
#include "reading.hpp"
#include "timing.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace doctor {

/// "page_cache", 8: "page_cache_8_threads".
inline std::string by_threads(const std::string& what, unsigned threads) {
  return what + '_' + std::to_string(threads) + (threads == 1 ? "_thread" : "_threads");
}

/// Brings the sample into the page cache, as much of it as some seconds allow, and measures reads
/// from there by one thread and by several; of small files also how many can be opened and read.
inline void measure_page_cache(const Readings& readings, Data& data, Limits& limits) {
  const unsigned several = several_threads();
  const std::size_t all = data.pieces.size();
  data.used = std::max<std::size_t>(
      readings.read({0, all, false}, std::max(several, 4U), Way::cached, 5).pieces, 1);
  for (unsigned threads = 1;; threads = several) {
    double files_per_s = 0;
    const double rate = median_of(
        [&] {
          const Pace pace = readings.read({0, data.used, true}, threads, Way::cached, 0.1);
          files_per_s = std::max(files_per_s, pace.files_per_s());
          return pace.gb_per_s();
        },
        0.6);
    limits.add(by_threads("page_cache", threads) + "_gb_per_s", rate);
    if (data.small_files) {
      limits.add(by_threads("files_opened_and_read", threads) + "_per_s", files_per_s);
    }
    if (threads == several) {
      break;
    }
  }
}

/// Writes to memory for the first time, by several threads, part after part until all is done or
/// `limit` seconds are over: some virtual machines take long to give a page. Returns the bytes.
inline std::size_t touch(std::byte* one, std::byte* other, std::size_t bytes, double limit) {
  constexpr std::size_t part = 16 * mib;
  const unsigned threads = several_threads();
  const auto begin = Clock::now();
  std::size_t done = 0;
  while (done < bytes && (done == 0 || seconds_since(begin) < limit)) {
    const std::size_t some = std::min(part, bytes - done);
    on_threads(threads, [&](unsigned thread) {
      const std::size_t from = done + some * thread / threads;
      const std::size_t count = done + some * (thread + 1) / threads - from;
      std::memset(one + from, 1, count);
      std::memset(other + from, 2, count);
    });
    done += some;
  }
  return done;
}

/// Measures copies in memory, by one thread and by several, of more memory than the caches hold.
inline void measure_copies(Limits& limits) {
  const unsigned several = several_threads();
  const std::size_t wanted = affordable(std::clamp(4 * last_level_cache(), 128 * mib, gib), 8);
  const Bytes from = make_bytes(wanted);
  const Bytes to = make_bytes(wanted);
  const std::size_t bytes = touch(from.get(), to.get(), wanted, 3);
  if (bytes < 2 * last_level_cache()) {
    limits.missing("host copy of much memory",
                   "there were only " + std::to_string(bytes / mib) +
                       " MiB for it, part of which the caches may hold");
  }
  // A thread's share, in whole pages.
  const auto share = [&](unsigned thread, unsigned threads) {
    return bytes / 4096 * thread / threads * 4096;
  };
  for (unsigned threads = 1;; threads = several) {
    const double seconds = median_of(
        [&] {
          return on_threads(threads, [&](unsigned thread) {
            const std::size_t begin = share(thread, threads);
            std::memcpy(to.get() + begin, from.get() + begin, share(thread + 1, threads) - begin);
          });
        },
        0.6);
    limits.add(by_threads("host_copy", threads) + "_gb_per_s",
               static_cast<double>(bytes) / seconds / 1e9);
    if (threads == several) {
      break;
    }
  }
}

} // namespace doctor
