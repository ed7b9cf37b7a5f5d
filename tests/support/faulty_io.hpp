// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/file.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

namespace penstock::tests {

/// One call that may be made to fail.
struct IoCall {
  /// 1 for the first, counted over all kinds of calls and all threads.
  long number;
  /// "open", "open_direct", "close", "status", "direct_alignment", "cached", "read",
  /// "read_direct", "open_folder", "next_name", "close_folder", "create", "write", "sync",
  /// "sync_folder", "rename", "link" or "unlink".
  std::string_view name;
  /// "" if the call has a descriptor; for a rename or a link, the new path.
  std::string_view path;
};

/// What goes wrong; to be set before the first call.
struct IoFaults {
  /// The errno that this call fails with, 0 for none. Called from many threads.
  std::function<int(const IoCall&)> error = [](const IoCall&) { return 0; };
  /// A read gives no more than this, and a write takes no more.
  std::size_t most_bytes = std::numeric_limits<std::size_t>::max();
  /// Reads end here, whatever size the file is said to have.
  std::uint64_t ends_at = std::numeric_limits<std::uint64_t>::max();
  /// Not 0: files can be read directly, wherever they lie, and such reads must be aligned to this.
  std::size_t direct_alignment = 0;
  /// Bytes of memory that are said to be free.
  std::uint64_t memory = 0;
  /// If not negative, the share of each file that is said to be in the page cache.
  double cached = -1;

