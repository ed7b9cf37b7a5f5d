// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/threads.hpp>
#include <penstock/detail/ranks/board.hpp>
#include <penstock/detail/ranks/hub.hpp>
#include <penstock/detail/ranks/meeting_place.hpp>
#include <penstock/detail/ranks/spoke.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>
#include <penstock/order/ranks.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <unistd.h>

namespace penstock {

/// Options of a RankWatch: the same for all ranks.
struct RankWatchOptions {
  /// For how long a rank may make no progress, or not answer, before all end; 0: for ever. From 100
  /// ms on.
  std::chrono::milliseconds stall{60'000};
  /// For how long the ranks may take to come.
  std::chrono::milliseconds start{60'000};
  /// Rank 0's port, for one watch at a time; 0: PENSTOCK_PORT, else one that follows from the job.
  std::uint16_t port = 0;
  /// What a rank does when the job has failed, given why: one line. It is called once, on the
  /// watch's thread, and must not call the watch. Without it, the line goes to stderr and the
  /// process ends at once with exit code 1, by _exit(): a rank may be stuck in what waits for
  /// others.
  std::function<void(const std::string& why)> on_failure = {};
};

namespace detail {

/// What a watch does that is not told otherwise.
[[gnu::cold]] inline void print_and_exit(const std::string& why) {
  const std::string line = why + '\n';
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  ::_exit(EXIT_FAILURE);
}

/// Returns the ranks if they and the options can be; else throws an OptionError.
[[gnu::cold]] inline Ranks checked_watch(const Ranks& ranks, const RankWatchOptions& options) {
  using namespace std::chrono_literals;
  check_ranks(ranks, {"rank", "world", "local_rank", "local_world"},
              "Correct the RankWatch's, or take what ps::ranks() returns.");
  if (options.stall != 0ms && options.stall < 100ms) {
    throw_error<OptionError>({"penstock: RankWatch's option stall is too short: give 100 ms or "
                              "more, or 0 to wait for ever."});
  }
  if (options.start <= 0ms) {
    throw_error<OptionError>({"penstock: RankWatch's option start gives the ranks no time to come: "
                              "give 1 ms or more."});
  }
  return ranks;
}

} // namespace detail

/// Ends all ranks of a job if one fails: `ps::RankWatch watch{ps::ranks()};`. A rank has failed if
/// its process ends without the watch's destructor, if fail() or run() says so, if its process is
/// stopped, or if it makes no progress for long. All ranks then end with the same line, which names
/// the rank that was first.
///
/// A small thread in each rank keeps a TCP connection to rank 0. No signal handler, child process
/// or other setting of the process is touched, and a child that is forked has no watch. With one
/// rank, it does nothing.
///
/// Any thread may call its members.
class RankWatch {
 public:
  /// Returns when all ranks are here. Throws an OptionError if nothing tells where to meet, and an
  /// Error if the ranks do not come, contradict each other or end before that.
  [[gnu::cold]] explicit RankWatch(const Ranks& ranks, RankWatchOptions options = {})
      : ranks_{detail::checked_watch(ranks, options)} {
    if (ranks.world == 1) {
      return;
    }
    const detail::MeetingPlace place = detail::meeting_place(ranks, options.port);
    if (!options.on_failure) {
      options.on_failure = detail::print_and_exit;
    }
    state_ = detail::Owned{
        new State{{ranks, options.stall, options.start, std::move(options.on_failure)}}};
    if (ranks.rank == 0) {
      start<detail::RankHub>(place);
    } else {
      start<detail::RankSpoke>(place);
    }
    std::unique_lock lock{board().mutex};
    board().changed.wait(lock, [this] { return board().begun || board().over; });
    if (!board().begun) {
      const std::string verdict = board().verdict;
      lock.unlock();
      thread_.join();
      throw Error{verdict};
    }
  }
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;
  /// Does what leave() does. If an exception is on its way, the rank has failed instead.
  [[gnu::cold]] ~RankWatch() {
    if (!state_) {
      return;
    }
    // The thread is the parent's, or exit() was called on it.
    if (is_forked() || thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
      state_.release();
      return;
    }
    if (std::uncaught_exceptions() > exceptions_) {
      fail("it was left by an exception: see its own output");
    }
    leave();
    thread_.join();
  }

  /// Returns the ranks that it watches.
  const Ranks& ranks() const noexcept { return ranks_; }

  /// Says that this rank has made progress: call it once a step, and within what takes long. Some
  /// nanoseconds; never blocks.
  void progress() noexcept {
    if (state_) {
      board().steps.fetch_add(1, StdAtomics::relaxed);
    }
  }

  /// Calls `f` and returns what it returns. What it throws has all ranks end, with its text.
  template <class F> decltype(auto) run(F&& f) {
    try {
      return std::forward<F>(f)();
    } catch (const std::exception& e) {
      fail(detail::text_of(e));
      throw;
    } catch (...) {
      fail("it threw what is no std::exception");
      throw;
    }
  }

  /// Has all ranks end: this one has failed, and `why` says how. Returns only if on_failure does;
  /// with one rank, at once. Blocks until all were told, or for 3 s.
  [[gnu::cold]] void fail(std::string_view why) {
    if (state_ && !is_forked()) {
      board().change([&] {
        board().failure = why;
        board().failed = true;
      });
      wait_until_over();
    }
  }

  /// Says that this rank has come to its end in order: its process may end, whatever becomes of the
  /// others. Rank 0 waits here for all others, and still ends if one of them fails.
  [[gnu::cold]] void leave() {
    if (state_ && !is_forked()) {
      board().change([this] { board().leaving = true; });
      wait_until_over();
    }
  }

  /// Gives all ranks the bytes that rank 0 has, at most 4096. All ranks must call it equally often,
  /// with as many bytes. Rank 0 returns at once, the others wait for it. Throws an Error if the job
  /// is over, or the sizes differ.
  [[gnu::cold]] void share(std::span<std::byte> bytes) {
    if (bytes.size() > detail::RankConnection::most_bytes) {
      detail::throw_error<OptionError>({"penstock: ", bytes.size(),
                                        " bytes are too many for RankWatch::share(): it takes 4096 "
                                        "at most. Share them in parts."});
    }
    if (!state_ || is_forked()) {
      return;
    }
    std::unique_lock lock{board().mutex};
    if (ranks_.rank == 0 && !board().over) {
      board().to_share.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      board().waker.wake();
      return;
    }
    board().changed.wait(lock, [this] { return !board().shared.empty() || board().over; });
    if (board().shared.empty()) {
      detail::throw_error<Error>({board().verdict.empty() ? "penstock: nothing is shared by ranks "
                                                            "that have left their watch."
                                                          : board().verdict});
    }
    const std::string came = std::move(board().shared.front());
    board().shared.pop_front();
    if (came.size() != bytes.size()) {
      detail::throw_error<Error>({"penstock: rank 0 shares ", came.size(), " bytes, and rank ",
                                  ranks_.rank, " takes ", bytes.size(),
                                  ". Give RankWatch::share() equally many on all ranks."});
    }
    std::memcpy(bytes.data(), came.data(), came.size());
  }

 private:
  struct State {
    explicit State(detail::WatchTerms given) : terms{std::move(given)} {}
    const detail::WatchTerms terms;
    detail::RankBoard board;
    const pid_t process = ::getpid();
  };

  detail::RankBoard& board() const noexcept { return state_->board; }
  bool is_forked() const noexcept { return state_->process != ::getpid(); }
  void wait_until_over() {
    board().waker.wake();
    std::unique_lock lock{board().mutex};
    board().changed.wait(lock, [this] { return board().over; });
  }
  /// Starts the watch's thread.
  template <class Post> void start(const detail::MeetingPlace& place) {
    State& state = *state_;
    detail::Owned post{new Post{state.board, state.terms, place}};
    thread_ = detail::start_thread([&state, post = std::move(post)] {
      try {
        post->run();
      } catch (const std::exception& e) { // no memory, which nothing mends
        state.board.conclude(detail::said_failed("the watch over this rank", e.what()),
                             state.terms);
      }
    });
  }

  Ranks ranks_;
  int exceptions_ = std::uncaught_exceptions();
  detail::Owned<State> state_;
  std::thread thread_;
};

} // namespace penstock
