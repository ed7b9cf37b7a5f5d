// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/ranks/board.hpp>
#include <penstock/detail/ranks/connection.hpp>
#include <penstock/detail/ranks/judge.hpp>
#include <penstock/detail/ranks/meeting_place.hpp>
#include <penstock/detail/ranks/words.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

namespace penstock::detail {

/// The watch's thread in rank 0: hears all ranks, decides what has failed first, and tells all.
class RankHub {
  using Duration = WatchClock::Duration;

 public:
  /// Listens; throws if it cannot.
  [[gnu::cold]] RankHub(RankBoard& board, const WatchTerms& terms, MeetingPlace place)
      : board_{board}, terms_{terms}, place_{std::move(place)}, listener_{listen_at(place_)},
        clock_{terms.beat()}, members_(terms.ranks.world) {
    members_[0].process = name_of_process();
  }

  /// Returns when the job is over.
  [[gnu::cold]] void run() {
    while (!is_over()) {
      hear();
      clock_.advance();
      std::erase_if(strangers_, [this](const Stranger& stranger) {
        return begun_ || !stranger.link.is_open() || clock_.now() - stranger.since > most_patience;
      });
      obey();
      if (clock_.now() >= next_beat_) {
        next_beat_ = clock_.now() + terms_.beat();
        beat();
        judge();
      }
    }
    members_.clear();
    strangers_.clear();
    board_.conclude(verdict_, terms_);
  }

 private:
  struct Stranger { // has not said who it is
    RankConnection link;
    Duration since{};
  };
  // Of strangers, beside the ranks that come at once; and how long one may take.
  static constexpr std::size_t most_strangers = 64;
  static constexpr Duration most_patience = std::chrono::seconds{5};
  // For a verdict to reach ranks that do not read.
  static constexpr Duration most_farewell = std::chrono::seconds{1};

  bool is_over() const noexcept {
    const bool none_here =
        std::none_of(members_.begin() + 1, members_.end(), [](const RankMember& member) {
          return member.standing == RankStanding::here;
        });
    return verdict_.empty() ? left_ && none_here
                            : (none_here && strangers_.empty()) || clock_.now() >= farewell_;
  }

