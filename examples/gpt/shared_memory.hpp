// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/rank_watch.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace transformer {

/// Memory that all ranks of a host have in common, and a barrier for them. It has no name in the
/// file system, and goes with the last of them, however that ends.
class SharedMemory {
 public:
  /// Returns when all ranks of the watch are here; all must ask for as many bytes. Throws
  /// std::runtime_error.
  SharedMemory(penstock::RankWatch& watch, std::size_t bytes)
      : memory_{nullptr, {head_bytes + bytes}} {
    const penstock::Ranks& ranks = watch.ranks();
    if (ranks.local_world != ranks.world) {
      throw std::runtime_error{"of " + std::to_string(ranks.world) + " ranks only " +
                               std::to_string(ranks.local_world) +
                               " are on this host, and without GPUs ranks share memory: start all "
                               "of them on one host, or give --device cuda"};
    }
    std::array<char, 64> path{};
    const auto bytes_of_path = std::as_writable_bytes(std::span{path});
    if (ranks.rank == 0) {
      const File file{::memfd_create("ranks", MFD_CLOEXEC)};
      make(file, ranks.world);
      std::snprintf(path.data(), path.size(), "/proc/%d/fd/%d", ::getpid(), file.fd);
      watch.share(bytes_of_path);
      wait_for_all(); // until then the others open it
    } else {
      watch.share(bytes_of_path);
      map(File{::open(path.data(), O_RDWR | O_CLOEXEC)});
      wait_for_all();
    }
  }

  /// Returns the bytes, aligned to a cache line; zeros at first.
  std::byte* data() const noexcept { return memory_.get() + head_bytes; }
  /// Returns when all ranks have called it as often: all that they wrote before is there.
  void wait_for_all() noexcept { ::pthread_barrier_wait(barrier()); }

 private:
  static constexpr std::size_t head_bytes = 128;
  static_assert(sizeof(pthread_barrier_t) <= head_bytes);

  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* at) const noexcept { ::munmap(at, bytes); }
  };
  struct File {
    explicit File(int opened) : fd{opened} {}
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() { ::close(fd); }
    int fd;
  };

  std::size_t bytes() const noexcept { return memory_.get_deleter().bytes; }
  pthread_barrier_t* barrier() const noexcept {
    return std::launder(reinterpret_cast<pthread_barrier_t*>(memory_.get()));
  }
  void make(const File& file, unsigned ranks) {
    // A page that there is no memory for would otherwise kill whoever touches it.
    const int refused =
        file.fd < 0 ? errno : ::posix_fallocate(file.fd, 0, static_cast<off_t>(bytes()));
    if (refused != 0) {
      fail(refused);
    }
    map(file);
    pthread_barrierattr_t of_processes;
    ::pthread_barrierattr_init(&of_processes);
    ::pthread_barrierattr_setpshared(&of_processes, PTHREAD_PROCESS_SHARED);
    ::pthread_barrier_init(new (memory_.get()) pthread_barrier_t, &of_processes, ranks);
    ::pthread_barrierattr_destroy(&of_processes);
  }
  void map(const File& file) {
    void* const at = file.fd < 0
                         ? MAP_FAILED
                         : ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    if (at == MAP_FAILED) {
      fail(errno);
    }
    memory_.reset(static_cast<std::byte*>(at));
  }
  [[noreturn]] void fail(int why) const {
    throw std::runtime_error{"the ranks of this host cannot share " + std::to_string(bytes()) +
                             " bytes of memory: " + std::generic_category().message(why) +
                             ". Start them as one user and in one container, or start fewer"};
  }

  std::unique_ptr<std::byte, Unmap> memory_;
};

} // namespace transformer
