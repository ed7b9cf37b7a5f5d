// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A run ends although its source waits, whichever way it is left and however the source waits.

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ps = penstock;
using namespace std::chrono_literals;
using ps::tests::Came;
using ps::tests::Outcome;
using ps::tests::outcome_of;
using ps::tests::Watchdog;

namespace {
bool no_descriptors = false;
} // namespace

// In the place of the C library's.
extern "C" int eventfd(unsigned count, int flags) noexcept {
  if (no_descriptors) {
    errno = EMFILE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_eventfd2, count, flags));
}

namespace {

using Number = std::uint64_t;
using OnHost = ps::Batch<const Number, ps::Pageable>;
constexpr Number slot = 16;
constexpr Number given = 3 * slot; // records that come before nothing comes any more

enum class Waits { polls, sleeps, token, patience_as_token, retries };

// A pipe that nobody writes to, how many threads wait now, and how often one was asked to.
struct Silence {
  Silence() { REQUIRE(::pipe(ends) == 0); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  ~Silence() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void await_waiting() const {
    while (waiting == 0) {
      std::this_thread::yield();
    }
  }
  int ends[2]{};
  std::atomic<int> waiting{0};
  std::atomic<int> asked{0};
};

// Of a worker's thread, and so no CHECK.
void expect_end(bool ends) {
  if (!ends) {
    throw std::logic_error{"the source was woken for nothing"};
  }
}

// The numbers from 0 on, up to `given`: then it waits for ever, unless it is told to return.
template <Waits how> struct Silent {
  using schema = Number;
  using Told = std::conditional_t<how == Waits::token, std::stop_token, const ps::Patience&>;
  std::shared_ptr<Silence> silence;
  std::uint64_t records = ps::unknown_size;

  std::uint64_t size() const { return records; }
  template <ps::HostSpace W> ps::Filled read(ps::Batch<Number, W> into, Told told) const {
    if (into.index() < given) {
      std::iota(into.data(), into.data() + into.size(), into.index());
      return ps::for_now(into.size());
    }
    ++silence->asked;
    ++silence->waiting;
    if constexpr (how == Waits::polls) {
      expect_end(!told.readable(silence->ends[0]));
    } else if constexpr (how == Waits::sleeps) {
      expect_end(!told.sleep_for(24h));
    } else if constexpr (how == Waits::retries) {
      throw std::runtime_error{"the line is down"};
    } else {
      std::mutex mutex;
      std::condition_variable_any told_to;
      std::unique_lock lock{mutex};
      told_to.wait(lock, std::stop_token{told}, [] { return false; });
    }
    --silence->waiting;
    return ps::for_now(0);
  }
};

ps::ReaderOptions options(Waits how, unsigned workers = 2) {
  return {.workers = workers,
          .depth = 4,
          .batch = slot,
          .on_error = {.retries = how == Waits::retries ? 1'000'000U : 0U}};
}

// Calls f<how>() for each way to wait.
template <class F> void for_all_waits(F f) {
  const auto one = [&]<Waits how>() {
    CAPTURE(static_cast<int>(how));
    f.template operator()<how>();
  };
  one.template operator()<Waits::polls>();
  one.template operator()<Waits::sleeps>();
  one.template operator()<Waits::token>();
  one.template operator()<Waits::patience_as_token>();
  one.template operator()<Waits::retries>();
}

ps::Pipeline<ps::Reader<Silent<Waits::polls>>, ps::Consumer<void (*)(OnHost)>>* to_stop{};

int open_descriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    ++count;
  }
  return count;
}

} // namespace

TEST_CASE("a loop is left by break, by an exception and by return while the source waits") {
  Watchdog dog{"leaving a loop"};
  for_all_waits([&]<Waits how>() {
    const auto silence = std::make_shared<Silence>();
    auto pipeline = ps::Pipeline{std::tuple{ps::Reader{Silent<how>{silence}, options(how)}}};
    for (int round = 0; round < 4; ++round) {
      dog.progress(static_cast<std::uint64_t>(round));
      std::vector<Number> seen;
      const auto loop = [&] {
        for (auto batch : pipeline.batches()) {
          seen.insert(seen.end(), batch.data(), batch.data() + batch.size());
          if (seen.size() < given) {
            continue;
          }
          silence->await_waiting();
          if (round % 3 == 0) {
            break;
          }
          if (round % 3 == 1) {
            throw std::runtime_error{"loss is NaN"};
          }
          return;
        }
      };
      const Outcome left = outcome_of(loop);
      CHECK(left.text == (round % 3 == 1 ? "loss is NaN" : ""));
      CHECK(seen.size() == given);
      CHECK(seen.back() == given - 1);
      CHECK(pipeline.report().stopped);
      // It was asked once in each run, and not told of the last one's end.
      CHECK((how == Waits::retries || silence->asked == round + 1));
      silence->waiting = 0; // of tries
    }
  });
}

