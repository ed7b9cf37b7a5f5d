// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What the program around a pipeline may do: send signals, and fork.

#include "support/catch.hpp"
#include "support/sanitizer.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ps = penstock;
using namespace std::chrono_literals;

namespace {

// A pipeline that goes on until it is stopped.
auto endless() {
  const auto fill = [](std::span<std::uint64_t> out, std::uint64_t) -> std::size_t {
    std::this_thread::sleep_for(100us);
    std::ranges::fill(out, 1U);
    return out.size();
  };
  return ps::Reader{ps::generate<std::uint64_t>(fill), {.workers = 2, .batch = 64}} |
         ps::Consumer{[](ps::Batch<const std::uint64_t, ps::Pageable>) {}};
}
using Endless = decltype(endless());

// The pipeline that the handler of SIGUSR1 stops.
Endless* to_stop = nullptr;
std::atomic<std::uint64_t> handled{0};

struct Handler {
  Handler(int number, void (*handle)(int)) : signal{number} {
    struct sigaction now{};
    now.sa_handler = handle;
    ::sigaction(signal, &now, &before);
  }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;
  ~Handler() { ::sigaction(signal, &before, nullptr); }
  int signal;
  struct sigaction before{};
};

// Returns the signals that are not blocked in the calling thread.
std::set<int> open_signals() {
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  std::set<int> open;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    const bool of_the_c_library = signal > 31 && signal < SIGRTMIN;
    if (!of_the_c_library && sigismember(&blocked, signal) == 0) {
      open.insert(signal);
    }
  }
  open.erase(SIGKILL); // nobody can block it
  open.erase(SIGSTOP);
  return open;
}

// Calls fork() with empty buffers, which both processes would write.
pid_t fork_child() {
  std::cout.flush();
  std::fflush(nullptr);
  return ::fork();
}

// Returns how a child ended: its exit code, or why there is none.
std::string end_of(pid_t child) {
  const auto limit = std::chrono::steady_clock::now() + 30s;
  for (int status = 0; std::chrono::steady_clock::now() < limit;) {
    if (::waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? std::to_string(WEXITSTATUS(status))
                               : "killed by signal " + std::to_string(WTERMSIG(status));
    }
    std::this_thread::sleep_for(1ms);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return "it hangs";
}

std::vector<std::uint64_t> numbers(std::size_t count) {
  std::vector<std::uint64_t> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    made[i] = i;
  }
  return made;
}

// In static storage, as a program's own pipeline may be: exit() destroys it.
std::vector<std::uint64_t> static_numbers = numbers(1000);
auto static_pipeline = ps::Reader{ps::memory(static_numbers)} |
                       ps::Consumer{[](ps::Batch<const std::uint64_t, ps::Pageable>) {}};

} // namespace

TEST_CASE("stop() from a signal handler, whatever it interrupts, stops the run and returns") {
  penstock::tests::Watchdog watchdog{"stop() from a signal handler"};
  constexpr std::uint64_t signals = penstock::tests::under_tsan ? 500 : 4000;
  Endless pipeline = endless();
  pipeline.prepare();
  to_stop = &pipeline;
  handled = 0;
  const Handler handler{SIGUSR1, [](int) {
                          to_stop->stop();
                          ++handled;
                        }};
  std::atomic<bool> over{false};
  std::atomic<bool> ended{false};
  std::uint64_t stopped = 0;
  std::thread runner{[&] {
    while (!over) {
      stopped += pipeline.run().stopped ? 1 : 0;
    }
    ended = true;
  }};
  const pthread_t reporter = ::pthread_self();
  std::thread sender{[&] {
    for (std::uint64_t sent = 0; sent < signals; ++sent) {
      ::pthread_kill(sent % 2 == 0 ? reporter : runner.native_handle(), SIGUSR1);
      while (handled <= sent) {
        std::this_thread::yield();
      }
      watchdog.progress(sent);
    }
    over = true;
    while (!ended) {
      pipeline.stop();
      std::this_thread::yield();
    }
  }};
  while (!over) {
    (void)pipeline.report();
  }
  sender.join();
  runner.join();
  CHECK(handled == signals);
  CHECK(stopped > 0);
}

TEST_CASE("a stop() while nothing runs is without effect") {
  const std::vector<std::uint64_t> data = numbers(1000);
  auto pipeline = ps::Reader{ps::memory(data)} |
                  ps::Consumer{[](ps::Batch<const std::uint64_t, ps::Pageable>) {}};
  pipeline.stop();
  pipeline.prepare();
  pipeline.stop();
  for (int run = 0; run < 2; ++run) {
    const ps::Report& report = pipeline.run();
    CHECK_FALSE(report.stopped);
    CHECK(report.records == data.size());
    pipeline.stop();
    CHECK_FALSE(pipeline.report().stopped);
  }
}

