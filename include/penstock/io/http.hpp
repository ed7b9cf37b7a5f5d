// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/url.hpp>
#include <penstock/io/detail/http_object.hpp>
#include <penstock/io/detail/http_reads.hpp>
#include <penstock/io/detail/http_state.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/http_options.hpp>
#include <penstock/io/many_reads.hpp>
#include <penstock/io/posix.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

// Needs libcurl (Debian: libcurl4-openssl-dev), which the program must link: -lcurl.
namespace penstock {

/// Reads objects of HTTP servers where a source takes files:
/// `records<Frame>("https://…/frames.bin",
/// {}, ps::HttpIo{})`. What is no URL it reads as PosixIo does. A read is one request for the
/// range, tried again while that may help, and its bytes go straight into the caller's memory. An
/// object that changes after its size was asked for ends in an error, never in bytes of both.
/// Proxies and certificates are those of libcurl's environment. Any number of threads; copies share
/// connections and all else. Where PosixIo sets errno, it throws SourceError for a URL.
class HttpIo : public PosixIo {
 public:
  /// Asks nobody yet. Throws OptionError.
  explicit HttpIo(HttpOptions options = {})
      : state_{std::make_shared<detail::HttpState>(std::move(options))} {}

  /// Returns what it has done so far.
  HttpCounts counts() const { return state_->counts(); }
  /// Returns that in words, for a Report's note; nothing before the first request.
  [[gnu::cold]] std::string note() const;

  /// Returns a number for an object, which is no descriptor. Blocks, unless its size is known.
  int open(const char* path) const {
    if (!detail::is_url(path)) {
      return PosixIo::open(path);
    }
    if (!state_->object(path)) {
      return refused(ENOENT);
    }
    return first_number + static_cast<int>(state_->number_of(path));
  }
  /// No object can be read past a page cache.
  int open_direct(const char* path) const {
    return detail::is_url(path) ? refused(EINVAL) : PosixIo::open_direct(path);
  }
  /// An object's size and ETag stay known as long as there is a copy of this.
  int close(int fd) const noexcept { return is_object(fd) ? 0 : PosixIo::close(fd); }
  /// Asks for an object's size by a request for its first byte.
  int status(const char* path, FileStatus& status) const {
    if (!detail::is_url(path)) {
      return PosixIo::status(path, status);
    }
    const auto found = state_->look_at(path);
    status = found ? found->status : FileStatus{};
    return found ? 0 : refused(ENOENT);
  }
  /// Asks nobody about an object that was opened.
  int status(int fd, FileStatus& status) const {
    if (!is_object(fd)) {
      return PosixIo::status(fd, status);
    }
    status = object(fd)->status;
    return 0;
  }
  /// Says that an object is not to be read directly.
  int cached(int fd, std::uint64_t size, double& share) const noexcept {
    share = 1;
    return is_object(fd) ? 0 : PosixIo::cached(fd, size, share);
  }
  /// Reads all that is asked for, up to the object's end. Blocks, and ends within 100 ms if the
  /// run for which this thread reads does.
  std::int64_t read(int fd, std::byte* into, std::size_t bytes, std::uint64_t offset) const {
    if (!is_object(fd)) {
      return PosixIo::read(fd, into, bytes, offset);
    }
    const auto of = object(fd);
    const std::uint64_t size = of->status.size;
    const auto there =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes, size - std::min(size, offset)));
    if (there != 0) {
      state_->read(*of, offset, {into, there});
    }
    return static_cast<std::int64_t>(there);
  }
  /// Does nothing for an object.
  int will_read(int fd, std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return is_object(fd) ? 0 : PosixIo::will_read(fd, offset, bytes);
  }
  /// Whether a file with this number may stay open: an object takes nothing of the system's.
  bool may_stay_open(int fd) const noexcept { return is_object(fd) || detail::may_stay_open(fd); }

  /// Reads small records at random places, many at once: see ReadsMany.
  class ManyReads : public detail::HttpReads {
   public:
    /// For these files.
    ManyReads(const HttpIo& io, std::span<const int> files)
        : HttpReads{io.state_, objects(io, files)} {}

   private:
    static Objects objects(const HttpIo& io, std::span<const int> files) {
      Objects all(files.size());
      std::transform(files.begin(), files.end(), all.begin(),
                     [&](int fd) { return is_object(fd) ? io.object(fd) : nullptr; });
      return all;
    }
  };
  /// Objects take nothing of the system's: so many may stay open.
  static constexpr std::size_t most_open = ~std::size_t{0};

  /// For code that fetches in another way.
  /// @{
  static bool is_object(int fd) noexcept { return fd >= first_number; }
  std::shared_ptr<const detail::HttpObject> object(int fd) const {
    return state_->object(static_cast<std::size_t>(fd - first_number));
  }
  detail::HttpState& state() const noexcept { return *state_; }
  /// @}

 private:
  static constexpr int first_number = 1 << 30; // the system has no such descriptors

  static int refused(int error) noexcept {
    errno = error;
    return -1;
  }

  std::shared_ptr<detail::HttpState> state_;
};

inline std::string HttpIo::note() const {
  const HttpCounts now = counts();
  const bool held_back = now.limit < state_->options().connections;
  return now.requests == 0
             ? std::string{}
             : detail::joined({"by HTTP ", now.bytes / 1'000'000, " MB in ", now.requests,
                               " requests, ", now.retries, " of them retries, at most ",
                               now.connections, " at once, whose answers began after ",
                               static_cast<unsigned long long>(now.first_byte.count()), " us",
                               held_back
                                   ? ", and at present the server has too much to do for more than "
                                   : "",
                               held_back ? detail::joined({now.limit, " at once"}) : ""});
}

} // namespace penstock
