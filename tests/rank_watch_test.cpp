// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The watch over ranks that are threads of this process, and tell what they hear.
// whole/rank_processes_test.cpp has ranks that are processes.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/environment.hpp"
#include "support/free_port.hpp"

#include <penstock/detail/ranks/board.hpp>
#include <penstock/detail/ranks/connection.hpp>
#include <penstock/detail/ranks/greeting.hpp>
#include <penstock/detail/ranks/hub.hpp>
#include <penstock/detail/ranks/meeting_place.hpp>
#include <penstock/detail/ranks/socket.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>
#include <penstock/rank_watch.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace ps = penstock;
using namespace std::chrono_literals;
using ps::detail::MeetingPlace;
using ps::detail::RankConnection;
using ps::detail::RankWord;
using ps::detail::Socket;
using ps::tests::caught;
using ps::tests::Environment;
using ps::tests::free_port;

namespace {

// What a rank does; `over` is set once its watch has said what has failed.
using Body = std::function<void(ps::RankWatch&, const std::atomic<bool>& over)>;

ps::Ranks rank_of(std::uint32_t rank, std::uint32_t world) {
  return {rank, world, rank, world};
}

/// Runs a rank, and returns what its watch has said has failed; else what its constructor threw.
std::string heard_by(const ps::Ranks& ranks, ps::RankWatchOptions options, const Body& body) {
  std::string heard;
  std::atomic<bool> over{false};
  options.on_failure = [&](const std::string& why) {
    heard += heard.empty() ? why : " TWICE";
    over = true;
  };
  try {
    ps::RankWatch watch{ranks, options};
    body(watch, over);
  } catch (const ps::Error& e) {
    return heard.empty() ? e.what() : heard;
  } catch (const std::logic_error&) {
    // what a test's rank throws
  }
  return heard;
}
void nothing(ps::RankWatch&, const std::atomic<bool>&) {}

/// Ends a rank's thread, and with it the test case, unless this is so. Catch's CHECK is for one
/// thread.
void must(bool so, const char* what) {
  if (!so) {
    throw std::runtime_error{what};
  }
}

/// Runs a rank for each body, all at a time, and returns what each has heard.
std::vector<std::string> heard_by_all(const ps::RankWatchOptions& options,
                                      const std::vector<Body>& bodies) {
  std::vector<std::future<std::string>> running;
  for (std::uint32_t rank = 0; rank < bodies.size(); ++rank) {
    running.push_back(std::async(std::launch::async, [&options, &bodies, rank] {
      const auto world = static_cast<std::uint32_t>(bodies.size());
      return heard_by(rank_of(rank, world), options, bodies[rank]);
    }));
  }
  std::vector<std::string> heard;
  for (auto& one : running) {
    heard.push_back(one.get());
  }
  return heard;
}

/// Makes progress until a rank has failed, or 20 s have passed.
void go_on(ps::RankWatch& watch, const std::atomic<bool>& over) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!over && std::chrono::steady_clock::now() < end) {
    watch.progress();
    std::this_thread::sleep_for(10ms);
  }
}

