// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>

#include <sys/resource.h>

namespace penstock::detail {

inline constexpr unsigned most_tries = 1000;

/// Makes a system call, again and again while it is interrupted or says to try later, but not for
/// ever.
template <class Io, class Call> auto persist(const Io& io, Call call) {
  for (unsigned tries = 1;; ++tries) {
    const auto result = call();
    if (result >= 0 || (errno != EINTR && errno != EAGAIN) || tries == most_tries) {
      return result;
    }
    if (errno == EAGAIN) {
      io.pause();
    }
  }
}

/// Makes a system call that opens a file, as persist() does. While too many files are open it makes
/// up to so many tries, for about a second: other threads open files for one read and close them.
template <class Io, class Call>
[[gnu::cold]] int open_patiently(const Io& io, Call call, unsigned most = most_tries) {
  for (unsigned tries = 1;; ++tries) {
    const int fd = persist(io, call);
    if (fd >= 0 || (errno != EMFILE && errno != ENFILE) || tries == most) {
      return fd;
    }
    io.pause();
  }
}

/// Returns how many descriptors the process has for files that are open for one read.
[[gnu::cold]] inline std::size_t descriptors_for_a_read() noexcept {
  constexpr std::size_t many = 1024;
  rlimit files{};
  return ::getrlimit(RLIMIT_NOFILE, &files) != 0
             ? many
             : std::size_t{std::min<rlim_t>(files.rlim_cur / 2, many)};
}

/// Returns whether a file with this descriptor may stay open. A new descriptor has the lowest free
/// number, so this one says how many of all that the process may have are taken, whoever has them.
/// The upper half is left to the program, and to files that are open for one read.
[[gnu::cold]] inline bool may_stay_open(int fd) noexcept {
  rlimit files{};
  return ::getrlimit(RLIMIT_NOFILE, &files) != 0 || static_cast<rlim_t>(fd) < files.rlim_cur / 2;
}

} // namespace penstock::detail
