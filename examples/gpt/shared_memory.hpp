// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/meeting.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace transformer {

/// Memory that all ranks of a host have in common, and a barrier for them. It has no name in the
/// file system, and goes with the last of them, however that ends.
class SharedMemory {
 public:
  /// Returns when all ranks are here; all must ask for as many bytes. `patience`: for how long a
  /// rank waits for the others; 0: for ever. Throws std::runtime_error.
  SharedMemory(Meeting& meeting, std::size_t bytes, std::chrono::seconds patience)
      : ranks_{meeting.ranks()}, patience_{patience}, memory_{nullptr, {head_bytes + bytes}} {
    if (ranks_.local_world != ranks_.world) {
      throw std::runtime_error{"of " + std::to_string(ranks_.world) + " ranks only " +
                               std::to_string(ranks_.local_world) +
                               " are on this host, and without GPUs ranks share memory: start all "
                               "of them on one host, or give --device cuda"};
    }
    std::array<char, 64> path{};
    const auto bytes_of_path = std::as_writable_bytes(std::span{path});
    if (ranks_.rank == 0) {
      const File file{::memfd_create("ranks", MFD_CLOEXEC)};
      make(file);
      std::snprintf(path.data(), path.size(), "/proc/%d/fd/%d", ::getpid(), file.fd);
      meeting.share(bytes_of_path);
      wait_for_all(); // until then the others open it
    } else {
      meeting.share(bytes_of_path);
      map(File{::open(path.data(), O_RDWR | O_CLOEXEC)});
      wait_for_all();
    }
  }

  /// Returns the bytes, aligned to a cache line; zeros at first.
  std::byte* data() const noexcept { return memory_.get() + head_bytes; }
  /// Returns when all ranks have called it as often: all that they wrote before is there. Throws
  /// std::runtime_error if one does not, for as long as this one has patience.
  void wait_for_all() {
    const auto until = std::chrono::steady_clock::now() + patience_;
    std::atomic<std::uint32_t>& came = *arrivals();
    awaited_ += ranks_.world;
    std::uint32_t seen = came.fetch_add(1) + 1;
    if (seen == awaited_) {
      ::syscall(SYS_futex, &came, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
      return;
    }
    // Another rank may be one barrier ahead; the count begins anew behind its largest number.
    while (static_cast<std::int32_t>(seen - awaited_) < 0) {
      if (patience_.count() != 0 && std::chrono::steady_clock::now() > until) {
        throw std::runtime_error{"rank " + std::to_string(ranks_.rank) + " of " +
                                 std::to_string(ranks_.world) + " has waited " +
                                 std::to_string(patience_.count()) +
                                 " s for the others: one is gone, or stopped. See what they have "
                                 "printed, or give --stall more"};
      }
      const timespec nap{.tv_sec = 0, .tv_nsec = 100'000'000};
      ::syscall(SYS_futex, &came, FUTEX_WAIT, seen, &nap, nullptr, 0);
      seen = came.load();
    }
  }

 private:
  static constexpr std::size_t head_bytes = 128;
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

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
  std::atomic<std::uint32_t>* arrivals() const noexcept {
    return std::launder(reinterpret_cast<std::atomic<std::uint32_t>*>(memory_.get()));
  }
  void make(const File& file) {
    // A page that there is no memory for would otherwise kill whoever touches it.
    const int refused =
        file.fd < 0 ? errno : ::posix_fallocate(file.fd, 0, static_cast<off_t>(bytes()));
    if (refused != 0) {
      fail(refused);
    }
    map(file);
    new (memory_.get()) std::atomic<std::uint32_t>{0};
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

  penstock::Ranks ranks_;
  std::chrono::seconds patience_;
  std::unique_ptr<std::byte, Unmap> memory_;
  std::uint32_t awaited_ = 0; // arrivals, of all ranks together
};

} // namespace transformer
