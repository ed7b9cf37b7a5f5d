// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/detail/ranks/connection.hpp>
#include <penstock/detail/ranks/meeting_place.hpp>
#include <penstock/detail/ranks/socket.hpp>
#include <penstock/detail/ranks/words.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <poll.h>

namespace penstock::detail {

/// Who comes to rank 0, by its greeting.
struct RankNewcomer {
  std::uint32_t rank{};
  std::uint32_t world{};
  std::string process;
  std::string job; // what tells it from others

  /// Reads a message with the word `hello`.
  [[gnu::cold]] static RankNewcomer of(const RankMessage& hello) {
    const std::size_t end = hello.text.find('\n');
    const auto job = end == hello.text.npos ? std::string_view{} : hello.text.substr(end + 1);
    return {static_cast<std::uint32_t>(hello.b >> 32), static_cast<std::uint32_t>(hello.b),
            one_line(hello.text.substr(0, end)), one_line(job)};
  }
  std::string called() const { return rank_called(rank, world, process); }
};

/// What comes of a greeting.
struct RankGreeting {
  RankConnection link{Socket{}}; // open if rank 0 takes this rank in
  std::string text;              // then rank 0's process; else why it does not
  bool refused{};                // for good
};

/// Greets whoever listens at the meeting place. Blocks for twice `limit` at most, and for as long
/// as it takes to look the host up.
[[gnu::cold]] inline RankGreeting greet(const MeetingPlace& place, const Ranks& ranks,
                                        const std::string& process,
                                        std::chrono::milliseconds limit) {
  constexpr std::size_t most_of_job = 1000; // of a message
  RankGreeting greeting;
  greeting.link = RankConnection{connect_to(place, limit, greeting.text)};
  if (!greeting.link.is_open()) {
    return greeting;
  }
  greeting.link.send(RankWord::hello, place.key, std::uint64_t{ranks.rank} << 32 | ranks.world,
                     joined({process, "\n", place.job.substr(0, most_of_job)}));
  greeting.text = "what listens there is not rank 0 of this job";
  while (wait_for(greeting.link.fd(), POLLIN, limit)) {
    const bool there = greeting.link.receive();
    const auto said = greeting.link.next();
    if (said && said->word == RankWord::welcome && said->a == place.key) {
      greeting.text = one_line(said->text);
      return greeting;
    }
    if (said && (said->word == RankWord::verdict || said->word == RankWord::refusal)) {
      greeting.text = one_line(said->text);
      greeting.refused = true;
      break;
    }
    if (said && said->word == RankWord::later) {
      greeting.text = "rank 0 is still in a watch that this rank has left";
    }
    if (said || !there) {
      break;
    }
  }
  greeting.link.close();
  return greeting;
}

/// Returns a socket that listens for the ranks. Throws an Error if the port is taken: if another
/// rank 0 has it, with what that one says.
[[gnu::cold]] inline Socket listen_as_first(const MeetingPlace& place, const Ranks& ranks,
                                            const std::string& process) {
  constexpr std::chrono::seconds most_patience{2};
  try {
    return listen_at(place);
  } catch (const Error&) {
    MeetingPlace here = place;
    here.host = "127.0.0.1";
    const RankGreeting greeting = greet(here, ranks, process, most_patience);
    if (greeting.refused) {
      throw Error{greeting.text};
    }
    throw;
  }
}

} // namespace penstock::detail
