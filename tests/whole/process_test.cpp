// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What the program around a pipeline may do: send signals, and fork.

#include "support/catch.hpp"
#include "support/sanitizer.hpp"
#include "support/watchdog.hpp"

#include <penstock/callables/deferred.hpp>
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

// LeakSanitizer takes for leaks, in a child, what the parent's threads have.
static bool looks_for_leaks = true;
extern "C" int __lsan_is_turned_off() {
  return looks_for_leaks ? 0 : 1;
}

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
  const pid_t child = ::fork();
  looks_for_leaks = looks_for_leaks && child != 0;
  return child;
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

namespace {

using Numbers = ps::Batch<const std::uint64_t, ps::Pageable>;

// Fills records with their numbers, and calls `at` for number 500.
template <class At> auto counting(At at) {
  return [at](std::span<std::uint64_t> out, std::uint64_t first) {
    for (std::uint64_t& x : out) {
      x = first++;
      if (x == 500) {
        at();
      }
    }
  };
}
void nothing() {}
void leaves() {
  std::exit(9);
}
void leaves_quickly() {
  std::quick_exit(9);
}
void ends_thread() {
  ::pthread_exit(nullptr);
}
constexpr ps::ReaderOptions by_tens{.batch = 10};

// Calls `at` for record 500 in a source, a Decoder (of records, batches, outputs), a Consumer on
// the thread of run() or of the pipeline, a Kernel, a device Consumer, or on a stream's thread.
enum class Place {
  source,
  record,
  batch,
  output,
  consumer,
  consumers,
  kernel,
  device,
  stream,
  progress
};
constexpr Place all_places[]{Place::source,   Place::record,    Place::batch,  Place::output,
                             Place::consumer, Place::consumers, Place::kernel, Place::device,
                             Place::stream,   Place::progress};

ps::AnyPipeline pipeline_with(ps::HostDevice& device, Place place, void (*at)()) {
  const auto plain = ps::generate<std::uint64_t>(100'000, counting(nothing));
  const auto keep = [](Numbers) {};
  const auto look = [at](auto batch) {
    if (batch.index() <= 500 && 500 < batch.index() + batch.size()) {
      at();
    }
  };
  const auto on_device = ps::Reader{plain, ps::to_pinned, by_tens};
  switch (place) {
  case Place::source:
    return ps::Reader{ps::generate<std::uint64_t>(100'000, counting(at)), by_tens} |
           ps::Consumer{keep};
  case Place::record:
    return ps::Reader{plain, by_tens} |
           ps::Decoder{[at](const std::uint64_t& in, std::uint64_t& out) {
             out = in;
             if (in == 500) {
               at();
             }
           }} |
           ps::Consumer{keep};
  case Place::batch:
    return ps::Reader{plain, by_tens} |
           ps::Decoder{[look](Numbers in, ps::Batch<std::uint64_t, ps::Pageable> out) {
             std::copy_n(in.data(), in.size(), out.data());
             look(in);
           }} |
           ps::Consumer{keep};
  case Place::output:
    return ps::Reader{plain, by_tens} |
           ps::Decoder{[at](const std::uint64_t& in, ps::Output<std::uint64_t>& out) {
             out.push(in);
             if (in == 500) {
               at();
             }
           }} |
           ps::Consumer{keep};
  case Place::consumer:
    return ps::Reader{plain, by_tens} | ps::Consumer{[look](Numbers batch) { look(batch); }};
  case Place::consumers:
    return ps::Reader{plain, by_tens} |
           ps::Consumer{[look, main = std::this_thread::get_id()](Numbers batch) {
                          if (std::this_thread::get_id() != main && batch.index() >= 500) {
                            look(Numbers{batch.data(), 10, 500});
                          }
                          std::this_thread::sleep_for(10us); // so that no thread takes all
                        },
                        {.workers = 3}};
  case Place::kernel:
    return on_device | ps::AsyncCopier{device, {.batch = 10}} |
           ps::Kernel{[look](ps::Batch<const std::uint64_t, ps::Device> in,
                             ps::Batch<std::uint64_t, ps::Device>, ps::HostStream&) { look(in); }} |
           ps::Consumer{[](ps::Batch<const std::uint64_t, ps::Device>, ps::HostStream&) {}};
  case Place::device:
    return on_device | ps::AsyncCopier{device, {.batch = 10}} |
           ps::Consumer{[look](ps::Batch<const std::uint64_t, ps::Device> in, ps::HostStream&) {
             look(in);
           }};
  case Place::stream:
    return on_device | ps::AsyncCopier{device, {.batch = 10}} |
           ps::Consumer{
               [at](ps::Batch<const std::uint64_t, ps::Device> in, ps::HostStream& stream) {
                 if (in.index() == 500) {
                   stream.enqueue([at] { at(); });
                 }
               }};
  case Place::progress:
    break;
  }
  return ps::AnyPipeline{endless()};
}
void run_with(ps::AnyPipeline& pipeline, Place place, void (*at)()) {
  if (place == Place::progress) {
    pipeline.run({.progress = [at](const ps::Report&) { at(); }, .every = 1ms});
  } else {
    pipeline.run();
  }
}

// Both in static storage of this process, so that exit() destroys them, the pipeline first.
void run_static(Place place, void (*at)()) {
  static ps::HostDevice device;
  static ps::AnyPipeline pipeline = pipeline_with(device, place, at);
  run_with(pipeline, place, at);
}

} // namespace

TEST_CASE("exit() in any callable ends the process with its code, whatever it then destroys") {
  if (penstock::tests::under_tsan) {
    SUCCEED("ThreadSanitizer has no threads after a fork");
    return;
  }
  for (void (*const at)() : {leaves, leaves_quickly}) {
    for (const Place place : all_places) {
      CAPTURE(static_cast<int>(place), at == leaves);
      const pid_t child = fork_child();
      if (child == 0) {
        run_static(place, at);
        std::_Exit(1);
      }
      CHECK(end_of(child) == "9");
    }
  }
}

TEST_CASE("exit() on a thread beside the run, and in a loop's body, ends the process") {
  if (penstock::tests::under_tsan) {
    SUCCEED("ThreadSanitizer has no threads after a fork");
    return;
  }
  for (const bool in_loop : {false, true}) {
    CAPTURE(in_loop);
    const pid_t child = fork_child();
    if (child == 0) {
      if (in_loop) {
        static auto open =
            ps::Reader{ps::generate<std::uint64_t>(1000, counting(nothing)), by_tens};
        static auto data = std::move(open) | ps::Decoder{[](const std::uint64_t& in,
                                                            std::uint64_t& out) { out = in; }};
        static auto run = data.batches();
        while (auto batch = run.next()) {
          if (batch.index() == 500) {
            leaves();
          }
        }
      } else {
        static ps::AnyPipeline pipeline{endless()};
        pipeline.prepare();
        std::thread{[] {
          std::this_thread::sleep_for(5ms);
          leaves();
        }}.detach();
        pipeline.run();
        std::this_thread::sleep_for(30s);
      }
      std::_Exit(1);
    }
    CHECK(end_of(child) == "9");
  }
}

TEST_CASE("a callable that ends its thread ends the run, with an error or the thread of run()") {
  if (penstock::tests::under_tsan) {
    SUCCEED("ThreadSanitizer has no threads after a fork");
    return;
  }
  for (const Place place : all_places) {
    if (place == Place::stream) {
      continue; // see errors.md
    }
    CAPTURE(static_cast<int>(place));
    const pid_t child = fork_child();
    if (child == 0) {
      const bool own = place == Place::consumer || place == Place::device;
      bool good = false;
      bool returned = false;
      std::thread{[&] {
        ps::HostDevice device;
        ps::AnyPipeline pipeline = pipeline_with(device, place, ends_thread);
        const auto says = [&](const char* what) {
          try {
            run_with(pipeline, place, ends_thread);
          } catch (const ps::Error& e) {
            return std::string{e.what()}.find(what) != std::string::npos;
          }
          return false;
        };
        good = says("a callable ended its thread");
        if (place != Place::progress) {
          good = good && says("has ended a thread of this pipeline: make another one");
        }
        returned = true;
      }}.join();
      std::_Exit(returned == !own && good == !own ? 0 : 1);
    }
    CHECK(end_of(child) == "0");
  }
}

TEST_CASE("a thread that is cancelled in run() ends, and its pipeline runs again") {
  if (penstock::tests::under_tsan) {
    SUCCEED("ThreadSanitizer has no threads after a fork");
    return;
  }
  for (const bool to_device : {false, true}) {
    CAPTURE(to_device);
    const pid_t child = fork_child();
    if (child == 0) {
      ps::HostDevice device;
      std::atomic<bool> inside{false};
      std::atomic<bool> waits{true};
      const auto wait = [&] {
        inside = true;
        while (waits) {
          ::usleep(1000); // may be cancelled
        }
      };
      ps::AnyPipeline pipeline =
          to_device
              ? ps::AnyPipeline{ps::Reader{ps::generate<std::uint64_t>(1000, counting(nothing)),
                                           ps::to_pinned, by_tens} |
                                ps::AsyncCopier{device, {.batch = 10}} |
                                ps::Consumer{[&](ps::Batch<const std::uint64_t, ps::Device>,
                                                 ps::HostStream&) { wait(); }}}
              : ps::AnyPipeline{
                    ps::Reader{ps::generate<std::uint64_t>(1000, counting(nothing)), by_tens} |
                    ps::Consumer{[&](Numbers) { wait(); }}};
      std::thread runs{[&] { pipeline.run(); }};
      while (!inside) {
        std::this_thread::yield();
      }
      ::pthread_cancel(runs.native_handle());
      runs.join();
      waits = false;
      const std::string error = pipeline.report().error;
      const bool told = error.find("a callable ended its thread") != std::string::npos;
      std::_Exit(told && pipeline.run().records == 1000 ? 0 : 1);
    }
    CHECK(end_of(child) == "0");
  }
}
