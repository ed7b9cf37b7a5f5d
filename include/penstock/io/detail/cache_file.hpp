// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/io/descriptors.hpp>
#include <penstock/io/detail/cache_shape.hpp>
#include <penstock/io/posix.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace penstock {

/// The system calls that a cache's file is used with, beside PosixIo's. A policy: a test's whose
/// disk is full may stand in its place. Any thread may call.
class CacheCalls : public PosixIo {
 public:
  /// Opens a file for reading and writing.
  int open_both(const char* path) const noexcept { return ::open(path, O_RDWR | O_CLOEXEC); }
  /// Makes a file that only this user may read.
  int create_both(const char* path) const noexcept {
    return ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  }
  /// Returns whether several hosts may see a file, each with a page cache of its own.
  bool on_network(int fd) const noexcept {
    constexpr std::array<std::uint32_t, 9> networks{0x6969,      // NFS
                                                    0x517B,      // SMB
                                                    0xFE534D42,  // SMB 2
                                                    0xFF534D42,  // CIFS
                                                    0x00C36400,  // Ceph
                                                    0x01021997,  // 9P
                                                    0x0BD00BD0,  // Lustre
                                                    0x47504653,  // GPFS
                                                    0x19830326}; // BeeGFS
    struct statfs s;
    return ::fstatfs(fd, &s) == 0 &&
           std::find(networks.begin(), networks.end(), static_cast<std::uint32_t>(s.f_type)) !=
               networks.end();
  }
};

} // namespace penstock

namespace penstock::detail {

/// A cache's file, opened and mapped. Many threads and processes.
template <class Calls> class CacheFile {
 public:
  /// Opens the file in `folder`, which it makes if it is missing; begins a new one if the present
  /// one has another shape. It is not usable() if the disk is full. Throws OptionError if the
  /// folder cannot have it. Blocks.
  CacheFile(const Calls& calls, const std::string& folder, const CacheShape& shape)
      : calls_{calls}, shape_{shape} {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      refuse("make the folder ", folder, errno);
    }
    const std::string path = folder + "/penstock.cache";
    for (unsigned tries = 0; !map(path); ++tries) {
      // Another process may make one at the same time: then that one is opened.
      if (tries == most_tries) {
        refuse("open ", path, EBUSY);
      }
      if (!make(path)) {
        return;
      }
    }
    open_more(path);
  }
  CacheFile(const CacheFile&) = delete;
  CacheFile& operator=(const CacheFile&) = delete;
  ~CacheFile() {
    if (at_) {
      ::munmap(at_, shape_.first_block());
    }
  }

  bool usable() const noexcept { return at_ != nullptr; }
  int error() const noexcept { return error_; } ///< An errno: why it is not.
  const CacheShape& shape() const noexcept { return shape_; }
  CachePlace& place(std::uint64_t i) const noexcept {
    return reinterpret_cast<CachePlace*>(at_ + CacheShape::page)[i];
  }
  /// Counts the blocks that were written: the time by which the oldest goes.
  CachePlace::Number& clock() const noexcept {
    return *reinterpret_cast<CachePlace::Number*>(at_ + CacheShape::clock_at);
  }

  /// Reads bytes of a place's block. Returns whether all came. Blocks.
  bool read(std::uint64_t place, std::uint64_t offset, std::span<std::byte> into) const {
    // Threads that share a descriptor would wait for each other: see Descriptors.
    const int own = open_.all[thread_number() % open_.all.size()];
    for (std::uint64_t at = offset_of(place) + offset; !into.empty();) {
      const std::int64_t got = persist(calls_, [&] {
        return calls_.read(own < 0 ? open_.all[0] : own, into.data(), into.size(), at);
      });
      if (got <= 0) {
        return false;
      }
      into = into.subspan(static_cast<std::size_t>(got));
      at += static_cast<std::uint64_t>(got);
    }
    return true;
  }
  /// Writes a place's block. Returns an errno. Blocks.
  int write(std::uint64_t place, std::span<const std::byte> from) const {
    return write(open_.all[0], offset_of(place), from);
  }

  /// The right to write into the places of a set, which one process has at a time, and none that
  /// was killed.
  class [[nodiscard]] SetLock {
   public:
    SetLock(const CacheFile& file, std::uint64_t set) : file_{file}, set_{set} {
      had_ = file.lock(set, F_WRLCK);
    }
    SetLock(const SetLock&) = delete;
    SetLock& operator=(const SetLock&) = delete;
    ~SetLock() {
      if (had_) {
        file_.lock(set_, F_UNLCK);
      }
    }
    /// Returns whether it was free.
    explicit operator bool() const noexcept { return had_; }

   private:
    const CacheFile& file_;
    const std::uint64_t set_;
    bool had_;
  };

 private:
  static constexpr unsigned most_tries = 100;

  struct Open {
    Open() { all.fill(-1); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open() {
      std::for_each(all.begin(), all.end(), [](int fd) { fd < 0 ? 0 : ::close(fd); });
    }
    std::array<int, Descriptors<PosixIo>::most> all;
  };

