// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whole pipelines whose k-th allocation is refused, or whose k-th thread cannot be started, for
// every k. Allocations by operator new are refused, of any thread. Those that std::thread and the
// C++ runtime make by malloc (stacks, exceptions) are not refused here.

#include "support/counted_new.hpp"

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <penstock/machine/detail/mapping.hpp>
#include <penstock/machine/detail/processor_set.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

using namespace suite;
namespace detail = penstock::detail;
namespace memory = tests::memory;
using tests::Came;
using tests::Outcome;
using tests::outcome_of;

namespace {
std::atomic<int> threads_until_failure{-1};
} // namespace

// Stands before the function of the C library and those of sanitizers, and fails when told to.
extern "C" {
[[gnu::weak]] int __interceptor_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*),
                                               void*);
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  if (threads_until_failure >= 0 && threads_until_failure-- == 0) {
    return EAGAIN;
  }
  static const auto real =
      __interceptor_pthread_create
          ? &__interceptor_pthread_create
          : reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}
}

namespace {

using Bytes = ps::Batch<const std::byte, ps::Device>;
using HostBytes = ps::Batch<const std::byte, ps::Pageable>;

constexpr std::size_t record = 524'289; // one in each slot and batch, which keeps these small
constexpr std::size_t total = 4 * record;
const ps::RecordsOptions options{.record_bytes = record};

// Refuses allocations for one call; its exception is checked when memory is available again.
struct Refuse {
  Refuse(std::uint64_t k, bool persistent) { memory::refuse_allocation(k, persistent); }
  Refuse(const Refuse&) = delete;
  Refuse& operator=(const Refuse&) = delete;
  ~Refuse() { memory::refuse_allocation(0); }
};

// Can be thrown without an allocation.
struct Boom : std::exception {
  const char* what() const noexcept override { return "boom"; }
};

// A device pipeline over files, and a host pipeline: together they have all stages. Each has all
// that it needs and checks whether the right bytes came out.
struct OnDevice {
  explicit OnDevice(const std::string& path)
      : got{device, total},
        pipeline{ps::Reader{ps::records<std::byte>(path, options), {.workers = 2, .depth = 2}} |
                 ps::PinnedStager{{.workers = 2, .depth = 2}} |
                 ps::AsyncCopier{device, {.batch = 1}} | ps::Consumer{Use{this}}} {}

  struct Use {
    OnDevice* self;
    void operator()(Bytes bytes, ps::HostStream& stream) const {
      self->on_batch(bytes.index());
      self->got(bytes, stream);
    }
  };
  void clear() { got.clear(); }
  bool holds(std::span<const std::byte> bytes) const { return got.in_order && got.holds(bytes); }
  bool nothing_lives() const {
    const ps::HostCounts now = device.counts();
    return now.live_allocations == 0 && now.live_pinned == 1 && now.live_streams == 0 &&
           now.live_events == 0;
  }

  std::function<void(std::uint64_t)> on_batch = [](std::uint64_t) {};
  ps::HostDevice device;
  Collector<ps::HostDevice> got;
  decltype(ps::Reader{ps::records<std::byte>(""), {}} | ps::PinnedStager{} |
           ps::AsyncCopier{std::declval<ps::HostDevice&>(), {}} |
           ps::Consumer{std::declval<Use>()}) pipeline;
};

struct OnHost {
  explicit OnHost(const std::string& path)
      : got(total),
        pipeline{ps::Reader{ps::records<std::byte>(path, options), {.workers = 2, .depth = 2}} |
                 ps::Consumer{Use{this}, {.workers = 3}}} {}

  struct Use {
    OnHost* self;
    void operator()(HostBytes bytes) const {
      self->on_batch(bytes.index());
      std::memcpy(self->got.data() + bytes.index() * record, bytes.data(), bytes.size_bytes());
    }
  };
  void clear() { std::fill(got.begin(), got.end(), std::byte{0xEE}); }
  bool holds(std::span<const std::byte> bytes) const {
    return std::equal(got.begin(), got.end(), bytes.begin(), bytes.end());
  }
  bool nothing_lives() const { return true; }

  std::function<void(std::uint64_t)> on_batch = [](std::uint64_t) {};
  std::vector<std::byte> got;
  decltype(ps::Reader{ps::records<std::byte>(""), {}} | ps::Consumer{std::declval<Use>()}) pipeline;
};

// The application's own loop over a decoder's output, through AnyBatches. The decoder calls
// on_batch.
struct OnLoop {
  explicit OnLoop(const std::string& path)
      : got{device, total}, stream{device.stream()}, pipeline{this, batches(path)} {}

