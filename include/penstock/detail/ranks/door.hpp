// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/ranks/board.hpp>
#include <penstock/detail/ranks/connection.hpp>
#include <penstock/detail/ranks/greeting.hpp>
#include <penstock/detail/ranks/meeting_place.hpp>
#include <penstock/detail/ranks/socket.hpp>
#include <penstock/order/order.hpp>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

namespace penstock::detail {

/// Where rank 0 listens, and who has come and is not taken in. It stays open while the job runs: so
/// no other rank 0 has the port meanwhile, and who comes too late is told.
class RankDoor {
  using Duration = WatchClock::Duration;

 public:
  /// Listens; throws an Error if it cannot.
  RankDoor(const MeetingPlace& place, const Ranks& ranks, const std::string& process)
      : listener_{listen_as_first(place, ranks, process)},
        most_strangers_{std::size_t{64} + ranks.world} {}

  bool has_strangers() const noexcept { return !strangers_.empty(); }
  /// Adds what hear() has to be told of.
  void ask(std::vector<pollfd>& asked) const {
    asked.push_back({has_room() ? listener_.get() : -1, POLLIN, 0});
    for (const Stranger& stranger : strangers_) {
      asked.push_back({stranger.link.fd(), stranger.link.events(), 0});
    }
  }
  /// Calls `answer(link, newcomer)` for each stranger that says who it is, and lets in those who
  /// knock. Returns why it cannot, an errno; else 0.
  template <class Answer> int hear(const pollfd* ready, Duration now, Answer answer) {
    const bool knocks = (ready++)->revents != 0;
    for (Stranger& stranger : strangers_) {
      if ((ready++)->revents != 0) {
        hear(stranger.link, answer);
      }
    }
    return knocks ? let_in(now) : 0;
  }
  /// Forgets those that are gone, and those that take too long.
  void show_out(Duration now) {
    std::erase_if(strangers_, [now](const Stranger& stranger) {
      return !stranger.link.is_open() || now - stranger.since > most_patience;
    });
  }
  /// A child that was forked has a copy of the listener, and shall not keep the port.
  void close() noexcept {
    ::shutdown(listener_.get(), SHUT_RDWR);
    listener_.close();
    strangers_.clear();
  }

 private:
  struct Stranger {
    RankConnection link;
    Duration since{};
  };
  static constexpr Duration most_patience = std::chrono::seconds{5};

  bool has_room() const noexcept { return strangers_.size() < most_strangers_; }
  int let_in(Duration now) {
    while (has_room()) {
      Socket came{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (!came) {
        return errno == EMFILE || errno == ENFILE ? errno : 0;
      }
      send_at_once(came.get());
      strangers_.push_back({RankConnection{std::move(came)}, now});
    }
    return 0;
  }
  template <class Answer> static void hear(RankConnection& link, Answer& answer) {
    link.flush();
    // Who greets and does not wait for the answer is none that could be taken in.
    const bool there = link.receive() && link.receive();
    const auto said = link.next();
    if (there && said && said->word == RankWord::hello) {
      answer(link, said->a, RankNewcomer::of(*said));
    } else if (said || !there) {
      link.close();
    }
  }

  Socket listener_;
  std::size_t most_strangers_; // beside the ranks that come at once
  std::vector<Stranger> strangers_;
};

} // namespace penstock::detail
