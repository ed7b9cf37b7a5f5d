// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/ranks/board.hpp>
#include <penstock/detail/ranks/connection.hpp>
#include <penstock/detail/ranks/door.hpp>
#include <penstock/detail/ranks/greeting.hpp>
#include <penstock/detail/ranks/judge.hpp>
#include <penstock/detail/ranks/meeting_place.hpp>
#include <penstock/detail/ranks/socket.hpp>
#include <penstock/detail/ranks/words.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>

namespace penstock::detail {

/// The watch's thread in rank 0: hears all ranks, decides what has failed first, and tells all.
class RankHub {
  using Duration = WatchClock::Duration;

 public:
  /// Listens; throws an Error if it cannot.
  [[gnu::cold]] RankHub(RankBoard& board, const WatchTerms& terms, MeetingPlace place)
      : board_{board}, terms_{terms}, place_{std::move(place)}, process_{name_of_process()},
        door_{place_, terms.ranks, process_}, clock_{terms.beat()}, members_(terms.ranks.world) {
    members_[0].process = process_;
  }

  /// Returns when the job is over.
  [[gnu::cold]] void run() {
    while (!is_over()) {
      hear();
      clock_.advance();
      door_.show_out(clock_.now());
      obey();
      if (clock_.now() >= next_beat_) {
        next_beat_ = clock_.now() + terms_.beat();
        beat();
        judge();
      }
    }
    members_.clear();
    door_.close();
    board_.conclude(verdict_, terms_);
  }

 private:
  // For a verdict to reach ranks that do not read.
  static constexpr Duration most_farewell = std::chrono::seconds{1};

  bool is_over() const noexcept {
    const bool none_here =
        std::none_of(members_.begin() + 1, members_.end(), [](const RankMember& member) {
          return member.standing == RankStanding::here;
        });
    return verdict_.empty() ? left_ && none_here
                            : (none_here && !door_.has_strangers()) || clock_.now() >= farewell_;
  }

  void hear() {
    std::vector<pollfd> asked{{board_.waker.get(), POLLIN, 0}};
    for (const RankMember& member : members_) {
      asked.push_back({member.link.fd(), member.link.events(), 0});
    }
    door_.ask(asked);
    if (::poll(asked.data(), asked.size(), in_milliseconds(terms_.beat())) <= 0) {
      return;
    }
    board_.waker.forget();
    const auto* ready = asked.data() + 1;
    for (std::uint32_t rank = 0; rank < members_.size(); ++rank, ++ready) {
      if (members_[rank].link.is_open() && ready->revents != 0) {
        hear_member(rank);
      }
    }
    const int cannot =
        door_.hear(ready, clock_.now(),
                   [this](RankConnection& link, std::uint64_t key, const RankNewcomer& newcomer) {
                     answer(link, key, newcomer);
                   });
    if (cannot != 0 && begun_) {
      door_.close(); // a program that lacks files has none for strangers
    } else if (cannot != 0) {
      decide(joined({"penstock: rank 0 cannot take in other ranks: ", std::strerror(cannot),
                     ". Raise the limit (ulimit -n)."}));
    }
  }
  void answer(RankConnection& link, std::uint64_t key, const RankNewcomer& newcomer) {
    if (key != place_.key) {
      refused_ = said_of_two_jobs(newcomer.called(), newcomer.job, me(), place_.job, place_.port);
      link.send(RankWord::refusal, 0, 0, refused_);
      return;
    }
    const std::string why = verdict_on_newcomer(newcomer, members_, terms_);
    // While ranks of this job may still come, this one may be of the job, and the member another's.
    if (!why.empty() && (!begun_ || clock_.now() < terms_.start)) {
      decide(why);
    }
    if (!verdict_.empty()) {
      link.send(RankWord::verdict, 0, 0, verdict_);
    } else if (!why.empty()) {
      link.send(RankWord::refusal, 0, 0, why);
    } else if (begun_) {
      link.send(RankWord::later);
    } else {
      take_in(link, newcomer);
    }
  }
  void take_in(RankConnection& link, const RankNewcomer& newcomer) {
    RankMember& member = members_[newcomer.rank];
    member.process = newcomer.process;
    member.link = std::exchange(link, RankConnection{Socket{}});
    member.standing = RankStanding::here;
    member.heard = clock_.now();
    member.link.send(RankWord::welcome, place_.key, 0, members_[0].process);
    begun_ = std::all_of(members_.begin() + 1, members_.end(), [](const RankMember& each) {
      return each.standing == RankStanding::here;
    });
    if (begun_) {
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
      } else if (said->word == RankWord::silence) {
        decide(one_line(said->text));
      } else if (said->word == RankWord::goodbye) {
        member.standing = RankStanding::gone;
        member.steps = said->b;
        member.link.send(RankWord::goodbye); // if that comes too late, this rank says so
      } else {
        there = false;
        break;
      }
    }
    if (!there) {
      member.link.close();
      if (std::exchange(member.standing, RankStanding::gone) == RankStanding::here) {
        decide(said_lost(member.called(rank, terms_.ranks)));
      }
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
    std::string found = begun_ ? verdict_on(members_, clock_.now(), terms_)
                               : verdict_on_missing(members_, clock_.now(), terms_);
    if (!found.empty()) {
      if (!begun_ && !refused_.empty()) {
        found += " One that came was refused: " + refused_;
      }
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
  std::string process_;
  RankDoor door_;
  WatchClock clock_;
  StandstillClock standstill_;
  std::vector<RankMember> members_; // by rank
  Duration next_beat_{};
  Duration farewell_{};
  std::string verdict_;
  std::string refused_; // what the last one was told that came from another job
  bool begun_{};
  bool left_{};
};

} // namespace penstock::detail
