// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/io/descriptors.hpp>
#include <penstock/io/detail/uring_ring.hpp>
#include <penstock/io/many_reads.hpp>
#include <penstock/io/posix.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace penstock {

/// The system calls that io_uring is used with. A policy: a test's that is refused may stand in its
/// place. Each returns -1 and sets errno if it fails; any thread may call.
class UringCalls {
 public:
  /// Makes a ring. Returns its descriptor.
  int setup(unsigned entries, io_uring_params& params) const noexcept;
  /// Hands over `submit` entries, and returns when `complete` reads have ended, or earlier.
  int enter(int ring, unsigned submit, unsigned complete) const noexcept;
  /// Changes what a ring has registered.
  int change(int ring, unsigned what, const void* to, unsigned count) const noexcept;
  /// Opens an open file once more, whatever name it has by now. Fails if that gives another file,
  /// as where /proc is not this system's.
  int open_again(int fd) const noexcept;
  /// Returns whether the file system reads for io_uring in place. Where it cannot, the kernel hands
  /// each read to a thread of its own, which takes several times as long as to read.
  bool reads_in_place(int fd) const noexcept;
  int close(int fd) const noexcept { return ::close(fd); } ///< Closes a ring, or a file.
  void pause() const { PosixIo{}.pause(); }                ///< Waits before a call is made again.
};

template <class Calls> class BasicUringIo;

/// Reads many parts of files at once by io_uring, with a ring for each thread that reads: see
/// ReadsMany. Where the system forbids that, or a file system is none for it, it reads nothing. A
/// forked child makes rings of its own. Any number of threads.
template <class Calls> class UringReads {
 public:
  /// Parts that are read at once.
  static constexpr std::size_t most = detail::UringRing<Calls>::depth;
  /// Reads of more bytes gain nothing.
  static constexpr std::size_t most_bytes = std::size_t{64} << 10;

  /// For files that are open as long as this lives; makes no ring yet.
  UringReads(const BasicUringIo<Calls>& io, std::span<const int> files)
      : calls_{io.calls()}, files_(files.size()), places_(most_rings) {
    std::transform(files.begin(), files.end(), files_.begin(), [this](int file) {
      return file >= 0 && calls_.reads_in_place(file) ? file : -1;
    });
    any_ = std::any_of(files_.begin(), files_.end(), [](int file) { return file >= 0; });
  }

  /// Returns whether it reads anything.
  bool usable() const noexcept {
    return any_ && (refused_.load(StdAtomics::relaxed) == 0 || made_.load(StdAtomics::relaxed));
  }
  /// Reads small parts by this thread's ring, unless another thread uses that just now. A thread
  /// gets its ring when it reads for the first time. Blocks.
  void read(std::span<FileRead> parts) noexcept {
    if (std::count_if(parts.begin(), parts.end(), [this](auto& part) { return gains(part); }) < 2) {
      return;
    }
    WorkerRing& place = places_[detail::thread_number() % places_.size()];
    // Pairs with the store below: the ring is as the thread before left it.
    if (place.in_use.exchange(true, StdAtomics::acquire)) {
      return;
    }
    if (place.ring && !place.ring->is_here()) {
      place.ring = {}; // this process is a child of the one that made it
    }
    if (!place.ring && refused_.load(StdAtomics::relaxed) == 0) {
      make(place);
    }
    if (place.ring) {
      read(place, parts);
    }
    place.in_use.store(false, StdAtomics::release);
  }
  /// Returns whether rings were made, or why not; nothing if none was wanted.
  [[gnu::cold]] std::string note() const {
    const int error = refused_.load(StdAtomics::relaxed);
    const std::string why = std::generic_category().message(error);
    const bool made = made_.load(StdAtomics::relaxed);
    return !any_        ? "small records not by io_uring, which is slow on this file system"
           : error == 0 ? made ? "small records by io_uring, a ring a thread" : ""
           : made       ? "small records by io_uring, until it failed: " + why
                        : "io_uring is not to be had here: " + why;
  }

 private:
  // As many as readers there may be.
  static constexpr std::size_t most_rings = 16;

  struct alignas(detail::cache_line) WorkerRing {
    StdAtomics::Atomic<bool> in_use{false};
    detail::Owned<detail::UringRing<Calls>> ring;
  };

  bool gains(const FileRead& part) const noexcept {
    return part.into.size() <= most_bytes && part.file < files_.size() && files_[part.file] >= 0;
  }
  [[gnu::cold]] void make(WorkerRing& place) noexcept {
    int error = 0;
    place.ring = detail::UringRing<Calls>::made(calls_, {files_.data(), files_.size()}, error);
    if (place.ring) {
      made_.store(true, StdAtomics::relaxed);
    } else {
      refused_.store(error, StdAtomics::relaxed);
    }
  }
  void read(WorkerRing& place, std::span<FileRead> parts) noexcept {
    for (FileRead& part : parts) {
      if (gains(part)) {
        place.ring->put(part);
      }
    }
    if (const int error = place.ring->run(); error != 0) {
      refused_.store(error, StdAtomics::relaxed);
      place.ring = {};
    }
  }

  Calls calls_;
  detail::Vector<int> files_;
  detail::Vector<WorkerRing> places_;
  bool any_{};
  StdAtomics::Atomic<bool> made_{false};
  StdAtomics::Atomic<int> refused_{0}; // an errno
};

