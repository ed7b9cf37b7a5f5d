// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/machine/usable.hpp>

#include <cstdint>

#include <sys/resource.h>

namespace penstock::detail {

/// What the process has used so far.
struct ProcessUse {
  double cpu_s{};             ///< Processor seconds, in the system too.
  std::uint64_t peak_bytes{}; ///< Most memory it had at once.
  unsigned processors{};      ///< Processors that it may use.

  static ProcessUse now() noexcept {
    ProcessUse use;
    rusage used{};
    if (getrusage(RUSAGE_SELF, &used) == 0) {
      const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
      };
      use.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
      use.peak_bytes = static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
    }
    use.processors = usable_processors();
    return use;
  }
};

} // namespace penstock::detail
