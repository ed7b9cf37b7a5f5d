// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/ranks/socket.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

namespace penstock::detail {

/// What ranks say to each other.
enum class RankWord : std::uint32_t {
  hello,   // a rank to rank 0: the key; rank and world; which process it is, and the job
  welcome, // rank 0's answer: the key; which process it is
  refusal, // or: why this rank is none of the job's
  later,   // or: it was one, has left, and may come to the next watch
  begin,   // rank 0 to all: all are here
  beat,    // to and fro: nanoseconds without progress; steps done
  failed,  // a rank to rank 0: why
  silence, // a rank to rank 0, which was silent: what this one ends with
  verdict, // rank 0 to all: the job ends, and why
  shared,  // rank 0 to all: bytes
  goodbye, // a rank to rank 0: it ends in order; steps done; and rank 0's answer
  count    // how many words there are
};

/// A message as it goes over the line: numbers as x86-64 has them, then `bytes` bytes.
struct RankFrame {
  RankWord word{};
  std::uint32_t bytes{};
  std::uint64_t a{};
  std::uint64_t b{};
};

/// A message that has come. The text is valid until the connection next receives.
struct RankMessage {
  RankWord word{};
  std::uint64_t a{};
  std::uint64_t b{};
  std::string_view text;
};

/// Messages both ways over a socket that never blocks. One thread.
class RankConnection {
 public:
  static constexpr std::size_t most_bytes = 4096; // of one message's text

  explicit RankConnection(Socket socket) noexcept : socket_{std::move(socket)} {}

  bool is_open() const noexcept { return static_cast<bool>(socket_); }
  void close() noexcept {
    socket_.close();
    unsent_.clear();
  }
  int fd() const noexcept { return socket_.get(); }
  /// Returns what to wait for.
  short events() const noexcept {
    return static_cast<short>(POLLIN | (unsent_.empty() ? 0 : POLLOUT));
  }
  bool has_unsent() const noexcept { return !unsent_.empty(); }

  /// Sends a message, if it is open: what does not leave at once leaves by a later flush(). It is
  /// receive() that notices a lost connection.
  [[gnu::cold]] void send(RankWord word, std::uint64_t a = 0, std::uint64_t b = 0,
                          std::string_view text = {}) {
    if (!is_open()) {
      return;
    }
    text = text.substr(0, most_bytes);
    const RankFrame frame{word, static_cast<std::uint32_t>(text.size()), a, b};
    unsent_.append(reinterpret_cast<const char*>(&frame), sizeof frame).append(text);
    flush();
  }
  /// Sends what has not left.
  [[gnu::cold]] void flush() {
    while (!unsent_.empty()) {
      // A lost connection is no signal that ends the program.
      const auto sent = ::send(fd(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) {
        if (errno == EINTR) {
          continue;
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
          unsent_.clear();
        }
        return;
      }
      unsent_.erase(0, static_cast<std::size_t>(sent));
    }
  }

  /// Takes in what has come, for next(). Returns false once the other end is gone.
  [[gnu::cold]] bool receive() noexcept {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    const auto came = ::recv(fd(), buffer_.data() + end_, buffer_.size() - end_, MSG_DONTWAIT);
    if (came > 0) {
      end_ += static_cast<std::size_t>(came);
    }
    return came > 0 || (came < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
  }
  /// Returns the next message that has come whole. Text that is no message is one with the word
  /// `count`: whoever sent it does not speak this language.
  [[gnu::cold]] std::optional<RankMessage> next() noexcept {
    RankFrame frame;
    if (end_ - begin_ < sizeof frame) {
      return std::nullopt;
    }
    std::memcpy(&frame, buffer_.data() + begin_, sizeof frame);
    if (frame.word >= RankWord::count || frame.bytes > most_bytes) {
      return RankMessage{RankWord::count, 0, 0, {}};
    }
    if (end_ - begin_ - sizeof frame < frame.bytes) {
      return std::nullopt;
    }
    const char* const text = buffer_.data() + begin_ + sizeof frame;
    begin_ += sizeof frame + frame.bytes;
    return RankMessage{frame.word, frame.a, frame.b, {text, frame.bytes}};
  }

 private:
  Socket socket_;
  std::string unsent_;
  std::array<char, sizeof(RankFrame) + most_bytes> buffer_{};
  std::size_t begin_{0};
  std::size_t end_{0};
};

} // namespace penstock::detail
