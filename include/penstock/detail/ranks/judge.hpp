// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/detail/ranks/board.hpp>
#include <penstock/detail/ranks/connection.hpp>
#include <penstock/detail/ranks/greeting.hpp>
#include <penstock/detail/ranks/words.hpp>
#include <penstock/order/order.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::detail {

enum class RankStanding { absent, here, gone };

/// What rank 0 knows of a rank.
struct RankMember {
  RankConnection link{Socket{}}; // none to rank 0 itself
  RankStanding standing = RankStanding::absent;
  std::string process;
  WatchClock::Duration heard{}; // when
  WatchClock::Duration idle{};  // what it said then
  std::uint64_t steps{};

  std::string called(std::uint32_t rank, const Ranks& of) const {
    return rank_called(rank, of.world, process);
  }
};

/// Returns the rank for which `measure` is most, of those with this standing; as many as there are
/// ranks if none has it.
template <class Measure>
std::uint32_t rank_with_most(const std::vector<RankMember>& members, RankStanding standing,
                             Measure measure) {
  auto found = static_cast<std::uint32_t>(members.size());
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    if (members[rank].standing == standing &&
        (found == members.size() || measure(members[rank]) > measure(members[found]))) {
      found = rank;
    }
  }
  return found;
}

/// Returns which rank ends the job at `now`, and why: the text is empty if none does.
[[gnu::cold]] inline std::string verdict_on(const std::vector<RankMember>& members,
                                            WatchClock::Duration now, const WatchTerms& terms) {
  const auto silence = [now](const RankMember& member) { return now - member.heard; };
  const auto idleness = [now](const RankMember& member) {
    return member.idle + now - member.heard;
  };
  const std::uint32_t idle_one = rank_with_most(members, RankStanding::here, idleness);
  if (terms.stall == WatchClock::Duration{} || idle_one == members.size() ||
      idleness(members[idle_one]) < terms.stall) {
    return {};
  }
  const auto called = [&](std::uint32_t rank) { return members[rank].called(rank, terms.ranks); };
  const RankStall stall{idle_one, idleness(members[idle_one]), members[idle_one].steps};
  // The others may wait for one that is stopped, and have made no progress either.
  constexpr int most_beats_late = 4;
  const std::uint32_t silent_one = rank_with_most(members, RankStanding::here, silence);
  if (silence(members[silent_one]) >= most_beats_late * terms.beat()) {
    return said_silent(called(silent_one), silence(members[silent_one]), stall,
                       silent_one == idle_one);
  }
  // So may they for one that has left, if it has not done more.
  const std::uint32_t left_one =
      rank_with_most(members, RankStanding::gone,
                     [](const RankMember& member) { return ~member.steps; }); // the fewest
  if (left_one != members.size() && members[left_one].steps <= stall.steps) {
    return said_left(called(left_one), members[left_one].steps, stall);
  }
  return said_stalled(called(idle_one), stall);
}

/// Returns which ranks have not come in time; the text is empty if there is time left.
[[gnu::cold]] inline std::string verdict_on_missing(const std::vector<RankMember>& members,
                                                    WatchClock::Duration now,
                                                    const WatchTerms& terms) {
  if (now < terms.start) {
    return {};
  }
  std::string missing;
  for (std::uint32_t rank = 1; rank < members.size(); ++rank) {
    if (members[rank].standing == RankStanding::absent) {
      missing += joined({missing.empty() ? "" : ", ", rank});
    }
  }
  return one_line(joined({"penstock: some of ", terms.ranks.world, " ranks have not come to ",
                          members[0].called(0, terms.ranks), " within ", in_seconds(terms.start),
                          ": rank ", missing,
                          ". Start all at about the same time, or allow more time: RankWatch's "
                          "option start."}));
}

/// Returns why no job has all of these members and this newcomer, who knows the key; empty if one
/// may.
[[gnu::cold]] inline std::string verdict_on_newcomer(const RankNewcomer& newcomer,
                                                     const std::vector<RankMember>& members,
                                                     const WatchTerms& terms) {
  const std::uint32_t world = terms.ranks.world;
  constexpr std::string_view cure =
      " for each: one command must start all ranks. Two jobs must not have the same port: give "
      "each a MASTER_PORT or a PENSTOCK_PORT of its own.";
  if (newcomer.world != world) {
    return joined({"penstock: the world has ", newcomer.world, " ranks by ", newcomer.called(),
                   ", and ", world, " by ", members[0].called(0, terms.ranks),
                   ". See what sets WORLD_SIZE", cure});
  }
  const bool known = newcomer.rank < world;
  if (known && newcomer.rank != 0 && members[newcomer.rank].standing != RankStanding::here) {
    return {};
  }
  return joined({"penstock: two processes are rank ", newcomer.rank, " of ", world, ": ",
                 newcomer.process, " and ", known ? members[newcomer.rank].process : "another",
                 ". See what sets RANK", cure});
}

} // namespace penstock::detail
