// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/threads.hpp>
#include <penstock/machine/usable.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock {

/// What a path names.
enum class FileKind { regular, directory, other };

/// What a file system says of a file. Two are equal if they are of the same file, not written to
/// between.
struct FileStatus {
  FileKind kind{};          ///< What it is.
  std::uint64_t size{};     ///< In bytes.
  std::uint64_t device{};   ///< The file system that it lies on.
  std::uint64_t inode{};    ///< Its number on that file system.
  std::uint64_t modified{}; ///< When it was last written to: nanoseconds since 1970, modulo 2^64.
  bool operator==(const FileStatus&) const = default; ///< Compares all of it.
};

/// The system calls that files are read and written with. A policy: anything cheap to copy with the
/// same members may stand in its place, such as a test's that fails on demand; code that only reads
/// needs none of NewFile's, create() to unlink(). Each returns -1 and sets errno if it fails, or
/// throws a SourceError that says more; any thread may call.
class PosixIo {
 public:
  using Folder = DIR*; ///< An open directory.

  /// Opens a file for reading. Never waits for a FIFO's writer.
  int open(const char* path) const noexcept;
  /// Opens a file to be read past the page cache: see direct_alignment(). File systems may refuse,
  /// with EINVAL.
  int open_direct(const char* path) const noexcept;
  int close(int fd) const noexcept { return ::close(fd); } ///< Closes a file.
  /// Asks about what lies at `path`, behind links.
  int status(const char* path, FileStatus& status) const noexcept;
  /// Asks about an open file.
  int status(int fd, FileStatus& status) const noexcept;
  /// Returns what addresses, offsets and counts of reads must be multiples of, for a file that
  /// open_direct() opened: a power of two.
  std::int64_t direct_alignment(int fd) const noexcept;
  /// Tells how much of a file of `size` bytes, not 0, lies in the page cache: a share from 0 to 1,
  /// by a look at some pages. It reads none of them, so that looking changes nothing. Linux tells
  /// this only to users who may write the file; others hear that all of it is there.
  int cached(int fd, std::uint64_t size, double& share) const noexcept;
  /// Returns the bytes of memory that are free, or that the page cache would give up; 0 if the
  /// system does not say.
  std::uint64_t available_memory() const { return usable_memory(); }
  /// Returns how many bytes it read: perhaps fewer than asked, 0 at the file's end. Blocks.
  std::int64_t read(int fd, std::byte* into, std::size_t bytes,
                    std::uint64_t offset) const noexcept;
  /// Has the system begin to read a part of a file into the page cache. An Io may lack it.
  int will_read(int fd, std::uint64_t offset, std::uint64_t bytes) const noexcept;
  /// Opens a directory for next_name().
  int open_folder(const char* path, Folder& folder) const noexcept;
  /// Sets `name` to null after the last, else to a name that is valid until the next call.
  int next_name(Folder folder, const char*& name) const noexcept;
  int close_folder(Folder folder) const noexcept { return ::closedir(folder); } ///< Ends a listing.
  /// Makes a new file, for writing. Fails with EEXIST if anything has that name.
  int create(const char* path) const noexcept;
  /// Returns how many bytes it wrote: perhaps fewer than asked. Blocks. Beyond the limit on files'
  /// sizes it fails with EFBIG, and sends no signal.
  std::int64_t write(int fd, const std::byte* from, std::size_t bytes,
                     std::uint64_t offset) const noexcept;
  /// Returns when all that was written to a file is on its disk. Blocks.
  int sync(int fd) const noexcept { return ::fsync(fd); }
  /// Returns when the names in a folder are on its disk. Some file systems cannot, and say EINVAL.
  int sync_folder(const char* path) const noexcept;
  /// Gives the file called `from` the name `to`, at once: `to` is the old file or the new one at
  /// any time. If `to` is a link, the link is replaced.
  int rename(const char* from, const char* to) const noexcept { return ::rename(from, to); }
  /// Gives the file called `from` a second name, which nothing has.
  int link(const char* from, const char* to) const noexcept { return ::link(from, to); }
  int unlink(const char* path) const noexcept { return ::unlink(path); } ///< Removes a name.
  /// Waits before a call that said "try again later" is made again.
  void pause() const { std::this_thread::sleep_for(std::chrono::milliseconds{1}); }