  ps::AnyBatches<Bytes> batches(const std::string& path) {
    const auto decode = [this](HostBytes in, ps::Batch<std::byte, ps::Pageable> out) {
      on_batch(in.source_index());
      std::memcpy(out.data(), in.data(), in.size_bytes());
    };
    return {ps::Reader{ps::records<std::byte>(path, options), {.workers = 2, .depth = 2}} |
                ps::Decoder{decode, {.workers = 2, .depth = 2, .extents = {record}}} |
                ps::PinnedStager{{.workers = 1, .depth = 2}} |
                ps::AsyncCopier{device, {.batch = 1}},
            stream};
  }
  struct Loop {
    OnLoop* self;
    ps::AnyBatches<Bytes> any;
    void prepare() { any.prepare(); }
    ps::Report report() const { return any.report(); }
    ps::Report run(const ps::RunOptions& told = {}) {
      for (auto batch : any.batches(told)) {
        self->got(batch, self->stream);
      }
      return any.report();
    }
  };
  void clear() { got.clear(); }
  bool holds(std::span<const std::byte> bytes) const { return got.in_order && got.holds(bytes); }
  bool nothing_lives() const {
    const ps::HostCounts now = device.counts();
    return now.live_allocations == 0 && now.live_pinned == 1 && now.live_streams == 1 &&
           now.live_events == 0;
  }

  std::function<void(std::uint64_t)> on_batch = [](std::uint64_t) {};
  ps::HostDevice device;
  Collector<ps::HostDevice> got;
  ps::HostStream stream;
  Loop pipeline;
};

struct File {
  File()
      : bytes{some_bytes(total)}, path{dir.write("records", std::span<const std::byte>{bytes})} {}
  std::vector<std::byte> bytes;
  tests::TempDir dir;
  std::string path;
};

constexpr int step = tests::under_tsan ? 7 : 1;

// Makes the k-th allocation of prepare() fail for each k, once and for good.
template <class On> int refuse_in_prepare(const File& file, const char* name) {
  tests::Watchdog watchdog{name};
  int points = 0;
  for (const bool persistent : {false, true}) {
    bool fired = true;
    for (std::uint64_t k = 1; fired; k += step) {
      CAPTURE(k, persistent);
      watchdog.progress(k);
      On on{file.path};
      const Outcome out = outcome_of([&] {
        const Refuse refuse{k, persistent};
        on.pipeline.prepare();
      });
      fired = memory::has_refused();
      points += fired ? 1 : 0;
      CAPTURE(out);
      if (fired) {
        // As if prepare() had not been called.
        CHECK((out.came == Came::bad_alloc || out.came == Came::device_error));
        CHECK(on.nothing_lives());
      } else {
        CHECK(out.came == Came::nothing);
      }
      CHECK(on.pipeline.run().records == 4);
      CHECK(on.holds(file.bytes));
    }
  }
  std::printf("%s: %d allocations refused in prepare()\n", name, points);
  return points;
}

// Makes the k-th allocation of a run fail for each k, once and for good. The run fails by itself
// from the batch on at which `breaks` is called: refused are then the error's allocations.
template <class On, class Breaks>
int refuse_in_run(const File& file, const char* name, Breaks breaks) {
  tests::Watchdog watchdog{name};
  int points = 0;
  On on{file.path};
  on.pipeline.prepare();
  for (const bool persistent : {false, true}) {
    bool fired = true;
    for (std::uint64_t k = 1; fired; ++k) {
      CAPTURE(k, persistent);
      watchdog.progress(k);
      on.on_batch = [&](std::uint64_t index) { breaks(on, index); };
      const Outcome out = outcome_of([&] {
        const Refuse refuse{k, persistent};
        on.pipeline.run();
      });
      fired = memory::has_refused();
      points += fired ? 1 : 0;
      CAPTURE(out);
      // The description depends on how much memory there was, but there is always an error.
      CHECK(out.came != Came::nothing);
      if (!fired) {
        CHECK(out.came == Came::stage_error);
      }
      on.on_batch = [](std::uint64_t) {};
      on.clear();
      CHECK(on.pipeline.run().records == 4);
      CHECK(on.holds(file.bytes));
    }
  }
  std::printf("%s: %d allocations refused in run()\n", name, points);
  return points;
}

} // namespace

TEST_CASE("whichever allocation of prepare is refused, it throws, leaks nothing, and works again") {
  const File file;
  const int on_device = refuse_in_prepare<OnDevice>(file, "files to a device");
  const int on_host = refuse_in_prepare<OnHost>(file, "files to the host");
  const int on_loop = refuse_in_prepare<OnLoop>(file, "files to a loop, decoded");
  CHECK(on_device >= (memory::can_refuse ? 40 / step : 0));
  CHECK(on_host >= (memory::can_refuse ? 20 / step : 0));
  CHECK(on_loop >= (memory::can_refuse ? 50 / step : 0));
}

