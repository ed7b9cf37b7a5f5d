// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::tests {

/// A request as it came.
struct HttpRequest {
  std::string path;       // with what stands behind its '?'
  std::string head;       // all lines
  std::uint64_t first{};  // of the range
  std::uint64_t end{};    // behind its last byte; 0: no range
  std::uint64_t number{}; // of this server's, from 0

  /// Returns the value of a line; empty if there is none.
  std::string line(const std::string& name) const {
    const std::size_t at = head.find("\r\n" + name + ": ");
    const std::size_t from = at + name.size() + 4;
    return at == std::string::npos ? "" : head.substr(from, head.find("\r\n", from) - from);
  }
};

/// The connection that a request came by.
class HttpConnection {
 public:
  HttpConnection(int fd, const std::atomic<bool>& over) : fd_{fd}, over_{over} {}

  void send(std::string_view bytes) {
    while (open_ && !bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      open_ = sent > 0;
      bytes.remove_prefix(open_ ? static_cast<std::size_t>(sent) : 0);
    }
  }
  void close() { open_ = false; }
  /// Ends it as a process does that dies.
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    open_ = false;
  }
  /// Says nothing for so long, or until the client goes away.
  void hang(std::chrono::milliseconds time = std::chrono::hours{1}) {
    const auto until = std::chrono::steady_clock::now() + time;
    pollfd gone{fd_, POLLRDHUP, 0};
    while (!over_ && std::chrono::steady_clock::now() < until && ::poll(&gone, 1, 10) == 0) {
    }
    open_ = open_ && gone.revents == 0;
  }
  bool is_open() const noexcept { return open_; }

 private:
  const int fd_;
  const std::atomic<bool>& over_;
  bool open_ = true;
};

/// A server on this machine that answers each request as a callable says; that may be called by
/// several threads at once.
class HttpServer {
 public:
  using Answer = std::function<void(const HttpRequest&, HttpConnection&)>;

  explicit HttpServer(Answer answer) : answer_{std::move(answer)} {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof here;
    if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&here), bytes) != 0 ||
        ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&here), &bytes) != 0) {
      throw std::system_error{errno, std::generic_category(), "a server for a test"};
    }
    port_ = ntohs(here.sin_port);
    accepts_ = std::thread{[this] { accept(); }};
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer() {
    over_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    accepts_.join();
    ::close(listener_);
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  std::string url(const std::string& path, const std::string& host = "127.0.0.1") const {
    return "http://" + host + ":" + std::to_string(port_) + path;
  }
  std::uint64_t requests() const noexcept { return requests_; }
  std::uint64_t connections() const noexcept { return connections_; }
  /// The most requests that were answered at once.
  int most_at_once() const noexcept { return most_at_once_; }

 private:
  void accept() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (over_ || fd < 0) {
        ::close(fd);
        return;
      }
      ++connections_;
      threads_.emplace_back([this, fd] { serve(fd); });
    }
  }
  void serve(int fd) {
    const int at_once = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    HttpConnection connection{fd, over_};
    std::string came;
    while (connection.is_open() && receive(fd, came)) {
      const std::size_t end = came.find("\r\n\r\n") + 4;
      const HttpRequest request = read(came.substr(0, end));
      came.erase(0, end);
      const int now = ++at_once_;
      int most = most_at_once_;
      while (now > most && !most_at_once_.compare_exchange_weak(most, now)) {
      }
      answer_(request, connection);
      --at_once_;
    }
    ::close(fd);
  }
  // Until there is a whole head.
  bool receive(int fd, std::string& came) const {
    pollfd some{fd, POLLIN, 0};
    while (came.find("\r\n\r\n") == std::string::npos) {
      char piece[4096];
      while (::poll(&some, 1, 10) == 0) {
        if (over_) {
          return false;
        }
      }
      const ssize_t got = ::recv(fd, piece, sizeof piece, 0);
      if (got <= 0) {
        return false;
      }
      came.append(piece, static_cast<std::size_t>(got));
    }
    return true;
  }
  HttpRequest read(const std::string& head) {
    HttpRequest request;
    request.head = head;
    const std::size_t path = head.find(' ') + 1;
    request.path = head.substr(path, head.find(' ', path) - path);
    request.number = requests_++;
    const std::string range = request.line("Range");
    if (range.starts_with("bytes=")) {
      request.first = std::strtoull(range.c_str() + 6, nullptr, 10);
      request.end = std::strtoull(range.c_str() + range.find('-') + 1, nullptr, 10) + 1;
    }
    return request;
  }

  const Answer answer_;
  int listener_ = -1;
  int port_{};
  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> connections_{0};
  std::atomic<int> at_once_{0};
  std::atomic<int> most_at_once_{0};
  std::list<std::thread> threads_; // only the accepting thread adds, which is joined first
  std::thread accepts_;
};

/// Returns the right answer to a request for a part of `object`; to one without a range, all of it.
inline std::string part_of(const HttpRequest& request, const std::string& object,
                           const std::string& etag = "\"1\"") {
  const std::string more = "\r\nETag: " + etag + "\r\nContent-Length: ";
  if (!request.line("If-Match").empty() && request.line("If-Match") != etag) {
    return "HTTP/1.1 412 Precondition Failed" + more + "0\r\n\r\n";
  }
  if (request.end == 0) {
    return "HTTP/1.1 200 OK" + more + std::to_string(object.size()) + "\r\n\r\n" + object;
  }
  const std::string size = std::to_string(object.size());
  if (request.first >= object.size()) {
    return "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */" + size + more +
           "0\r\n\r\n";
  }
  const std::uint64_t end = std::min<std::uint64_t>(request.end, object.size());
  return "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(request.first) +
         "-" + std::to_string(end - 1) + "/" + size + more + std::to_string(end - request.first) +
         "\r\n\r\n" + object.substr(request.first, end - request.first);
}

/// Returns an answer that has a status and nothing else.
inline std::string only(const std::string& status, const std::string& lines = "") {
  return "HTTP/1.1 " + status + "\r\n" + lines + "Content-Length: 0\r\n\r\n";
}

} // namespace penstock::tests
