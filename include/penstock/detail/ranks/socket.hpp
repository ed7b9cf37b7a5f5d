// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/detail/ranks/meeting_place.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::detail {

/// Owns a descriptor, or none. Programs that this one starts do not inherit it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) noexcept : fd_{fd} {}
  Socket(Socket&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  Socket& operator=(Socket&& other) noexcept {
    Socket taken{std::move(other)};
    std::swap(fd_, taken.fd_);
    return *this;
  }
  ~Socket() { close(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void close() noexcept {
    if (fd_ >= 0) {
      ::close(std::exchange(fd_, -1));
    }
  }

 private:
  int fd_{-1};
};

/// Lets any thread end another one's poll().
class Waker {
 public:
  [[gnu::cold]] Waker() : event_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {
    if (!event_) {
      throw_error<Error>({"penstock: eventfd failed: ", std::strerror(errno),
                          ". The watch over ranks needs one: raise the limit on open files "
                          "(ulimit -n)."});
    }
  }
  void wake() noexcept { static_cast<void>(::eventfd_write(event_.get(), 1)); }
  void forget() noexcept {
    eventfd_t count = 0;
    static_cast<void>(::eventfd_read(event_.get(), &count));
  }
  int get() const noexcept { return event_.get(); }

 private:
  Socket event_;
};

/// Returns a time as poll() takes it, rounded up.
inline int in_milliseconds(std::chrono::nanoseconds time) noexcept {
  constexpr std::int64_t most = 60'000;
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  return static_cast<int>(std::clamp<std::int64_t>(whole, 0, most));
}

/// Waits until `fd` is ready for `events`, for at most `limit`. Returns whether it is.
[[gnu::cold]] inline bool wait_for(int fd, short events, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + limit;
  for (;;) {
    const auto left = end - Clock::now();
    pollfd one{fd, events, 0};
    const int ready = ::poll(&one, 1, in_milliseconds(left));
    if (ready > 0 || left <= Clock::duration{}) {
      return ready > 0;
    }
  }
}

/// Has small messages leave at once.
inline void send_at_once(int fd) noexcept {
  const int yes = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/// Returns a socket that listens for the ranks: where all of them are on this host, nobody else
/// reaches it. Throws an Error if the port is taken.
[[gnu::cold]] inline Socket listen_at(const MeetingPlace& place) {
  constexpr int waiting = 1024; // connections not yet accepted
  constexpr int kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  const int yes = 1;
  const int no = 0;
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_port = ::htons(place.port);
  here.sin_addr.s_addr = ::htonl(place.here ? INADDR_LOOPBACK : INADDR_ANY);
  sockaddr_in6 everywhere{};
  everywhere.sin6_family = AF_INET6;
  everywhere.sin6_port = ::htons(place.port);
  Socket made{place.here ? -1 : ::socket(AF_INET6, kind, 0)};
  const bool both =
      made && ::setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0;
  made = both ? std::move(made) : Socket{::socket(AF_INET, kind, 0)};
  const auto* const address =
      both ? reinterpret_cast<const sockaddr*>(&everywhere) : reinterpret_cast<sockaddr*>(&here);
  const socklen_t size = both ? sizeof everywhere : sizeof here;
  // Connections of an earlier job, that have ended, do not keep the port.
  if (!made || ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(made.get(), address, size) != 0 || ::listen(made.get(), waiting) != 0) {
    throw_error<Error>({"penstock: rank 0 cannot listen at port ", unsigned{place.port}, ": ",
                        std::strerror(errno),
                        ". Set PENSTOCK_PORT to a free port, the same for all ranks."});
  }
  return made;
}

/// Returns a connection to the meeting place, or none, with the reason in `why`. Blocks for at most
/// `limit`, and for as long as it takes to look the host up.
[[gnu::cold]] inline Socket connect_to(const MeetingPlace& place, std::chrono::milliseconds limit,
                                       std::string& why) {
  addrinfo asked{};
  asked.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown =
      ::getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &asked, &found);
  if (unknown != 0) {
    why = ::gai_strerror(unknown);
    return {};
  }
  Socket made;
  for (const addrinfo* at = found; at && !made; at = at->ai_next) {
    made = Socket{::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    int error = 0;
    socklen_t size = sizeof error;
    if (!made ||
        (::connect(made.get(), at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS)) {
      error = errno;
    } else if (!wait_for(made.get(), POLLOUT, limit)) {
      error = ETIMEDOUT;
    } else if (::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
    if (error != 0) {
      why = std::strerror(error);
      made.close();
    }
  }
  ::freeaddrinfo(found);
  if (made) {
    send_at_once(made.get());
  }
  return made;
}

} // namespace penstock::detail
