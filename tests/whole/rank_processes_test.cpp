// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The watch over ranks that are processes: how one may end or stop, and what the others say.

#include "support/catch.hpp"
#include "support/environment.hpp"
#include "support/free_port.hpp"

#include <penstock/order/order.hpp>
#include <penstock/rank_watch.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ps = penstock;
using namespace std::chrono_literals;
using ps::tests::Environment;
using ps::tests::free_port;

namespace {

// What a rank does; the process ends with what it returns.
using Body = std::function<int(ps::RankWatch&)>;

int ended_with(pid_t process) {
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Three ranks of this host. None is left when it dies.
class Three {
  static constexpr std::uint32_t world = 3;

 public:
  Three(std::chrono::milliseconds stall, const Body& body) {
    const std::uint16_t port = free_port();
    std::array<int, 2> begun{};
    REQUIRE(::pipe(begun.data()) == 0);
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      std::array<int, 2> said{};
      REQUIRE(::pipe(said.data()) == 0);
      const pid_t process = ::fork();
      if (process == 0) {
        ::dup2(said[1], STDERR_FILENO);
        for (const int fd : {said[0], said[1], begun[0]}) {
          ::close(fd);
        }
        ::_exit(run({rank, world, rank, world}, {.stall = stall, .port = port}, begun[1], body));
      }
      ::close(said[1]);
      processes_.push_back(process);
      said_.push_back(said[0]);
    }
    ::close(begun[1]);
    std::array<char, world> each{};
    for (char& one : each) { // until all are at work, or have ended already
      static_cast<void>(!::read(begun[0], &one, 1));
    }
    ::close(begun[0]);
  }
  Three(const Three&) = delete;
  Three& operator=(const Three&) = delete;
  ~Three() {
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      ::close(said_[rank]);
      if (processes_[rank] != 0) {
        ::kill(processes_[rank], SIGKILL);
        ::waitpid(processes_[rank], nullptr, 0);
      }
    }
  }

  void send(std::uint32_t rank, int signal) const {
    REQUIRE(::kill(processes_[rank], signal) == 0);
  }
  /// Returns with what code a rank has ended, 128 + a signal if that has ended it. Blocks.
  int code(std::uint32_t rank) { return ended_with(std::exchange(processes_[rank], 0)); }
  /// Returns what a rank says on stderr until its end. Blocks.
  std::string said(std::uint32_t rank) const {
    std::string all;
    std::array<char, 4096> some{};
    for (ssize_t got = 1; got > 0;) {
      got = ::read(said_[rank], some.data(), some.size());
      all.append(some.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    }
    return all;
  }
  std::string name(std::uint32_t rank) const {
    return "penstock: rank " + std::to_string(rank) + " of 3 (process " +
           std::to_string(processes_[rank]) + " on ";
  }

 private:
  static int run(const ps::Ranks& ranks, const ps::RankWatchOptions& options, int begun,
                 const Body& body) {
    try {
      ps::RankWatch watch{ranks, options};
      static_cast<void>(!::write(begun, "x", 1));
      return body(watch);
    } catch (...) {
      return 9;
    }
  }

  std::vector<pid_t> processes_;
  std::vector<int> said_;
};

int go_on(ps::RankWatch& watch) {
  for (int i = 0; i < 6000; ++i) {
    std::this_thread::sleep_for(5ms);
    watch.progress();
  }
  return 8;
}

bool holds(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

/// Returns the sockets and event descriptors that a program which this one starts would have.
std::set<int> inherited() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    std::error_code closed; // by the watch's thread, meanwhile
    const std::string is = std::filesystem::read_symlink(entry, closed).string();
    const int fd = std::stoi(entry.path().filename());
    if ((is.find("socket:") == 0 || is.find("anon_inode:[event") == 0) &&
        (::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) {
      found.insert(fd);
    }
  }
  return found;
}

/// Checks that all ranks but `culprit` have ended with exit code 1 and the one line that names it.
void check_others(Three& three, std::uint32_t culprit, const std::string& why) {
  const std::string start = three.name(culprit);
  std::vector<std::string> said;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    if (rank != culprit) {
      said.push_back(three.said(rank));
      CHECK(three.code(rank) == 1);
      CHECK(said.back().find(start) == 0);
      CHECK(holds(said.back(), why));
      CHECK(said.back().find('\n') == said.back().size() - 1);
    }
  }
}

} // namespace