TEST_CASE("a run is stopped while the source waits, by stop() and by a token") {
  Watchdog dog{"stopping"};
  for_all_waits([&]<Waits how>() {
    const auto silence = std::make_shared<Silence>();
    Number seen = 0;
    auto pipeline = ps::Reader{Silent<how>{silence}, options(how)} |
                    ps::Consumer{[&](OnHost batch) { seen += batch.size(); }};
    for (int round = 0; round < 4; ++round) {
      dog.progress(static_cast<std::uint64_t>(round));
      seen = 0;
      std::stop_source stop;
      std::thread stopper{[&] {
        silence->await_waiting();
        round % 2 == 0 ? pipeline.stop() : static_cast<void>(stop.request_stop());
      }};
      const ps::Report& report = pipeline.run({.stop = stop.get_token()});
      stopper.join();
      CHECK(report.stopped);
      CHECK(report.error.empty());
      CHECK(seen <= given);
      silence->waiting = 0;
    }
  });
}

TEST_CASE("a source is told at once, while the batch that was given is still at work") {
  Watchdog dog{"told at once"};
  const auto told_in_the_body = [&]<Waits how>() {
    const auto silence = std::make_shared<Silence>();
    auto pipeline = ps::Pipeline{std::tuple{ps::Reader{Silent<how>{silence}, options(how)}}};
    Number seen = 0;
    for (auto batch : pipeline.batches()) {
      seen += batch.size();
      if (seen == given) {
        silence->await_waiting();
        pipeline.stop();
        while (silence->waiting != 0) {
          std::this_thread::yield();
        }
      }
    }
    CHECK(seen == given);
    CHECK(pipeline.report().stopped);
  };
  told_in_the_body.template operator()<Waits::polls>();
  told_in_the_body.template operator()<Waits::sleeps>();
}

TEST_CASE("an error in any stage ends the run while the source waits") {
  Watchdog dog{"failing"};
  for_all_waits([&]<Waits how>() {
    const auto silence = std::make_shared<Silence>();
    ps::HostDevice device{{.late_seed = 1}};
    for (const std::string bad : {"Decoder", "Kernel", "Consumer", "progress"}) {
      CAPTURE(bad);
      std::atomic<bool> done{false}; // progress is asked again while the run ends
      const auto fail = [&](const char* where, Number first) {
        if (bad == where && first == given - slot && !done.exchange(true)) {
          silence->await_waiting();
          throw std::runtime_error{"on purpose"};
        }
      };
      auto pipeline = ps::Reader{Silent<how>{silence}, options(how)} |
                      ps::Decoder{[&](ps::Batch<const Number, ps::Pageable> in,
                                      ps::Batch<Number, ps::Pinned> out) {
                                    fail("Decoder", in.data()[0]);
                                    std::copy_n(in.data(), in.size(), out.data());
                                  },
                                  {.workers = 2}} |
                      ps::AsyncCopier{device, {.batch = slot}} |
                      ps::Kernel{[&](ps::Batch<Number, ps::Device> batch, ps::HostStream&) {
                        fail("Kernel", batch.index());
                      }} |
                      ps::Consumer{[&](ps::Batch<const Number, ps::Device> batch, ps::HostStream&) {
                        fail("Consumer", batch.index());
                      }};
      for (int round = 0; round < 2; ++round) {
        dog.progress(static_cast<std::uint64_t>(round));
        ps::RunOptions run;
        run.every = 1ms;
        run.progress = [&](const ps::Report& report) {
          fail("progress", report.records >= given - slot ? given - slot : 0);
        };
        const Outcome failed = outcome_of([&] { pipeline.run(run); });
        CHECK(failed.says("on purpose"));
        CHECK(failed.stage == bad);
        done = false;
        silence->waiting = 0;
      }
    }
  });
}