  [[noreturn]] static void refuse(const char* doing, const std::string& path, int error) {
    throw_error<OptionError>({"penstock: CachedIo: cannot ", doing, path, ": ",
                              std::generic_category().message(error),
                              ". Give as .cache a folder on a disk of this host that this user may "
                              "write to."});
  }

  std::uint64_t offset_of(std::uint64_t place) const noexcept {
    return shape_.first_block() + place * shape_.block_bytes;
  }

  int write(int fd, std::uint64_t at, std::span<const std::byte> from) const {
    while (!from.empty()) {
      const std::int64_t got =
          persist(calls_, [&] { return calls_.write(fd, from.data(), from.size(), at); });
      if (got <= 0) {
        return got < 0 ? errno : EIO;
      }
      from = from.subspan(static_cast<std::size_t>(got));
      at += static_cast<std::uint64_t>(got);
    }
    return 0;
  }

  // Returns whether the file is there and has the shape.
  bool map(const std::string& path) {
    const int fd = calls_.open_both(path.c_str());
    if (fd < 0) {
      return errno == ENOENT ? false : (refuse("open ", path, errno), false);
    }
    open_.all[0] = fd;
    refuse_network(fd, path);
    CacheShape found;
    struct stat s;
    const bool same = ::fstat(fd, &s) == 0 &&
                      calls_.read(fd, reinterpret_cast<std::byte*>(&found), sizeof found, 0) ==
                          static_cast<std::int64_t>(sizeof found) &&
                      found == shape_ && static_cast<std::uint64_t>(s.st_size) == shape_.bytes();
    if (!same) {
      calls_.close(std::exchange(open_.all[0], -1));
      calls_.unlink(path.c_str()); // who has it open keeps it
      return false;
    }
    void* const at =
        ::mmap(nullptr, shape_.first_block(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
      const int error = errno;
      calls_.close(std::exchange(open_.all[0], -1));
      refuse("map ", path, error);
    }
    at_ = static_cast<std::byte*>(at);
    return true;
  }

  // Makes a new file, which has its name when it is whole. Returns false if the disk is full.
  bool make(const std::string& path) {
    const std::string stem = path + "." + std::to_string(::getpid()) + ".";
    std::string name;
    int fd = -1;
    for (unsigned tries = 0; fd < 0; ++tries) {
      name = stem + std::to_string(tries);
      fd = calls_.create_both(name.c_str());
      if (fd < 0 && (errno != EEXIST || tries == most_tries)) {
        refuse("make ", name, errno);
      }
    }
    const struct Temporary {
      const Calls& calls;
      const std::string& name;
      int fd;
      ~Temporary() {
        calls.unlink(name.c_str());
        calls.close(fd);
      }
    } temporary{calls_, name, fd};
    refuse_network(fd, name);
    std::array<std::byte, 16 * CacheShape::page> bytes{};
    std::memcpy(bytes.data(), &shape_, sizeof shape_);
    // All of what is mapped is written, since a mapped page that finds no room ends the process.
    for (std::uint64_t at = 0; at < shape_.first_block() && error_ == 0; at += bytes.size()) {
      const std::uint64_t some = std::min<std::uint64_t>(bytes.size(), shape_.first_block() - at);
      error_ = write(fd, at, std::span{bytes}.first(static_cast<std::size_t>(some)));
      std::memset(bytes.data(), 0, sizeof shape_);
    }
    if (error_ == 0 && ::ftruncate(fd, static_cast<off_t>(shape_.bytes())) != 0) {
      error_ = errno;
    }
    if (error_ == 0 && calls_.link(name.c_str(), path.c_str()) != 0 && errno != EEXIST) {
      refuse("make ", path, errno);
    }
    return error_ == 0;
  }

  void refuse_network(int fd, const std::string& path) {
    if (calls_.on_network(fd)) {
      throw_error<OptionError>({"penstock: CachedIo: ", path,
                                " lies on a disk of the network, where other hosts could change it "
                                "unseen. Give as .cache a folder on a disk of this host."});
    }
  }

  void open_more(const std::string& path) {
    struct stat first, more;
    for (std::size_t i = 1; i != open_.all.size() && ::fstat(open_.all[0], &first) == 0; ++i) {
      const int fd = calls_.open_both(path.c_str());
      if (fd < 0) {
        return;
      }
      if (::fstat(fd, &more) != 0 || more.st_dev != first.st_dev || more.st_ino != first.st_ino ||
          !may_stay_open(fd)) {
        calls_.close(fd);
        return;
      }
      open_.all[i] = fd;
    }
  }

  bool lock(std::uint64_t set, int type) const {
    struct flock range{};
    range.l_type = static_cast<short>(type);
    range.l_whence = SEEK_SET;
    range.l_start = static_cast<off_t>(set);
    range.l_len = 1;
    // Of the open file, not of the process: a second CachedIo of this process is another holder.
    return ::fcntl(open_.all[0], F_OFD_SETLK, &range) == 0;
  }

  Calls calls_;
  const CacheShape shape_;
  Open open_;
  std::byte* at_{};
  int error_{};
};

} // namespace penstock::detail