TEST_CASE("a run has no allocation that could be refused") {
  const File file;
  tests::Watchdog watchdog{"no allocation"};
  const auto runs = [&](auto& on) {
    on.pipeline.prepare();
    for (int run = 0; run < 2; ++run) {
      on.clear();
      const Outcome out = outcome_of([&] {
        const Refuse refuse{1, true};
        on.pipeline.run();
      });
      CAPTURE(run, out);
      // The collector allocates only to note the size of each batch.
      CHECK(out.came == Came::nothing);
      CHECK_FALSE(memory::has_refused());
      CHECK(on.holds(file.bytes));
    }
  };
  OnDevice on_device{file.path};
  on_device.got.sizes.reserve(100);
  runs(on_device);
  OnHost on_host{file.path};
  runs(on_host);
}

TEST_CASE("a loop's run has no allocation that could be refused but for its report") {
  const File file;
  OnLoop on{file.path};
  on.got.sizes.reserve(100);
  on.pipeline.prepare();
  for (int run = 0; run < 2; ++run) {
    on.clear();
    const Outcome out = outcome_of([&] {
      const Refuse refuse{1, true};
      for (auto batch : on.pipeline.any.batches()) {
        on.got(batch, on.stream);
      }
    });
    CAPTURE(run, out);
    CHECK(out.came == Came::nothing);
    CHECK_FALSE(memory::has_refused());
    CHECK(on.holds(file.bytes));
  }
}

TEST_CASE("whichever allocation of progress is refused, the run ends and the next one is whole") {
  const File file;
  tests::Watchdog watchdog{"progress without memory"};
  const auto refuse = [&](auto& on, bool persistent, std::chrono::milliseconds every) {
    on.pipeline.prepare();
    // Takes long enough for `progress` to be called.
    on.on_batch = [every](std::uint64_t index) {
      if (index == 1 && every < std::chrono::seconds{1}) {
        std::this_thread::sleep_for(5 * every);
      }
    };
    int points = 0;
    bool fired = true;
    for (std::uint64_t k = 1; fired && k < 60; ++k) {
      CAPTURE(k, persistent, every.count());
      watchdog.progress(k);
      const ps::RunOptions told{.progress = [](const ps::Report&) {}, .every = every};
      on.got.sizes.reserve(1000);
      const Outcome out = outcome_of([&] {
        const Refuse refuse_it{k, persistent};
        on.pipeline.run(told);
      });
      fired = memory::has_refused();
      points += fired ? 1 : 0;
      CAPTURE(out);
      CHECK((out.came == Came::nothing || out.came == Came::bad_alloc ||
             out.came == Came::device_error || out.came == Came::error ||
             (out.came == Came::stage_error && out.stage == "progress")));
      CHECK((fired || out.came == Came::nothing));
      // A run that did not begin is not going on.
      const double seconds = on.pipeline.report().seconds;
      std::this_thread::sleep_for(std::chrono::microseconds{100});
      CHECK(on.pipeline.report().seconds == seconds);
      on.clear();
      CHECK(on.pipeline.run().records == 4);
      CHECK(on.holds(file.bytes));
    }
    return points;
  };
  for (const bool persistent : {false, true}) {
    OnDevice on_device{file.path};
    OnLoop on_loop{file.path};
    int points = 0;
    for (const auto every : {std::chrono::milliseconds{3'600'000}, std::chrono::milliseconds{1}}) {
      points += refuse(on_device, persistent, every);
      points += refuse(on_loop, persistent, every);
    }
    std::printf("%d allocations refused in runs with progress\n", points);
    CHECK(points >= (memory::can_refuse ? 10 : 0));
  }
}

TEST_CASE("whichever allocation of an error is refused, an error comes out and the run ends") {
  const File file;
  const auto throws = [](auto&, std::uint64_t index) {
    if (index == 2) {
      throw std::runtime_error{"a text too long for the object itself"};
    }
  };
  int points = refuse_in_run<OnDevice>(file, "a callable throws, device", throws);
  points += refuse_in_run<OnHost>(file, "a callable throws, host", throws);
  points += refuse_in_run<OnLoop>(file, "a decoder throws, loop", throws);
  points += refuse_in_run<OnDevice>(file, "a device call fails", [](OnDevice& on, std::uint64_t i) {
    if (i == 1) {
      on.device.fail_call(2, {.persistent = false, .code = 9});
    }
  });
  CHECK(points >= (memory::can_refuse ? 12 : 0));
}