  void hear() {
    const int door = has_room() ? listener_.get() : -1;
    std::vector<pollfd> asked{{board_.waker.get(), POLLIN, 0}, {door, POLLIN, 0}};
    for (const RankMember& member : members_) {
      asked.push_back({member.link.fd(), member.link.events(), 0});
    }
    for (const Stranger& stranger : strangers_) {
      asked.push_back({stranger.link.fd(), stranger.link.events(), 0});
    }
    if (::poll(asked.data(), asked.size(), in_milliseconds(terms_.beat())) <= 0) {
      return;
    }
    board_.waker.forget();
    const auto* ready = asked.data() + 2;
    for (std::uint32_t rank = 0; rank < members_.size(); ++rank, ++ready) {
      if (members_[rank].link.is_open() && ready->revents != 0) {
        hear_member(rank);
      }
    }
    for (Stranger& stranger : strangers_) {
      if ((ready++)->revents != 0) {
        hear_stranger(stranger);
      }
    }
    if (asked[1].revents != 0) {
      welcome_strangers();
    }
  }
  bool has_room() const noexcept { return strangers_.size() < most_strangers + members_.size(); }
  void welcome_strangers() {
    while (has_room()) {
      Socket came{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (!came) {
        if (errno == EMFILE || errno == ENFILE) {
          decide(joined({"penstock: rank 0 cannot take in other ranks: ", std::strerror(errno),
                         ". Raise the limit (ulimit -n)."}));
        }
        return;
      }
      send_at_once(came.get());
      strangers_.push_back({RankConnection{std::move(came)}, clock_.now()});
    }
  }
  void hear_stranger(Stranger& stranger) {
    stranger.link.flush();
    const bool there = stranger.link.receive();
    const auto said = stranger.link.next();
    if (said && said->word == RankWord::hello && said->a == place_.key) {
      if (verdict_.empty()) {
        take_in(stranger, static_cast<std::uint32_t>(said->b >> 32),
                static_cast<std::uint32_t>(said->b), one_line(said->text));
      }
      if (!verdict_.empty()) {
        stranger.link.send(RankWord::verdict, place_.key, 0, verdict_);
      }
    } else if (said || !there) {
      stranger.link.close();
    }
  }
  void take_in(Stranger& stranger, std::uint32_t rank, std::uint32_t world,
               const std::string& process) {
    if (world != terms_.ranks.world) {
      return decide(
          joined({"penstock: the world has ", world, " ranks by ",
                  rank_called(rank, world, process), ", and ", terms_.ranks.world, " by ", me(),
                  ". See what sets WORLD_SIZE for each: one command must start all."}));
    }
    if (rank >= world || members_[rank].standing != RankStanding::absent || rank == 0) {
      return decide(joined({"penstock: two processes are rank ", rank, " of ", world, ": ", process,
                            " and ", rank < world ? members_[rank].process : "another",
                            ". See what sets RANK for each: one command must start all."}));
    }
    RankMember& member = members_[rank];
    member.process = process;
    member.link = std::exchange(stranger.link, RankConnection{Socket{}});
    member.standing = RankStanding::here;
    member.heard = clock_.now();
    member.link.send(RankWord::welcome, place_.key, 0, members_[0].process);
    begun_ = std::all_of(members_.begin() + 1, members_.end(), [](const RankMember& each) {
      return each.standing == RankStanding::here;
    });
    if (begun_) {
      listener_.close();
      tell_all(RankWord::begin);
      standstill_.restart(clock_.now());
      board_.change([this] { board_.begun = true; });
    }
  }
  void hear_member(std::uint32_t rank) {
    RankMember& member = members_[rank];
    member.link.flush();
    bool there = member.link.receive();
    while (const auto said = member.link.next()) {
      member.heard = clock_.now();
      if (said->word == RankWord::beat) {
        member.idle = Duration{said->a};
        member.steps = said->b;
      } else if (said->word == RankWord::failed) {
        decide(said_failed(member.called(rank, terms_.ranks), said->text));
      } else if (said->word == RankWord::goodbye) {
        member.standing = RankStanding::gone;
        member.link.send(RankWord::goodbye);
        member.link.close();
        return;
      } else {
        there = false;
        break;
      }
    }
    if (!there) {
      member.standing = RankStanding::gone;
      member.link.close();
      decide(said_lost(member.called(rank, terms_.ranks)));
    }
  }

  /// Does what this process's own threads ask for.
  void obey() {
    const std::scoped_lock lock{board_.mutex};
    for (const std::string& bytes : std::exchange(board_.to_share, {})) {
      for (RankMember& member : members_) {
        if (member.standing == RankStanding::here) {
          member.link.send(RankWord::shared, 0, 0, bytes);
        }
      }
    }
    left_ = board_.leaving;
    if (std::exchange(board_.failed, false)) {
      decide(said_failed(me(), board_.failure));
    }
  }
  void beat() {
    for (RankMember& member : members_) {
      if (member.standing == RankStanding::here && !member.link.has_unsent()) {
        member.link.send(RankWord::beat);
      }
    }
  }
  void judge() {
    members_[0].steps = board_.steps.load(StdAtomics::relaxed);
    members_[0].idle = standstill_.of(members_[0].steps, clock_.now());
    members_[0].heard = clock_.now();
    members_[0].standing = left_ ? RankStanding::gone : RankStanding::here;
    const std::string found = begun_ ? verdict_on(members_, clock_.now(), terms_)
                                     : verdict_on_missing(members_, clock_.now(), terms_);
    if (!found.empty()) {
      decide(found);
    }
  }

  std::string me() const { return members_[0].called(0, terms_.ranks); }
  void tell_all(RankWord word, const std::string& text = {}) {
    for (RankMember& member : members_) {
      if (member.standing == RankStanding::here) {
        member.link.send(word, 0, 0, text);
      }
    }
  }
  /// The first verdict stands.
  void decide(const std::string& verdict) {
    if (verdict_.empty()) {
      verdict_ = verdict;
      farewell_ = clock_.now() + most_farewell;
      tell_all(RankWord::verdict, verdict_);
    }
  }

  RankBoard& board_;
  const WatchTerms& terms_;
  MeetingPlace place_;
  Socket listener_;
  WatchClock clock_;
  StandstillClock standstill_;
  std::vector<RankMember> members_; // by rank
  std::vector<Stranger> strangers_;
  Duration next_beat_{};
  Duration farewell_{};
  std::string verdict_;
  bool begun_{};
  bool left_{};
};

} // namespace penstock::detail