 private:
  static int filled(int result, const struct stat& from, FileStatus& to) noexcept;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE int PosixIo::open(const char* path) const noexcept {
  return ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

PENSTOCK_INLINE int PosixIo::open_direct(const char* path) const noexcept {
  return ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
}

PENSTOCK_INLINE int PosixIo::status(const char* path, FileStatus& status) const noexcept {
  struct stat s;
  return filled(::stat(path, &s), s, status);
}

PENSTOCK_INLINE int PosixIo::status(int fd, FileStatus& status) const noexcept {
  struct stat s;
  return filled(::fstat(fd, &s), s, status);
}

PENSTOCK_INLINE std::int64_t PosixIo::direct_alignment(int fd) const noexcept {
#if defined(STATX_DIOALIGN)
  struct statx s;
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &s) == 0 &&
      (s.stx_mask & STATX_DIOALIGN) != 0) {
    const unsigned alignment = std::max(s.stx_dio_mem_align, s.stx_dio_offset_align);
    errno = EINVAL; // as to read it would
    return s.stx_dio_offset_align != 0 ? static_cast<std::int64_t>(alignment) : -1;
  }
#else
  static_cast<void>(fd);
#endif
  return detail::page; // older systems do not say, and disks have no larger blocks
}

PENSTOCK_INLINE int PosixIo::cached(int fd, std::uint64_t size, double& share) const noexcept {
  constexpr std::uint64_t most_places = 64;
  void* const at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    return -1;
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t pages = (size - 1) / page + 1;
  const std::uint64_t places = std::min(pages, most_places);
  std::uint64_t found = 0;
  int result = 0;
  for (std::uint64_t place = 0; place < places && result == 0; ++place) {
    unsigned char in_cache = 0;
    const std::uint64_t number = place * (pages / places) + pages / places / 2;
    result = ::mincore(static_cast<std::byte*>(at) + number * page, 1, &in_cache);
    found += in_cache & 1U;
  }
  share = static_cast<double>(found) / static_cast<double>(places);
  const int error = errno;
  ::munmap(at, size);
  errno = error;
  return result;
}

PENSTOCK_INLINE std::int64_t PosixIo::read(int fd, std::byte* into, std::size_t bytes,
                                           std::uint64_t offset) const noexcept {
  return ::pread(fd, into, bytes, static_cast<off_t>(offset));
}

PENSTOCK_INLINE int PosixIo::will_read(int fd, std::uint64_t offset,
                                       std::uint64_t bytes) const noexcept {
  return ::posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                         POSIX_FADV_WILLNEED);
}

PENSTOCK_INLINE int PosixIo::open_folder(const char* path, Folder& folder) const noexcept {
  folder = ::opendir(path);
  return folder ? 0 : -1;
}

PENSTOCK_INLINE int PosixIo::next_name(Folder folder, const char*& name) const noexcept {
  errno = 0; // only errno tells readdir()'s end from an error
  const dirent* entry = ::readdir(folder);
  name = entry ? entry->d_name : nullptr;
  return entry || errno == 0 ? 0 : -1;
}

PENSTOCK_INLINE int PosixIo::create(const char* path) const noexcept {
  return ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

PENSTOCK_INLINE std::int64_t PosixIo::write(int fd, const std::byte* from, std::size_t bytes,
                                            std::uint64_t offset) const noexcept {
  const detail::NoSizeSignal quiet;
  return ::pwrite(fd, from, bytes, static_cast<off_t>(offset));
}

PENSTOCK_INLINE int PosixIo::sync_folder(const char* path) const noexcept {
  const int fd = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return -1;
  }
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  errno = error;
  return result;
}

PENSTOCK_INLINE int PosixIo::filled(int result, const struct stat& from, FileStatus& to) noexcept {
  if (result == 0) {
    to.kind = S_ISREG(from.st_mode)   ? FileKind::regular
              : S_ISDIR(from.st_mode) ? FileKind::directory
                                      : FileKind::other;
    to.size = static_cast<std::uint64_t>(from.st_size);
    to.device = from.st_dev;
    to.inode = from.st_ino;
    to.modified = static_cast<std::uint64_t>(from.st_mtim.tv_sec) * 1'000'000'000 +
                  static_cast<std::uint64_t>(from.st_mtim.tv_nsec);
  }
  return result;
}
#endif

} // namespace penstock