TEST_CASE("whichever allocation of a skip is refused, what the consumer is given has no gap") {
  struct Bad {};
  constexpr std::uint64_t slot = 64;
  constexpr std::uint64_t bad = 5 * slot + 3;
  std::vector<std::uint64_t> data(16 * slot);
  std::iota(data.begin(), data.end(), 0);
  tests::Watchdog watchdog{"a skip without memory"};
  int points = 0;
  int errors = 0;
  for (const bool persistent : {false, true}) {
    bool fired = true;
    for (std::uint64_t k = 1; fired; ++k) {
      for (int round = 0; round < 20; ++round) {
        CAPTURE(k, persistent, round);
        watchdog.progress(k);
        std::atomic<int> later{0};
        std::atomic<bool> refused{false};
        // The next slot is decoded when the record is skipped, so it could be handed on.
        const auto decode = [&](const std::uint64_t& in, std::uint64_t& out) {
          out = in;
          later += in / slot == 6 ? 1 : 0;
          if (in == bad) {
            while (later != slot) {
              std::this_thread::yield();
            }
            memory::refuse_allocation(k, persistent);
            refused = true;
            throw Bad{};
          }
        };
        std::uint64_t next = 0;
        bool gap = false;
        const auto consume = [&](ps::Batch<const std::uint64_t, ps::Pageable> batch) {
          for (std::size_t i = 0; i < batch.size(); ++i) {
            next += next == bad ? 1 : 0;
            gap = gap || batch.data()[i] != next++;
          }
          while (batch.data()[0] == 4 * slot && !refused) {
            std::this_thread::yield();
          }
        };
        auto pipeline = ps::Reader{ps::memory(data), {.workers = 1, .batch = slot}} |
                        ps::Decoder{decode, {.workers = 2, .on_error = {.skips = 10}}} |
                        ps::Consumer{consume, {.workers = 1}};
        pipeline.prepare();
        const Outcome out = outcome_of([&] {
          const Refuse none_yet{0, false}; // and none later
          pipeline.run();
        });
        fired = memory::has_refused();
        CAPTURE(out);
        CHECK_FALSE(gap);
        CHECK((next == data.size() || out.came != Came::nothing));
        points += fired ? 1 : 0;
        errors += out.came != Came::nothing ? 1 : 0;
      }
    }
  }
  std::printf("%d allocations of skips refused, %d errors\n", points, errors);
  // Records whose skip cannot be described are skipped all the same; if they cannot be numbered,
  // that is an error.
  CHECK(points >= (memory::can_refuse ? 60 : 0));
  CHECK(errors >= (memory::can_refuse ? 20 : 0));
}

TEST_CASE("an error that there is no memory to describe comes out as it is") {
  const File file;
  OnDevice on{file.path};
  on.pipeline.prepare();
  on.on_batch = [](std::uint64_t index) {
    if (index == 1) {
      memory::refuse_allocation(1, true);
      throw Boom{};
    }
  };
  const Outcome out = outcome_of([&] {
    const Refuse none_yet{0, false}; // and none later
    on.pipeline.run();
  });
  CAPTURE(out);
  if (memory::can_refuse) {
    CHECK(out.came == Came::other);
    CHECK(out.text == "boom");
  } else {
    CHECK(out.says("boom"));
  }
}

TEST_CASE("a callable that is refused memory ends the run with its record") {
  const File file;
  OnHost on{file.path};
  on.on_batch = [](std::uint64_t index) {
    if (index == 3) {
      throw std::bad_alloc{};
    }
  };
  const Outcome out = outcome_of([&] { on.pipeline.run(); });
  CHECK(out.came == Came::stage_error);
  CHECK(out.cause == Came::bad_alloc);
  CHECK(out.stage == "Consumer");
  CHECK(out.record == 3);
}

