// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/file.hpp"

#include <penstock/io/posix.hpp>

#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

namespace penstock_bench {

/// Drops the file from the page cache. Throws if it stays.
inline void drop(const FileOptions& file) {
  const penstock::PosixIo io;
  const int descriptor = io.open(file.path.c_str());
  if (descriptor < 0) {
    throw std::system_error{errno, std::generic_category(), "open " + file.path};
  }
  double share = 1;
  for (int tries = 0; tries < 20 && share > 0.02; ++tries) {
    // Pages in use stay, and go the next time.
    std::this_thread::sleep_for(std::chrono::milliseconds{tries == 0 ? 0 : 50});
    ::fsync(descriptor);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    if (io.cached(descriptor, file.bytes, share) != 0) {
      share = 1;
      break;
    }
  }
  io.close(descriptor);
  if (share > 0.02) {
    throw std::runtime_error{file.path + " stays in the page cache (" +
                             std::to_string(static_cast<int>(share * 100)) +
                             " % of it): name a --file on a disk"};
  }
}

} // namespace penstock_bench