/// A PosixIo that reads small records at random places, from the page cache, many at once by
/// io_uring: `records<T>(path, {}, UringIo{})` with an order that shuffles.
template <class Calls = UringCalls> class BasicUringIo : public PosixIo {
 public:
  using ManyReads = UringReads<Calls>; ///< See ReadsMany.

  /// Takes the system calls.
  explicit BasicUringIo(Calls calls = {}) : calls_{std::move(calls)} {}
  /// Returns them.
  const Calls& calls() const noexcept { return calls_; }

 private:
  Calls calls_;
};
/// The usual one.
using UringIo = BasicUringIo<>;

#if PENSTOCK_BODIES
PENSTOCK_INLINE int UringCalls::setup(unsigned entries, io_uring_params& params) const noexcept {
  return static_cast<int>(::syscall(__NR_io_uring_setup, entries, &params));
}

PENSTOCK_INLINE int UringCalls::enter(int ring, unsigned submit, unsigned complete) const noexcept {
  return static_cast<int>(
      ::syscall(__NR_io_uring_enter, ring, submit, complete, IORING_ENTER_GETEVENTS, nullptr, 0));
}

PENSTOCK_INLINE int UringCalls::change(int ring, unsigned what, const void* to,
                                       unsigned count) const noexcept {
  return static_cast<int>(::syscall(__NR_io_uring_register, ring, what, to, count));
}

PENSTOCK_INLINE int UringCalls::open_again(int fd) const noexcept {
  char path[48] = "/proc/thread-self/fd/"; // a thread may have descriptors of its own
  *std::to_chars(path + std::char_traits<char>::length(path), std::end(path) - 1, fd).ptr = '\0';
  const int again = ::open(path, O_RDONLY | O_CLOEXEC);
  struct stat old, now;
  if (again >= 0 && (::fstat(fd, &old) != 0 || ::fstat(again, &now) != 0 ||
                     old.st_dev != now.st_dev || old.st_ino != now.st_ino)) {
    ::close(again);
    errno = EBADF;
    return -1;
  }
  return again;
}

PENSTOCK_INLINE bool UringCalls::reads_in_place(int fd) const noexcept {
  std::byte any;
  const iovec into{&any, 1};
  return ::preadv2(fd, &into, 1, 0, RWF_NOWAIT) >= 0 || errno != EOPNOTSUPP;
}
#endif

} // namespace penstock