TEST_CASE("a source of known size that waits is told by each of its workers") {
  Watchdog dog{"known size"};
  const auto silence = std::make_shared<Silence>();
  auto pipeline = ps::Pipeline{
      std::tuple{ps::Reader{Silent<Waits::polls>{silence, 100 * slot}, options(Waits::polls, 3)}}};
  for (int round = 0; round < 20; ++round) {
    dog.progress(static_cast<std::uint64_t>(round));
    Number seen = 0;
    for (auto batch : pipeline.batches()) {
      seen += batch.size();
      if (seen == given) {
        while (silence->waiting != 3) {
          std::this_thread::yield();
        }
        break;
      }
    }
    CHECK(seen == given);
    CHECK(silence->waiting == 0);
    CHECK(pipeline.report().stopped);
  }
}

namespace {
// Texts of one letter, of which none comes after `given`.
struct SilentTexts {
  struct schema : ps::Columns<ps::Field<"text", ps::Ragged<char>>> {};
  std::shared_ptr<Silence> silence;

  std::uint64_t size() const { return 100 * slot; }
  void lengths(std::uint64_t, std::span<std::uint64_t> into) const { std::ranges::fill(into, 1U); }
  template <ps::HostSpace W>
  std::size_t read(ps::Batch<schema, W> into, const ps::Patience& patience) const {
    if (into.index() >= given) {
      ++silence->waiting;
      expect_end(!patience.readable(silence->ends[0]));
      --silence->waiting;
      return 0;
    }
    for (std::size_t i = 0; i < into.size(); ++i) {
      *ps::get<"text">(into).put(i, 1) = 'a';
    }
    return into.size();
  }
};
struct Pair : ps::Columns<ps::Field<"left", Number>, ps::Field<"right", Number>> {};
// Gives whole slots, or none when it was told to return.
struct Whole : Silent<Waits::polls> {
  template <ps::HostSpace W>
  std::size_t read(ps::Batch<Number, W> into, const ps::Patience& patience) const {
    return Silent::read(into, patience).count;
  }
};
} // namespace

TEST_CASE("sources of texts and of zipped columns that wait are left as well") {
  Watchdog dog{"other sources"};
  const auto silence = std::make_shared<Silence>();
  const auto rounds = [&](auto& pipeline, const Silence& waits) {
    for (int round = 0; round < 20; ++round) {
      dog.progress(static_cast<std::uint64_t>(round));
      Number seen = 0;
      for (auto batch : pipeline.batches()) {
        seen += batch.size();
        if (seen == given) {
          waits.await_waiting();
          break;
        }
      }
      CHECK(seen == given);
      CHECK(pipeline.report().error.empty());
      CHECK(pipeline.report().stopped);
      CHECK(pipeline.report().stages[0].records == given);
    }
  };
  SECTION("texts") {
    auto pipeline =
        ps::Pipeline{std::tuple{ps::Reader{SilentTexts{silence}, options(Waits::polls, 3)}}};
    rounds(pipeline, *silence);
  }
  SECTION("columns") {
    const Whole waits{{silence, 100 * slot}};
    const auto counts = ps::generate<Number>(
        100 * slot, [](std::span<Number> out, std::uint64_t) { std::ranges::fill(out, 1U); });
    auto pipeline = ps::Pipeline{
        std::tuple{ps::Reader{ps::zip<Pair>(counts, waits), options(Waits::polls, 3)}}};
    rounds(pipeline, *silence);
  }
}

