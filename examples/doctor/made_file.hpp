// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory_budget.hpp"
#include "timing.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

namespace doctor {

/// Returns whether a path lies in memory instead of on a disk.
inline bool lies_in_memory(const std::string& path) {
  struct statfs system{};
  return ::statfs(path.c_str(), &system) == 0 &&
         (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

/// A file of noise, of up to 512 MiB, to measure with. It has no name: it is gone when the program
/// ends, also if a signal ends that.
class MadeFile {
 public:
  /// Writes it, in some seconds at most: a slow disk gets a smaller file.
  MadeFile() : folder_{choose_folder()} {
    struct statfs system{};
    if (::statfs(folder_.c_str(), &system) != 0) {
      fail("look at", errno);
    }
    const std::uint64_t room =
        std::uint64_t{system.f_bavail} * static_cast<std::uint64_t>(system.f_bsize);
    const std::size_t most =
        std::min<std::uint64_t>(affordable(512 * mib, 4), room / 2 / mib * mib);
    if (most < least) {
      throw std::runtime_error{folder_ + " has room for " + std::to_string(room / mib) +
                               " MiB, and to make a file to measure with takes " +
                               std::to_string(2 * least / mib) +
                               ": name a FILE, or set TMPDIR to a folder with more room"};
    }
    open();
    try {
      write(most);
    } catch (...) {
      ::close(file_);
      throw;
    }
  }
  MadeFile(const MadeFile&) = delete;
  MadeFile& operator=(const MadeFile&) = delete;
  ~MadeFile() { ::close(file_); }

  /// Returns a path that leads to it as long as this lives.
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }
  const std::string& folder() const { return folder_; }

 private:
  static constexpr std::size_t least = 64 * mib;
  static constexpr std::size_t part = 32 * mib;
  static constexpr double most_seconds = 6;

  static std::string choose_folder() {
    if (const char* const told = std::getenv("TMPDIR"); told != nullptr && *told != '\0') {
      return told;
    }
    return lies_in_memory("/tmp") && ::access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
  }

  void open() {
    std::signal(SIGXFSZ, SIG_IGN); // a file that grows beyond a limit is an error that can be told
    std::string path = folder_ + "/17_doctor_XXXXXX";
    // No signal may come while the file has a name.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before);
    file_ = ::mkstemp(path.data());
    const int error = errno;
    if (file_ >= 0) {
      ::unlink(path.c_str());
    }
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    if (file_ < 0) {
      fail("make a file in", error);
    }
  }

  // Each part goes to the disk before the next is written: else one long wait would end it all.
  void write(std::size_t most) {
    std::vector<std::uint64_t> noise(part / sizeof(std::uint64_t));
    std::uint64_t state = 1;
    for (std::uint64_t& word : noise) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      word = state ^ state >> 32U;
    }
    const auto begin = Clock::now();
    for (std::size_t written = 0;
         written + part <= most && (written < least || seconds_since(begin) < most_seconds);) {
      for (std::size_t i = 0; i < noise.size(); i += 512) {
        noise[i] =
            written + i; // no two blocks are the same, for file systems that would share them
      }
      const auto* const from = reinterpret_cast<const char*>(noise.data());
      for (std::size_t done = 0; done < part;) {
        const ssize_t some = ::write(file_, from + done, part - done);
        if (some < 0 && errno != EINTR) {
          fail("write to", errno);
        }
        done += some > 0 ? static_cast<std::size_t>(some) : 0;
      }
      if (::fdatasync(file_) != 0) {
        fail("write to", errno);
      }
      written += part;
    }
  }

  [[noreturn]] void fail(const char* what, int error) const {
    throw std::runtime_error{
        "cannot " + std::string{what} + " " + folder_ + ": " +
        std::generic_category().message(error) +
        ". Name a FILE, or set TMPDIR to a folder on a disk with room that you "
        "may write to"};
  }

  std::string folder_;
  int file_ = -1;
};

} // namespace doctor