bool holds(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("ranks that end in order at different times are not lost, and rank 0 waits for all") {
  const Environment environment;
  std::atomic<bool> last_left{false};
  const Body first = [&](ps::RankWatch& watch, const auto&) {
    watch.leave();
    must(last_left, "rank 0 has not waited");
  };
  const Body last = [&](ps::RankWatch& watch, const auto&) {
    std::this_thread::sleep_for(200ms);
    watch.progress();
    last_left = true;
  };
  CHECK(heard_by_all({.port = free_port()}, {first, nothing, last}) == std::vector<std::string>(3));
}

TEST_CASE("what a rank throws ends all, with its text on one line") {
  const Environment environment;
  for (const std::size_t culprit : {1U, 0U}) {
    std::vector<Body> bodies(3, go_on);
    bodies[culprit] = [](ps::RankWatch& watch, const auto&) {
      must(watch.run([] { return 5; }) == 5, "a result is lost");
      watch.run([]() -> int { throw std::logic_error{"no such file:\n\x1b[2Jdata"}; });
    };
    const auto heard = heard_by_all({.port = free_port()}, bodies);
    CHECK(holds(heard[0], "penstock: rank " + std::to_string(culprit) + " of 3 (process "));
    CHECK(holds(heard[0], ") failed: no such file:??[2Jdata"));
    CHECK(heard[1] == heard[0]);
    CHECK(heard[2] == heard[0]);
  }
}

TEST_CASE("a watch that an exception leaves has failed") {
  const Environment environment;
  const Body throws = [](ps::RankWatch&, const auto&) { throw std::logic_error{"mine"}; };
  const auto heard = heard_by_all({.port = free_port()}, {go_on, throws});
  CHECK(holds(heard[0], "rank 1 of 2"));
  CHECK(holds(heard[0], " failed: it was left by an exception: see its own output"));
  CHECK(heard[1] == heard[0]);
}

TEST_CASE("the first failure stands") {
  const Environment environment;
  const Body fails = [](ps::RankWatch& watch, const auto&) {
    watch.fail("rank " + std::to_string(watch.ranks().rank) + " does");
    watch.fail("once more");
  };
  const auto heard = heard_by_all({.port = free_port()}, {fails, fails, fails});
  CHECK(holds(heard[0], " failed: rank "));
  CHECK(heard[1] == heard[0]);
  CHECK(heard[2] == heard[0]);
}

TEST_CASE("a rank without progress ends all, and one that is slow ends none") {
  const Environment environment;
  const Body stuck = [](ps::RankWatch& watch, const auto&) {
    watch.progress();
    watch.progress();
    std::array<std::byte, 1> never{};
    try {
      watch.share(never);
    } catch (const ps::Error&) {
      return;
    }
    must(false, "nothing was shared");
  };
  const Body slow = [](ps::RankWatch& watch, const auto&) {
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(700ms);
      watch.progress();
    }
  };
  auto slow_ones = std::async(std::launch::async, [&slow, port = free_port()] {
    return heard_by_all({.stall = 3s, .port = port}, {slow, slow});
  });
  const auto heard = heard_by_all({.stall = 2s, .port = free_port()}, {go_on, stuck, go_on});
  CHECK(slow_ones.get() == std::vector<std::string>(2));
  CHECK(holds(heard[0], "rank 1 of 3 (process "));
  CHECK(holds(heard[0], " has made no progress for 2."));
  CHECK(holds(heard[0], ", after 2 steps."));
  CHECK(heard[1] == heard[0]);
  CHECK(heard[2] == heard[0]);
}

TEST_CASE("a rank that has left after fewer steps is named where others wait for it") {
  const Environment environment;
  const auto steps = [](int count) {
    return [count](ps::RankWatch& watch, const std::atomic<bool>& over) {
      for (int i = 0; i < count; ++i) {
        watch.progress();
      }
      while (count == 3 && !over) { // a collective
        std::this_thread::sleep_for(5ms);
      }
    };
  };
  for (const std::uint32_t first : {0U, 1U}) {
    std::vector<Body> bodies(3, steps(3));
    bodies[first] = steps(2);
    const auto heard = heard_by_all({.stall = 2s, .port = free_port()}, bodies);
    const std::string& line = heard[2];
    CHECK(holds(line, "penstock: rank " + std::to_string(first) + " of 3 (process "));
    CHECK(holds(line, ") has left after 2 steps, and rank "));
    CHECK(holds(line, "after 3 steps. Does it wait for what the one that has left does no more?"));
    CHECK(heard[1 - first] == line);
  }
}

TEST_CASE("what rank 0 shares comes to all, in order") {
  const Environment environment;
  const Body share = [](ps::RankWatch& watch, const auto&) {
    const bool first = watch.ranks().rank == 0;
    std::vector<std::byte> large(RankConnection::most_bytes, first ? std::byte{7} : std::byte{});
    std::array<std::byte, 2> small{first ? std::byte{1} : std::byte{}, std::byte{}};
    watch.share(large);
    watch.share(small);
    watch.share({});
    must(large == std::vector<std::byte>(large.size(), std::byte{7}), "other bytes came");
    must(small[0] == std::byte{1}, "another byte came");
  };
  CHECK(heard_by_all({.port = free_port()}, {share, share, share}) == std::vector<std::string>(3));
}