TEST_CASE("the library's threads leave signals to the program's, but for faults and SIGPROF") {
  const std::set<int> faults{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
  const std::set<int> before = open_signals();
  std::mutex mutex;
  std::map<std::string, std::set<int>> open;
  const auto ask = [&](const char* who) {
    const std::scoped_lock lock{mutex};
    open[who] = open_signals();
  };
  const auto fill = [&](std::span<std::uint64_t> out, std::uint64_t) {
    ask("Reader");
    std::this_thread::sleep_for(1ms);
    std::ranges::fill(out, 1U);
  };
  ps::HostDevice device;
  {
    auto pipeline =
        ps::Reader{ps::generate<std::uint64_t>(10'000, fill), {.workers = 2, .batch = 100}} |
        ps::Decoder{[&](ps::Batch<const std::uint64_t, ps::Pageable> in,
                        ps::Batch<std::uint64_t, ps::Pinned> out) {
                      ask("Decoder");
                      std::memcpy(out.data(), in.data(), in.size() * sizeof(std::uint64_t));
                    },
                    {.workers = 2}} |
        ps::AsyncCopier{device, {.batch = 100}} |
        ps::Kernel{[&](ps::Batch<std::uint64_t, ps::Device>, ps::HostStream& stream) {
          ask("device thread");
          stream.enqueue([&] { ask("stream"); });
        }} |
        ps::Consumer{[](ps::Batch<const std::uint64_t, ps::Device>, ps::HostStream&) {}};
    pipeline.run({.progress = [&](const ps::Report&) { ask("progress"); }, .every = 1ms});
  }
  for (const char* who : {"Reader", "Decoder", "device thread", "stream", "progress"}) {
    INFO(who);
    CHECK(open[who] == faults);
  }
  CHECK(open_signals() == before);
}

TEST_CASE("a forked child exits, with a pipeline of the parent's in static storage") {
  CHECK(static_pipeline.run().records == static_numbers.size());
  const pid_t child = fork_child();
  if (child == 0) {
    std::exit(0);
  }
  CHECK(end_of(child) == "0");
  CHECK(static_pipeline.run().records == static_numbers.size());
}

TEST_CASE(
    "a forked child destroys all that the parent runs and holds, and the parent's run goes on") {
  using Device = ps::HostDevice;
  using Numbers = ps::Batch<const std::uint64_t, ps::Device>;
  struct InChild {};
  const std::vector<std::uint64_t> data = numbers(100'000);
  for (const std::uint64_t forks_at : {0, 300, 99'900}) {
    CAPTURE(forks_at);
    std::optional<Device> device{std::in_place, ps::HostOptions{.late_seed = 1}};
    auto stream = std::make_optional(device->stream());
    auto array = std::make_optional(ps::device_array<std::uint64_t>(*device, 10'000));
    std::optional<ps::Deferred<std::uint64_t, Device>> firsts{std::in_place, *device};
    auto pipeline = std::make_optional(
        ps::Reader{ps::memory(data), ps::to_pinned, {.workers = 2, .batch = 1000}} |
        ps::AsyncCopier{*device, {.batch = 100}} |
        ps::Kernel{[](ps::Batch<std::uint64_t, ps::Device>, ps::HostStream&) {}});
    ps::Lease<Numbers> kept;
    std::uint64_t seen = 0;
    std::string end;
    try {
      const auto progress = [](const ps::Report&) {};
      for (auto batch : pipeline->on(*stream, {.progress = progress, .every = 1ms})) {
        seen += batch.size();
        (void)firsts->put(batch.data(), *stream);
        if (batch.index() == forks_at) {
          kept = std::move(batch);
          const pid_t child = fork_child();
          if (child == 0) {
            throw InChild{};
          }
          end = end_of(child);
        }
      }
    } catch (const InChild&) {
      pipeline.reset();
      kept.release();
      firsts.reset();
      array.reset();
      stream.reset();
      device.reset();
      std::_Exit(0);
    }
    CHECK(end == "0");
    CHECK(seen == data.size());
    CHECK(firsts->size() == data.size() / 100);
  }
}

TEST_CASE(
    "a forked child is told that the parent's pipeline does not run there, and makes its own") {
  static_pipeline.prepare();
  const pid_t child = fork_child();
  if (child == 0) {
    int wrong = 1;
    try {
      static_pipeline.run();
    } catch (const ps::Error& e) {
      wrong = std::string{e.what()}.find("make another one after the fork") == std::string::npos;
    }
    if (!penstock::tests::under_tsan) { // ThreadSanitizer has no threads after a fork
      auto own = ps::Reader{ps::memory(static_numbers)} |
                 ps::Consumer{[](ps::Batch<const std::uint64_t, ps::Pageable>) {}};
      wrong += own.run().records != static_numbers.size();
    }
    std::_Exit(wrong);
  }
  CHECK(end_of(child) == "0");
}