TEST_CASE("whichever thread cannot be started, prepare throws, leaks nothing, and works again") {
  const File file;
  tests::Watchdog watchdog{"threads"};
  const auto each = [&]<class On>(std::type_identity<On>, const char* name, int least) {
    int points = 0;
    for (bool fired = true; fired; ++points) {
      CAPTURE(points);
      watchdog.progress(static_cast<std::uint64_t>(points));
      On on{file.path};
      threads_until_failure = points;
      const Outcome out = outcome_of([&] { on.pipeline.prepare(); });
      fired = threads_until_failure < 0;
      threads_until_failure = -1;
      CAPTURE(out);
      if (fired) {
        CHECK((out.came == Came::error || out.came == Came::device_error));
        CHECK(out.says("penstock: "));
        CHECK(out.says("thread"));
        CHECK(on.nothing_lives());
      } else {
        CHECK(out.came == Came::nothing);
        CHECK(points == least);
      }
      CHECK(on.pipeline.run().records == 4);
      CHECK(on.holds(file.bytes));
    }
    std::printf("%s: %d threads not started\n", name, points - 1);
  };
  // Two streams, two readers, two stagers, and the device thread.
  each(std::type_identity<OnDevice>{}, "files to a device", 7);
  // Two readers, and two of three consumers.
  each(std::type_identity<OnHost>{}, "files to the host", 4);
  // One stream, two readers, two decoders, a stager, and the device thread.
  each(std::type_identity<OnLoop>{}, "files to a loop, decoded", 7);
}

TEST_CASE("an observer that has begun is ended if no thread can be started to watch the run") {
  struct Counting final : ps::RunObserver {
    void begin() override { ++begun; }
    void end(ps::Report&) noexcept override { ++ended; }
    int begun{};
    int ended{};
  } counting;
  const File file;
  OnHost on{file.path};
  on.pipeline.prepare();
  threads_until_failure = 0;
  const Outcome out = outcome_of(
      [&] { on.pipeline.run({.progress = [](const ps::Report&) {}, .observe = &counting}); });
  CHECK(threads_until_failure < 0);
  CHECK(out.says("no thread could be started to watch the run"));
  CHECK(counting.begun == 1);
  CHECK(counting.ended == 1);
  CHECK(on.pipeline.run({.observe = &counting}).records == 4);
  CHECK(counting.begun == 2);
  CHECK(counting.ended == 2);
}

TEST_CASE("many files are opened by as many threads as there are, and whatever memory is refused") {
  const tests::TempDir dir;
  std::vector<std::string> paths;
  for (int i = 0; i < 100; ++i) {
    paths.push_back(dir.write("a file with a long name " + std::to_string(100 + i), "abc"));
  }
  for (int threads = 0; threads < 12; ++threads) {
    auto source = ps::records<char>(paths);
    threads_until_failure = threads;
    source.open();
    CHECK((threads_until_failure < 0) == (threads < 10)); // five look at the files, five open them
    threads_until_failure = -1;
    CHECK(source.size() == 300);
  }
  std::uint64_t points = 0;
  bool fired = true;
  for (std::uint64_t k = 1; fired; k += 7) {
    CAPTURE(k);
    auto source = ps::records<char>(paths);
    const Outcome out = outcome_of([&] {
      const Refuse refuse{k, false};
      source.open();
    });
    fired = memory::has_refused();
    CHECK((out.came == Came::nothing) == !fired);
    points += fired ? 1 : 0;
    source.open();
    CHECK(source.size() == 300);
  }
  std::printf("%d allocations refused in opening files\n", static_cast<int>(points));
  CHECK(points >= (memory::can_refuse ? 20U : 0U));
}

TEST_CASE("pages are mapped from near, or an error says why not, whatever memory is refused") {
  constexpr std::size_t bytes = 2 * detail::least_touch_bytes;
  const auto near = detail::ProcessorSet::listed(std::to_string(::sched_getcpu()));
  bool fired = true;
  for (std::uint64_t k = 1; fired; ++k) {
    CAPTURE(k);
    void* at = nullptr;
    const Outcome out = outcome_of([&] {
      const Refuse refuse{k, false};
      at = detail::map_pages(bytes, near);
    });
    fired = memory::has_refused();
    CHECK((out.came == Came::nothing) == (at != nullptr));
    CHECK((at != nullptr || fired));
    detail::unmap_pages(at, bytes);
  }
}

TEST_CASE(
    "the thread of progress cannot be started: the run does not begin, and the next one is whole") {
  const File file;
  OnHost on{file.path};
  on.pipeline.prepare();
  threads_until_failure = 0;
  std::atomic<int> told{0};
  const Outcome out = outcome_of([&] {
    on.pipeline.run(
        {.progress = [&](const ps::Report&) { ++told; }, .every = std::chrono::milliseconds{1}});
  });
  CHECK(threads_until_failure < 0);
  threads_until_failure = -1;
  CAPTURE(out);
  CHECK(out.came == Came::error);
  CHECK(out.says("thread"));
  on.on_batch = [](std::uint64_t) { std::this_thread::sleep_for(std::chrono::milliseconds{5}); };
  CHECK(on.pipeline.run().records == 4);
  CHECK(told == 0); // nobody is told of the next run's progress
  CHECK(on.holds(file.bytes));
}