TEST_CASE("bytes that ranks share must be equally many, and not too many") {
  const Environment environment;
  const auto of_size = [](std::size_t size) {
    return [size](ps::RankWatch& watch, const auto&) {
      std::vector<std::byte> bytes(size);
      watch.run([&] { watch.share(bytes); });
    };
  };
  CHECK(holds(heard_by_all({.port = free_port()}, {of_size(3), of_size(4)})[0],
              "failed: penstock: rank 0 shares 3 bytes, and rank 1 takes 4"));
  CHECK(holds(heard_by_all({.port = free_port()}, {of_size(4097), go_on})[1],
              "failed: penstock: 4097 bytes are too many"));
}

TEST_CASE("ranks that do not ask for what is shared end all before it fills the memory") {
  const Environment environment;
  const Body shares = [](ps::RankWatch& watch, const auto& over) {
    std::array<std::byte, 1> one{};
    for (std::size_t i = 0; i <= ps::detail::RankBoard::most_shared; ++i) {
      watch.share(one);
    }
    go_on(watch, over);
  };
  CHECK(holds(heard_by_all({.port = free_port()}, {shares, go_on})[0],
              "rank 0 has called share() 64 times more often"));
}

TEST_CASE("strangers that connect change nothing") {
  const Environment environment;
  const std::uint16_t port = free_port();
  const MeetingPlace place = ps::detail::meeting_place(rank_of(0, 2), port);
  auto first = std::async(std::launch::async,
                          [port] { return heard_by(rank_of(0, 2), {.port = port}, nothing); });
  const auto stranger = [&place] {
    std::string why;
    Socket made;
    for (int i = 0; i < 1000 && !made; ++i) {
      made = ps::detail::connect_to(place, 1s, why);
      std::this_thread::sleep_for(10ms);
    }
    REQUIRE(made);
    return made;
  };
  const Socket silent = stranger();
  const auto is_shown_out = [](const Socket& from) {
    char byte;
    return ps::detail::wait_for(from.get(), POLLIN, 4s) && ::recv(from.get(), &byte, 1, 0) <= 0;
  };
  SECTION("that speak another language") {
    const Socket other = stranger();
    const std::string text = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    REQUIRE(::send(other.get(), text.data(), text.size(), MSG_NOSIGNAL) > 0);
    CHECK(is_shown_out(other));
  }
  SECTION("that claim to send more than a message may have") {
    const Socket other = stranger();
    const ps::detail::RankFrame frame{RankWord::hello, 0xffff'ffff, place.key, 0};
    REQUIRE(::send(other.get(), &frame, sizeof frame, MSG_NOSIGNAL) > 0);
    CHECK(is_shown_out(other));
  }
  SECTION("that greet and do not wait for the answer") {
    RankConnection other{stranger()};
    other.send(RankWord::hello, place.key, std::uint64_t{1} << 32 | 2, "process 1");
  }
  CHECK(heard_by(rank_of(1, 2), {.port = port}, nothing).empty());
  CHECK(first.get().empty());
}

TEST_CASE("a rank of another job is refused on both sides, and the job goes on") {
  const Environment environment;
  const std::uint16_t port = free_port();
  MeetingPlace other = ps::detail::meeting_place(rank_of(1, 2), port);
  other.job = "MASTER_PORT=1";
  ++other.key;
  const std::string two_jobs =
      "are of two jobs: MASTER_PORT=1 names the one's, nothing the other's";
  const auto start = [port](std::chrono::milliseconds limit) {
    return std::async(std::launch::async, [=] {
      return heard_by(rank_of(0, 2), {.start = limit, .port = port}, nothing);
    });
  };
  const auto refusal = [&other](std::uint32_t rank) {
    ps::detail::RankGreeting said;
    for (int i = 0; i < 1000 && !said.refused; ++i) {
      said = ps::detail::greet(other, rank_of(rank, 2), "process 1", 1s);
      std::this_thread::sleep_for(10ms);
    }
    return said.text;
  };
  auto first = start(20s);
  CHECK(holds(refusal(1), "penstock: rank 1 of 2 (process 1) and rank 0 of 2 (process "));
  CHECK(holds(refusal(0), two_jobs)); // that job's rank 0, too, which has no port then
  const ps::detail::WatchTerms terms{rank_of(0, 2), 1s, 1s, {}};
  ps::detail::RankBoard board;
  CHECK(
      holds(caught<ps::Error>([&] { ps::detail::RankHub{board, terms, other}; }).what(), two_jobs));
  CHECK(heard_by(rank_of(1, 2), {.port = port}, nothing).empty());
  CHECK(first.get().empty());

  auto lonely = start(3s);
  refusal(1);
  const std::string said = lonely.get();
  CHECK(holds(said, "some of 2 ranks have not come"));
  CHECK(holds(said, two_jobs));
}

TEST_CASE("two jobs that nothing tells apart do not mix") {
  const Environment environment;
  const std::uint16_t port = free_port();
  const auto start = [port](std::uint32_t rank, const Body& body, ps::RankWatchOptions options) {
    options.port = port;
    return std::async(std::launch::async,
                      [=] { return heard_by(rank_of(rank, 3), options, body); });
  };
  SECTION("both ranks 0 fail, and so does whoever comes to one of them") {
    auto one = start(0, go_on, {.start = 20s});
    auto other = start(0, go_on, {.start = 20s});
    auto third = start(1, go_on, {.start = 2s}); // it may come when both have ended
    const std::string said = one.get();
    CHECK(holds(said, "penstock: two processes are rank 0 of 3: process "));
    CHECK(other.get() == said);
    CHECK_FALSE(third.get().empty());
  }
  SECTION("a job has begun with another one's ranks, and its own one comes") {
    std::vector<std::future<std::string>> running;
    std::atomic<int> begun{0};
    const Body counted = [&begun](ps::RankWatch& watch, const auto& over) {
      ++begun;
      go_on(watch, over);
    };
    for (const std::uint32_t rank : {0U, 1U, 2U}) {
      running.push_back(start(rank, counted, {.start = 20s}));
    }
    while (begun != 3) {
      std::this_thread::sleep_for(5ms);
    }
    running.push_back(start(1, nothing, {.start = 20s}));
    for (auto& one : running) {
      const std::string said = one.get();
      CHECK(holds(said, "penstock: two processes are rank 1 of 3: process "));
      CHECK(holds(said, "Two jobs must not have the same port"));
    }
  }
  SECTION("a job that runs is not disturbed by one that starts later than its own ranks could") {
    std::atomic<bool> end{false};
    const Body until_end = [&end](ps::RankWatch&, const auto& over) {
      while (!end && !over) {
        std::this_thread::sleep_for(5ms);
      }
    };
    std::vector<std::future<std::string>> running;
    for (const std::uint32_t rank : {0U, 1U, 2U}) {
      running.push_back(start(rank, until_end, {.start = 2s}));
    }
    std::this_thread::sleep_for(4s);
    for (const std::uint32_t rank : {0U, 1U}) {
      CHECK(holds(start(rank, nothing, {.start = 2s}).get(),
                  "two processes are rank " + std::to_string(rank) + " of 3"));
    }
    end = true;
    for (auto& one : running) {
      CHECK(one.get().empty());
    }
  }
}

TEST_CASE("a rank that has left early may have another watch, once rank 0 has one") {
  const Environment environment;
  const std::uint16_t port = free_port();
  std::vector<std::future<std::string>> running;
  for (const std::uint32_t rank : {0U, 1U}) {
    running.push_back(std::async(std::launch::async, [port, rank] {
      std::string heard;
      for (int i = 0; i < 2; ++i) {
        heard += heard_by(rank_of(rank, 3), {.start = 20s, .port = port}, nothing);
      }
      return heard;
    }));
  }
  const Body slow = [](ps::RankWatch&, const auto&) { std::this_thread::sleep_for(300ms); };
  for (int i = 0; i < 2; ++i) {
    CHECK(heard_by(rank_of(2, 3), {.start = 20s, .port = port}, slow).empty());
  }
  for (auto& one : running) {
    CHECK(one.get().empty());
  }
}

TEST_CASE("ranks of several hosts meet at MASTER_ADDR") {
  const Environment environment{"MASTER_ADDR=localhost MASTER_PORT=" + std::to_string(free_port())};
  auto first = std::async(std::launch::async, [] {
    return heard_by({.rank = 0, .world = 2}, {.start = 20s}, nothing);
  });
  CHECK(heard_by({.rank = 1, .world = 2}, {.start = 20s}, nothing).empty());
  CHECK(first.get().empty());
}

TEST_CASE("a port that is taken is refused, with the cure") {
  const Environment environment;
  const std::uint16_t port = free_port();
  const Socket taken = ps::detail::listen_at(ps::detail::meeting_place(rank_of(0, 2), port));
  sockaddr_in at{};
  socklen_t size = sizeof at;
  REQUIRE(::getsockname(taken.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
  CHECK(::ntohl(at.sin_addr.s_addr) == INADDR_LOOPBACK); // nobody else reaches it
  const std::string heard = heard_by(rank_of(0, 2), {.port = port}, nothing);
  CHECK(heard == "penstock: rank 0 cannot listen at port " + std::to_string(port) +
                     ": Address already in use. Set PENSTOCK_PORT to a free port, the same for all "
                     "ranks.");

  // A rank that meets such a program does not take it for rank 0.
  const std::string lonely = heard_by(rank_of(1, 2), {.start = 100ms, .port = port}, nothing);
  CHECK(holds(lonely, "rank 1 of 2 (process "));
  CHECK(holds(lonely, "does not find rank 0 at 127.0.0.1 port " + std::to_string(port)));
  CHECK(holds(lonely, "what listens there is not rank 0 of this job"));
}

TEST_CASE("ranks that contradict each other are refused on both sides") {
  const Environment environment;
  const auto both = [port = free_port()](const ps::Ranks& a, const ps::Ranks& b) {
    const ps::RankWatchOptions options{.start = 10s, .port = port};
    auto first = std::async(std::launch::async, [&] { return heard_by(a, options, nothing); });
    const std::string second = heard_by(b, options, nothing);
    const std::string said = first.get();
    CHECK(second == said);
    return said;
  };
  CHECK(
      holds(both(rank_of(0, 2), rank_of(1, 3)), "penstock: the world has 3 ranks by rank 1 of 3"));
  CHECK(holds(both(rank_of(0, 2), rank_of(2, 3)), ", and 2 by rank 0 of 2 ("));

  const std::uint16_t port = free_port();
  std::vector<std::future<std::string>> running;
  for (const std::uint32_t rank : {0U, 1U, 1U}) {
    running.push_back(std::async(std::launch::async, [port, rank] {
      return heard_by(rank_of(rank, 3), {.start = 10s, .port = port}, nothing);
    }));
  }
  for (auto& one : running) {
    CHECK(holds(one.get(), "penstock: two processes are rank 1 of 3: process "));
  }
}

TEST_CASE("a rank that does not come is named, and one that finds nobody says where it looked") {
  const Environment environment;
  const std::uint16_t port = free_port();
  const ps::RankWatchOptions options{.stall = 1s, .start = 500ms, .port = port};
  CHECK(holds(heard_by(rank_of(0, 2), options, nothing),
              "penstock: some of 2 ranks have not come to rank 0 of 2 "));
  CHECK(holds(heard_by(rank_of(1, 2), options, nothing),
              " does not find rank 0 at 127.0.0.1 port " + std::to_string(port) +
                  " within 0.5 s: Connection refused"));
}

TEST_CASE("alone it does nothing") {
  const Environment environment;
  ps::RankWatch watch{{}, {.on_failure = [](const std::string& why) { FAIL(why); }}};
  std::array<std::byte, 1> one{std::byte{4}};
  watch.progress();
  watch.share(one);
  CHECK(one[0] == std::byte{4});
  watch.fail("nobody hears this");
  CHECK_THROWS_AS(watch.run([] { throw std::logic_error{"mine"}; }), std::logic_error);
}

TEST_CASE("options that cannot work are refused") {
  const auto refusal = [](const ps::Ranks& ranks, const ps::RankWatchOptions& options) {
    return std::string{
        caught<ps::OptionError>([&] { const ps::RankWatch watch{ranks, options}; }).what()};
  };
  CHECK(holds(refusal({}, {.stall = 99ms}), "option stall is too short: give 100 ms or more"));
  CHECK(holds(refusal({}, {.stall = -1s}), "option stall is too short"));
  CHECK(holds(refusal({}, {.start = 0s}), "option start gives the ranks no time to come"));
  CHECK(holds(refusal({.rank = 2, .world = 2}, {}), "rank=2 is no rank of world=2"));
}