TEST_CASE("stop() in a signal handler ends a run whose source waits") {
  Watchdog dog{"signal"};
  const auto silence = std::make_shared<Silence>();
  void (*ignore)(OnHost) = [](OnHost) {};
  auto pipeline =
      ps::Reader{Silent<Waits::polls>{silence}, options(Waits::polls)} | ps::Consumer{ignore};
  to_stop = &pipeline;
  struct sigaction now{}, before{};
  now.sa_handler = [](int) { to_stop->stop(); };
  ::sigaction(SIGUSR1, &now, &before);
  const pthread_t here = ::pthread_self();
  for (int round = 0; round < 20; ++round) {
    dog.progress(static_cast<std::uint64_t>(round));
    std::thread sender{[&] {
      silence->await_waiting();
      ::pthread_kill(here, SIGUSR1);
    }};
    const ps::Report& report = pipeline.run();
    sender.join();
    CHECK(report.stopped);
  }
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("what waits is shown as waiting, and not at work") {
  const Watchdog dog{"report"};
  for_all_waits([&]<Waits how>() {
    if constexpr (how == Waits::polls || how == Waits::sleeps || how == Waits::retries) {
      const auto silence = std::make_shared<Silence>();
      auto pipeline = ps::Pipeline{std::tuple{ps::Reader{Silent<how>{silence}, options(how, 1)}}};
      Number seen = 0;
      for (auto batch : pipeline.batches()) {
        seen += batch.size();
        if (seen == given) {
          // A try takes a moment now and then.
          while (pipeline.report().stages[0].starved_now != 1) {
            std::this_thread::yield();
          }
          CHECK(pipeline.report().stages[0].records == given);
          break;
        }
      }
      CHECK(pipeline.report().stages[0].retries >= (how == Waits::retries ? 1 : 0));
    }
  });
}

TEST_CASE("descriptors are had in prepare() only, given back, and no child's") {
  const auto silence = std::make_shared<Silence>();
  const int before = open_descriptors();
  const auto prepared = [&](auto source) {
    auto pipeline = ps::Pipeline{std::tuple{ps::Reader{source, options(Waits::polls)}}};
    pipeline.prepare();
    for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
      std::error_code error;
      if (std::filesystem::read_symlink(entry, error).string().find("eventfd") !=
          std::string::npos) {
        const int flags = ::fcntl(std::stoi(entry.path().filename()), F_GETFD);
        CHECK((flags & FD_CLOEXEC) != 0);
      }
    }
    const int more = open_descriptors() - before;
    for (int round = 0; round < 3; ++round) {
      for ([[maybe_unused]] auto batch : pipeline.batches()) {
        break;
      }
      CHECK(open_descriptors() == before + more);
    }
    return more;
  };
  CHECK(prepared(Silent<Waits::polls>{silence}) == 1);
  CHECK(prepared(Silent<Waits::token>{silence}) == 1);
  // Who is not told pays nothing.
  CHECK(prepared(ps::generate<Number>(100, [](std::span<Number>, std::uint64_t) {})) == 0);
  CHECK(open_descriptors() == before);
}

TEST_CASE("without a free descriptor prepare() says so, and does at the next call") {
  const auto silence = std::make_shared<Silence>();
  auto pipeline =
      ps::Pipeline{std::tuple{ps::Reader{Silent<Waits::polls>{silence}, options(Waits::polls)}}};
  no_descriptors = true;
  const Outcome refused = outcome_of([&] { pipeline.prepare(); });
  no_descriptors = false;
  CHECK(refused.came == Came::error);
  CHECK(refused.says("by which a source that waits hears of the run's end: Too many open files: "
                     "close some that you no longer need, or raise the limit (ulimit -n)."));
  pipeline.prepare();
  Number seen = 0;
  for (auto batch : pipeline.batches()) {
    seen += batch.size();
    if (seen == given) {
      break;
    }
  }
  CHECK(seen == given);
}

TEST_CASE("a child that stops its parent's run in a handler does not wake the parent's source") {
  const Watchdog dog{"fork"};
  const auto silence = std::make_shared<Silence>();
  auto pipeline =
      ps::Pipeline{std::tuple{ps::Reader{Silent<Waits::polls>{silence}, options(Waits::polls)}}};
  Number seen = 0;
  for (auto batch : pipeline.batches()) {
    seen += batch.size();
    if (seen == given) {
      silence->await_waiting();
      const int asked = silence->asked;
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        pipeline.stop();
        ::_exit(0);
      }
      int status = -1;
      REQUIRE(::waitpid(child, &status, 0) == child);
      CHECK(status == 0);
      std::this_thread::sleep_for(20ms); // for the source to wake, if it would
      CHECK(silence->waiting == 1);
      CHECK(silence->asked == asked);
      break;
    }
  }
  CHECK(pipeline.report().stopped);
}
