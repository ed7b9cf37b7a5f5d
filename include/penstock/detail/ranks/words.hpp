// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <unistd.h>

namespace penstock::detail {

/// Returns a process's name for people: which it is, and where.
[[gnu::cold]] inline std::string name_of_process() {
  char host[256]{};
  ::gethostname(host, sizeof host - 1);
  return joined({"process ", static_cast<unsigned>(::getpid()), " on ", std::string_view{host}});
}

/// Returns a text of others on one line that a message holds; a '?' stands for what steers a
/// terminal.
[[gnu::cold]] inline std::string one_line(std::string_view text) {
  constexpr std::size_t most = 4096;
  std::string line{text.substr(0, most)};
  std::replace_if(
      line.begin(), line.end(), [](char c) { return (c >= '\0' && c < ' ') || c == '\x7f'; }, '?');
  return line;
}

/// Returns "2.5 s".
[[gnu::cold]] inline std::string in_seconds(std::chrono::nanoseconds time) {
  const auto tenths = static_cast<std::uint64_t>(time / std::chrono::milliseconds{100});
  return joined({tenths / 10, ".", tenths % 10, " s"});
}

// A message holds the rank's name, too.
inline constexpr std::size_t most_why = 2000;

// What is said of a rank, which is called "rank 2 of 4 (process 123 on host)".

[[gnu::cold]] inline std::string rank_called(std::uint32_t rank, std::uint32_t world,
                                             std::string_view process) {
  return joined({"rank ", rank, " of ", world, " (", process, ")"});
}
[[gnu::cold]] inline std::string said_failed(std::string_view rank, std::string_view why) {
  return joined({"penstock: ", rank, " failed: ", one_line(why.substr(0, most_why))});
}
[[gnu::cold]] inline std::string said_lost(std::string_view rank) {
  return joined({"penstock: ", rank,
                 " is lost: its process ended before its watch did. A signal has killed it, or it "
                 "called exit(). "
                 "See its own output, and the kernel's log if memory ran out."});
}

/// A rank that makes no progress.
struct RankStall {
  std::uint32_t rank{};
  std::chrono::nanoseconds time{};
  std::uint64_t steps{}; // before

  /// `at_least`: it may have made more steps than it has told.
  std::string text(bool at_least = false) const {
    return joined({" has made no progress for ", in_seconds(time), ", after ",
                   at_least ? "at least " : "", steps, " steps"});
  }
};

[[gnu::cold]] inline std::string said_silent(std::string_view rank, std::chrono::nanoseconds time,
                                             const std::string& since = {}) {
  return joined({"penstock: ", rank, " has not answered for ", in_seconds(time), since,
                 ": its process is stopped (SIGSTOP, a debugger), or its host or the network is "
                 "gone."});
}
/// `stall` is what ends the job: `its_own`, or another rank's.
[[gnu::cold]] inline std::string said_silent(std::string_view rank, std::chrono::nanoseconds time,
                                             const RankStall& stall, bool its_own) {
  return said_silent(rank, time,
                     its_own ? joined({", and", stall.text(true)})
                             : joined({" while rank ", stall.rank, stall.text()}));
}
[[gnu::cold]] inline std::string said_stalled(std::string_view rank, const RankStall& stall) {
  return joined({"penstock: ", rank, stall.text(),
                 ". See where its threads are (gdb -p), or allow more time: RankWatch's option "
                 "stall."});
}
[[gnu::cold]] inline std::string said_left(std::string_view rank, std::uint64_t steps,
                                           const RankStall& stall) {
  return joined({"penstock: ", rank, " has left after ", steps, " steps, and rank ", stall.rank,
                 stall.text(),
                 ". Does it wait for what the one that has left does no more? Have all ranks take "
                 "equally many steps; else see where its threads are (gdb -p)."});
}
/// `one` and `other` are ranks, by what the variables that name their jobs say.
[[gnu::cold]] inline std::string said_of_two_jobs(std::string_view one, std::string_view of_one,
                                                  std::string_view other, std::string_view of_other,
                                                  std::uint16_t port) {
  const auto named = [](std::string_view job) { return job.empty() ? "nothing" : job; };
  return joined({"penstock: ", one, " and ", other, " meet at port ", unsigned{port},
                 ", and are of two jobs: ", named(of_one), " names the one's, ", named(of_other),
                 " the other's. Give each job a PENSTOCK_PORT of its own, or all ranks of one job "
                 "the same variables."});
}

} // namespace penstock::detail