  static IoFaults fail_once(long number, int error) {
    return fail([number, error](const IoCall& call) { return call.number == number ? error : 0; });
  }
  static IoFaults fail_from(long number, int error) {
    return fail([number, error](const IoCall& call) { return call.number >= number ? error : 0; });
  }
  static IoFaults fail(std::function<int(const IoCall&)> error) {
    IoFaults faults;
    faults.error = std::move(error);
    return faults;
  }
};

/// An Io that fails as told, and counts its calls. A handle: copies share their counts.
template <class Inner = PosixIo> class FaultyIo {
 public:
  using Folder = typename Inner::Folder;

  explicit FaultyIo(IoFaults faults = {}, Inner inner = {})
      : inner_{std::move(inner)}, shared_{std::make_shared<Shared>(std::move(faults))} {}

  long calls() const { return shared_->calls; }
  long failures() const { return shared_->failures; }
  long opens() const { return shared_->opens; }
  long reads() const { return shared_->reads; } ///< Direct ones too.
  long direct_reads() const { return shared_->direct_reads; }
  long pauses() const { return shared_->pauses; }
  /// Files and folders that are open now, and the most that ever were.
  long open_now() const { return shared_->open_now; }
  long open_most() const { return shared_->open_most; }

  int open(const char* path) const {
    if (fails("open", path)) {
      return -1;
    }
    const int fd = inner_.open(path);
    if (fd >= 0) {
      ++shared_->opens;
      opened();
    }
    return fd;
  }
  int open_direct(const char* path) const {
    if (fails("open_direct", path)) {
      return -1;
    }
    const int fd = aligned() ? inner_.open(path) : inner_.open_direct(path);
    if (fd >= 0) {
      ++shared_->opens;
      opened();
      shared_->direct[static_cast<std::size_t>(fd) % shared_->direct.size()] = true;
    }
    return fd;
  }
  std::int64_t direct_alignment(int fd) const {
    if (fails("direct_alignment")) {
      return -1;
    }
    return aligned() ? static_cast<std::int64_t>(shared_->faults.direct_alignment)
                     : inner_.direct_alignment(fd);
  }
  int cached(int fd, std::uint64_t size, double& share) const {
    if (fails("cached")) {
      return -1;
    }
    const int result = inner_.cached(fd, size, share);
    share = shared_->faults.cached < 0 ? share : shared_->faults.cached;
    return result;
  }
  std::uint64_t available_memory() const { return shared_->faults.memory; }
  int close(int fd) const {
    --shared_->open_now;
    shared_->direct[static_cast<std::size_t>(fd) % shared_->direct.size()] = false;
    const int result = inner_.close(fd); // a close that fails has closed
    return fails("close") ? -1 : result;
  }
  int status(const char* path, FileStatus& status) const {
    return fails("status", path) ? -1 : inner_.status(path, status);
  }
  int status(int fd, FileStatus& status) const {
    return fails("status") ? -1 : inner_.status(fd, status);
  }
  std::int64_t read(int fd, std::byte* into, std::size_t bytes, std::uint64_t offset) const {
    ++shared_->reads;
    const bool direct = shared_->direct[static_cast<std::size_t>(fd) % shared_->direct.size()];
    shared_->direct_reads += direct ? 1 : 0;
    if (fails(direct ? "read_direct" : "read")) {
      return -1;
    }
    if (direct && aligned() &&
        (reinterpret_cast<std::uintptr_t>(into) | bytes | offset) %
                shared_->faults.direct_alignment !=
            0) {
      ++shared_->failures;
      errno = EINVAL;
      return -1;
    }
    const std::uint64_t there = shared_->faults.ends_at - std::min(offset, shared_->faults.ends_at);
    bytes = std::min({bytes, shared_->faults.most_bytes, static_cast<std::size_t>(there)});
    return bytes == 0 ? 0 : inner_.read(fd, into, bytes, offset);
  }
  int open_folder(const char* path, Folder& folder) const {
    if (fails("open_folder", path)) {
      return -1;
    }
    const int result = inner_.open_folder(path, folder);
    if (result >= 0) {
      opened();
    }
    return result;
  }
  int next_name(Folder folder, const char*& name) const {
    return fails("next_name") ? -1 : inner_.next_name(folder, name);
  }
  int close_folder(Folder folder) const {
    --shared_->open_now;
    const int result = inner_.close_folder(folder);
    return fails("close_folder") ? -1 : result;
  }
  int create(const char* path) const {
    if (fails("create", path)) {
      return -1;
    }
    const int fd = inner_.create(path);
    if (fd >= 0) {
      opened();
    }
    return fd;
  }
  std::int64_t write(int fd, const std::byte* from, std::size_t bytes, std::uint64_t offset) const {
    if (fails("write")) {
      return -1;
    }
    return inner_.write(fd, from, std::min(bytes, shared_->faults.most_bytes), offset);
  }
  int sync(int fd) const { return fails("sync") ? -1 : inner_.sync(fd); }
  int sync_folder(const char* path) const {
    return fails("sync_folder", path) ? -1 : inner_.sync_folder(path);
  }
  int rename(const char* from, const char* to) const {
    return fails("rename", to) ? -1 : inner_.rename(from, to);
  }
  int link(const char* from, const char* to) const {
    return fails("link", to) ? -1 : inner_.link(from, to);
  }
  int unlink(const char* path) const { return fails("unlink", path) ? -1 : inner_.unlink(path); }
  /// Counts a pause, and returns at once.
  void pause() const { ++shared_->pauses; }

 private:
  struct Shared {
    explicit Shared(IoFaults f) : faults{std::move(f)} {}
    const IoFaults faults;
    std::atomic<long> calls{0}, failures{0}, opens{0}, reads{0}, direct_reads{0}, pauses{0};
    std::array<std::atomic<bool>, 1024> direct{}; // by the descriptor's number
    std::atomic<long> open_now{0}, open_most{0};
  };

  bool aligned() const { return shared_->faults.direct_alignment != 0; }
  bool fails(std::string_view name, std::string_view path = "") const {
    const int error = shared_->faults.error({++shared_->calls, name, path});
    if (error != 0) {
      ++shared_->failures;
      errno = error;
    }
    return error != 0;
  }
  void opened() const {
    const long now = ++shared_->open_now;
    long most = shared_->open_most;
    while (now > most && !shared_->open_most.compare_exchange_weak(most, now)) {
    }
  }

  Inner inner_;
  std::shared_ptr<Shared> shared_;
};

} // namespace penstock::tests
