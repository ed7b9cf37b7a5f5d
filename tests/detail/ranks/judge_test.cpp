// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Which rank is blamed, by what rank 0 has heard of each. No time passes here.

#include "support/catch.hpp"

#include <penstock/detail/ranks/board.hpp>
#include <penstock/detail/ranks/judge.hpp>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace penstock;
using namespace std::chrono_literals;
using detail::RankMember;
using detail::RankStanding;

namespace {

const detail::WatchTerms terms{{.world = 3, .local_world = 3}, 8s, 20s, {}}; // a beat is 500 ms

RankMember member(std::chrono::nanoseconds heard, std::chrono::nanoseconds idle,
                  RankStanding standing = RankStanding::here) {
  RankMember made;
  made.standing = standing;
  made.process = "process 7 on host";
  made.heard = heard;
  made.idle = idle;
  made.steps = 12;
  return made;
}
std::vector<RankMember> of_three(RankMember a, RankMember b, RankMember c) {
  std::vector<RankMember> members;
  for (RankMember* each : {&a, &b, &c}) {
    members.push_back(std::move(*each));
  }
  return members;
}
bool begins(const std::string& text, const std::string& start) {
  INFO(text);
  return text.find(start) == 0;
}

} // namespace

TEST_CASE("a rank may go without progress for as long as is allowed, and then is named") {
  const auto members = of_three(member(100s, 1s), member(99s, 2s), member(100s, 0s));
  CHECK(detail::verdict_on(members, 100s, terms).empty());
  const auto later = of_three(member(106s, 1s), member(106s, 8s), member(106s, 7900ms));
  CHECK(begins(detail::verdict_on(later, 106s, terms),
               "penstock: rank 1 of 3 (process 7 on host) has made no progress for 8.0 s, after 12 "
               "steps. "));
}

TEST_CASE("of ranks without progress the one that stopped first is named, be it rank 0") {
  const auto members = of_three(member(100s, 9s), member(100s, 8s), member(99500ms, 8100ms));
  CHECK(begins(detail::verdict_on(members, 100s, terms), "penstock: rank 0 of 3 "));
}

TEST_CASE("a rank that does not answer is named before those that wait for it") {
  const auto members = of_three(member(100s, 9s), member(100s, 9s), member(92500ms, 0s));
  CHECK(begins(detail::verdict_on(members, 100s, terms),
               "penstock: rank 2 of 3 (process 7 on host) has not answered for 7.5 s while rank 0 "
               "has made no progress for 9.0 s, after 12 steps: its process is stopped"));
}

TEST_CASE("the line of a rank that does not answer has the time that counts, too") {
  const auto members = of_three(member(100s, 0s), member(97800ms, 5900ms), member(100s, 0s));
  CHECK(begins(
      detail::verdict_on(members, 100s, terms),
      "penstock: rank 1 of 3 (process 7 on host) has not answered for 2.2 s, and has made no "
      "progress for 8.1 s, after at least 12 steps: "));
}

TEST_CASE("a rank that has left is named beside one that may wait for it") {
  auto members = of_three(member(100s, 7s), member(0s, 0s, RankStanding::gone), member(100s, 9s));
  CHECK(begins(detail::verdict_on(members, 100s, terms),
               "penstock: rank 1 of 3 (process 7 on host) has left after 12 steps, and rank 2 has "
               "made no progress for 9.0 s, after 12 steps. "));
  members[1].steps = 13; // whoever waits at step 13 does not wait for it
  CHECK(begins(detail::verdict_on(members, 100s, terms),
               "penstock: rank 2 of 3 (process 7 on host) has made no progress for 9.0 s, "));
  members[1].steps = 11;
  members[0].standing = RankStanding::gone;
  CHECK(begins(detail::verdict_on(members, 100s, terms), // of those that have left, the first
               "penstock: rank 1 of 3 (process 7 on host) has left after 11 steps, and rank 2 "));
}

TEST_CASE("a rank that has left may be silent, and nobody is blamed where stall is 0") {
  const auto members =
      of_three(member(100s, 0s), member(0s, 9s, RankStanding::gone), member(100s, 0s));
  CHECK(detail::verdict_on(members, 100s, terms).empty());
  detail::WatchTerms patient = terms;
  patient.stall = 0s;
  CHECK(detail::verdict_on(of_three(member(0s, 9s), member(0s, 9s), member(0s, 9s)), 100s, patient)
            .empty());
}

TEST_CASE("ranks that have not come in time are named") {
  const auto members = of_three(member(0s, 0s), member(0s, 0s, RankStanding::absent),
                                member(0s, 0s, RankStanding::absent));
  CHECK(detail::verdict_on_missing(members, 19s, terms).empty());
  CHECK(begins(detail::verdict_on_missing(members, 20s, terms),
               "penstock: some of 3 ranks have not come to rank 0 of 3 (process 7 on host) within "
               "20.0 s: rank 1, 2. "));
}

TEST_CASE("a clock that is not looked at counts two beats at most") {
  detail::WatchClock clock{5ms};
  std::this_thread::sleep_for(100ms);
  clock.advance();
  CHECK(clock.now() == 10ms);
}

TEST_CASE("a count that stands still is told from one that moves") {
  detail::StandstillClock clock;
  CHECK(clock.of(0, 5s) == 5s);
  CHECK(clock.of(1, 6s) == 0s);
  CHECK(clock.of(1, 9s) == 3s);
  clock.restart(10s);
  CHECK(clock.of(1, 11s) == 1s);
}