TEST_CASE("a rank that is killed ends all within 5 s, whichever it is") {
  const Environment environment;
  for (const std::uint32_t culprit : {0U, 2U}) {
    Three three{60s, go_on};
    const auto killed = std::chrono::steady_clock::now();
    three.send(culprit, SIGKILL);
    check_others(three, culprit, ") is lost: its process ended before its watch did.");
    CHECK(std::chrono::steady_clock::now() - killed < 5s);
    CHECK(three.code(culprit) == 128 + SIGKILL);
  }
}

TEST_CASE("a rank that ends by exit() under its watch is lost, whatever its exit code") {
  const Environment environment;
  Three three{60s, [](ps::RankWatch& watch) {
                if (watch.ranks().rank == 1) {
                  ::_exit(0);
                }
                return go_on(watch);
              }};
  check_others(three, 1, ") is lost: ");
}

TEST_CASE("a rank that throws ends all, itself too, with the same line") {
  const Environment environment;
  Three three{60s, [](ps::RankWatch& watch) {
                return watch.run([&]() -> int {
                  if (watch.ranks().rank == 2) {
                    throw std::runtime_error{"tensor 7 is missing"};
                  }
                  return go_on(watch);
                });
              }};
  const std::string said = three.said(2);
  CHECK(said.find(three.name(2)) == 0);
  CHECK(holds(said, ") failed: tensor 7 is missing\n"));
  CHECK(three.said(0) == said);
  CHECK(three.said(1) == said);
  CHECK(three.code(2) == 1);
}

TEST_CASE("a rank that is stopped ends the others, whichever it is") {
  const Environment environment;
  Three one{2s, go_on};
  Three other{2s, go_on};
  one.send(0, SIGSTOP);
  other.send(1, SIGSTOP);
  check_others(one, 0, ") has not answered for ");
  check_others(other, 1, ") has not answered for ");
}

TEST_CASE("a rank that was stopped and goes on says what the others have said") {
  const Environment environment;
  for (const std::uint32_t culprit : {0U, 1U}) {
    Three three{1s, go_on};
    three.send(culprit, SIGSTOP);
    const std::string first = three.said(culprit == 0 ? 1 : 0);
    CHECK(first.find(three.name(culprit)) == 0);
    CHECK(holds(first, ") has not answered for "));
    CHECK(three.said(2) == first);
    three.send(culprit, SIGCONT);
    CHECK(three.said(culprit) == first);
    CHECK(three.code(culprit) == 1);
  }
}

TEST_CASE("a rank 0 that was stopped while the others left says what they ended with") {
  const Environment environment;
  Three three{1s, [](ps::RankWatch& watch) {
                std::this_thread::sleep_for(500ms); // until rank 0 is stopped
                return watch.ranks().rank == 0 ? go_on(watch) : 0;
              }};
  three.send(0, SIGSTOP);
  const std::string first = three.said(1);
  CHECK(holds(first, ") has not answered for "));
  CHECK(three.said(2) == first);
  three.send(0, SIGCONT);
  CHECK(three.said(0) == first);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(three.code(rank) == 1);
  }
}

TEST_CASE("ranks that are all stopped for long, and go on, have not failed") {
  const Environment environment;
  Three three{2s, [](ps::RankWatch& watch) {
                for (int i = 0; i < 100; ++i) {
                  std::this_thread::sleep_for(5ms);
                  watch.progress();
                }
                return 0;
              }};
  for (const int signal : {SIGSTOP, SIGCONT}) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      three.send(rank, signal);
    }
    std::this_thread::sleep_for(signal == SIGSTOP ? 2500ms : 0ms);
  }
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(three.code(rank) == 0);
    CHECK(three.said(rank).empty());
  }
}

TEST_CASE("a child that is forked has no watch, and its end is none of the rank's") {
  const Environment environment;
  Three three{60s, [](ps::RankWatch& watch) {
                const pid_t child = ::fork();
                if (child == 0) {
                  watch.fail("nobody hears this");
                  return 7; // through the watch's destructor
                }
                return ended_with(child) == 7 ? 0 : 1;
              }};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(three.code(rank) == 0);
    CHECK(three.said(rank).empty());
  }
}

TEST_CASE("programs that a rank starts do not inherit its connections") {
  const Environment environment;
  const std::set<int> before = inherited();
  Three three{60s, [&before](ps::RankWatch&) { return inherited() == before ? 0 : 1; }};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(three.code(rank) == 0);
  }
}
