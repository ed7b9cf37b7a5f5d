// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/ranks/board.hpp>
#include <penstock/detail/ranks/connection.hpp>
#include <penstock/detail/ranks/greeting.hpp>
#include <penstock/detail/ranks/meeting_place.hpp>
#include <penstock/detail/ranks/socket.hpp>
#include <penstock/detail/ranks/words.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <poll.h>

namespace penstock::detail {

/// The watch's thread in a rank that is not 0: tells rank 0 how it stands, and hears what rank 0
/// decides.
class RankSpoke {
  using Duration = WatchClock::Duration;

 public:
  /// Connects; throws an Error if rank 0 is not to be found in time, or refuses this one. Blocks.
  [[gnu::cold]] RankSpoke(RankBoard& board, const WatchTerms& terms, const MeetingPlace& place)
      : board_{board}, terms_{terms}, clock_{terms.beat()}, process_{name_of_process()} {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + terms.start;
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
      RankGreeting greeting =
          greet(place, terms.ranks, process_,
                std::clamp<std::chrono::milliseconds>(left, pause, most_patience));
      if (greeting.refused) {
        throw Error{greeting.text};
      }
      if (greeting.link.is_open()) {
        link_ = std::move(greeting.link);
        hub_ = rank_called(0, terms.ranks.world, greeting.text);
        return;
      }
      if (Clock::now() >= end) {
        throw_error<Error>(
            {"penstock: ", me(), " does not find rank 0 at ", place.host, " port ",
             unsigned{place.port}, " within ", in_seconds(terms.start), ": ", greeting.text,
             place.here ? ". All ranks are taken to be on this host, since "
                          "local_world is world: set LOCAL_WORLD_SIZE if they are "
                          "not. Else see"
                        : ". See that MASTER_ADDR is rank 0's host, that no firewall "
                          "closes the port (PENSTOCK_PORT sets another), and see",
             " what rank 0 says."});
      }
      std::this_thread::sleep_for(pause);
    }
  }

  /// Returns when the job is over for this rank.
  [[gnu::cold]] void run() {
    hear(); // what came with the welcome
    while (!over_) {
      pollfd asked[] = {{board_.waker.get(), POLLIN, 0}, {link_.fd(), link_.events(), 0}};
      const bool any = ::poll(asked, 2, in_milliseconds(terms_.beat())) > 0;
      if (any) {
        board_.waker.forget();
      }
      if (any && asked[1].revents != 0) {
        hear();
      }
      clock_.advance();
      obey();
      if (clock_.now() >= next_beat_) {
        next_beat_ = clock_.now() + terms_.beat();
        beat();
      }
    }
    link_.close();
    board_.conclude(verdict_, terms_);
  }

 private:
  // For rank 0 to answer, to greetings and to what this rank says has failed.
  static constexpr std::chrono::seconds most_patience{3};
  // Between two attempts to find rank 0.
  static constexpr std::chrono::milliseconds pause{50};

  void hear() {
    link_.flush();
    bool there = link_.receive();
    while (const auto said = link_.next()) {
      heard_ = clock_.now();
      if (said->word == RankWord::begin) {
        standstill_.restart(clock_.now());
        board_.change([this] { board_.begun = true; });
      } else if (said->word == RankWord::verdict) {
        return conclude(one_line(said->text));
      } else if (said->word == RankWord::shared) {
        take(std::string{said->text});
      } else if (said->word == RankWord::goodbye) {
        return conclude({});
      } else if (said->word != RankWord::beat) {
        there = false;
        break;
      }
    }
    if (!there) {
      conclude(failed_.empty() ? said_lost(hub_) : failed_);
    }
  }
  void take(std::string bytes) {
    bool too_many = false;
    board_.change([&] {
      too_many = board_.shared.size() == RankBoard::most_shared;
      if (!too_many) {
        board_.shared.push_back(std::move(bytes));
      }
    });
    if (too_many) {
      fail("rank 0 has called share() 64 times more often. All ranks must call it equally often.");
    }
  }
  /// Does what this process's own threads ask for.
  void obey() {
    const std::scoped_lock lock{board_.mutex};
    if (std::exchange(board_.failed, false)) {
      fail(board_.failure);
    }
    if (board_.leaving && !std::exchange(left_, true) && failed_.empty()) {
      link_.send(RankWord::goodbye, 0, board_.steps.load(StdAtomics::relaxed));
    }
  }
  void beat() {
    const std::uint64_t steps = board_.steps.load(StdAtomics::relaxed);
    const Duration idle = standstill_.of(steps, clock_.now());
    if (!link_.has_unsent() && !left_) {
      link_.send(RankWord::beat, static_cast<std::uint64_t>(idle.count()), steps);
    }
    const Duration silent = clock_.now() - heard_;
    if (!failed_.empty() && clock_.now() >= farewell_) {
      conclude(failed_);
    } else if (terms_.stall != Duration{} && silent >= terms_.stall) {
      // All ranks end with this text, and so does a rank 0 that goes on.
      const std::string line = said_silent(hub_, terms_.stall);
      link_.send(RankWord::silence, 0, 0, line);
      conclude(line);
    }
  }
  /// Tells rank 0, which may have heard of another failure before.
  void fail(const std::string& why) {
    if (failed_.empty()) {
      failed_ = said_failed(me(), why);
      farewell_ = clock_.now() + most_patience;
      link_.send(RankWord::failed, 0, 0, one_line(why));
    }
  }
  void conclude(const std::string& verdict) {
    over_ = true;
    verdict_ = verdict;
  }
  std::string me() const { return rank_called(terms_.ranks.rank, terms_.ranks.world, process_); }

  RankBoard& board_;
  const WatchTerms& terms_;
  WatchClock clock_;
  StandstillClock standstill_;
  std::string process_;
  std::string hub_;
  RankConnection link_{Socket{}};
  Duration next_beat_{};
  Duration heard_{};
  Duration farewell_{};
  std::string failed_; // what this rank says of itself
  std::string verdict_;
  bool left_{};
  bool over_{};
};

} // namespace penstock::detail
