// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Every state in which a pipeline may be, with every way out of it, for chains of two to five
// stages: each way ends, in a time that is printed, and nothing is left over.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/outcome.hpp"
#include "support/sanitizer.hpp"
#include "support/watchdog.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace suite;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using tests::Came;
using tests::Outcome;
using tests::outcome_of;

namespace {

// A busy machine wakes threads late; the watchdog finds hangs.
constexpr auto bounded = 5s;
constexpr std::uint64_t some = 40; // records until the state is reached
constexpr std::uint64_t endless = std::uint64_t{1} << 40;

double ms(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Large, so that the device's ring has few places and fills up.
struct Item {
  std::uint64_t value;
  std::byte more[(std::size_t{1} << 19) - sizeof(std::uint64_t)];
};
using OnDevice = ps::Batch<const Item, ps::Device>;
using OnHost = ps::Batch<const Item, ps::Pageable>;

struct Boom : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum State { idle, full, empty, parked, copying, failed, sticky };
constexpr std::array states{"idle", "full", "empty", "parked", "copying", "failed", "sticky"};
enum Way { destructor, stop, thrown, left };
constexpr std::array ways{"destructor", "stop", "throw", "break"};

// What the callables do, and how far they have come.
struct Scene {
  std::atomic<bool> source_waits{false}; // from record `some` on, until the way out is open
  std::atomic<bool> end_waits{false};    // with each batch, until the way out is open
  std::atomic<bool> source_fails{false}; // at record `some`
  std::atomic<bool> traps{false};        // the work of the third batch fails
  std::atomic<bool> leaves{false};       // the way out is open
  Way way{stop};                         // set before leaves
  std::atomic<std::uint64_t> read{0}, used{0};
  std::atomic<bool> right{true};
  std::atomic<Clock::time_point> left_at{};

  void fill(std::span<Item> out, std::uint64_t first) {
    ++read;
    while (source_waits && first >= some && !leaves) {
      std::this_thread::sleep_for(50us);
    }
    if (source_fails && first >= some) {
      throw Boom{"boom of the source"};
    }
    out[0].value = first;
  }
  // Called first by the last stage's callable: returns whether to leave the loop.
  bool is_over() {
    ++used;
    while (end_waits && !leaves) {
      std::this_thread::sleep_for(50us);
    }
    if (leaves && way != stop) {
      left_at = Clock::now();
      if (way == thrown) {
        throw Boom{"boom of the end"};
      }
      return true;
    }
    return false;
  }
  void use(const OnDevice& batch, ps::HostStream& stream) {
    if (traps && batch.index() == 2) {
      stream.enqueue([] { throw std::runtime_error{"a trap"}; });
    } else {
      stream.enqueue([this, batch] { right = right && batch.data()->value == batch.index(); });
    }
  }
  void use(const OnHost& batch) { right = right && batch.data()->value == batch.index(); }
};

auto items(Scene& s) {
  return ps::generate<Item>(endless,
                            [&s](std::span<Item> out, std::uint64_t first) { s.fill(out, first); });
}
constexpr ps::ReaderOptions reading{.workers = 2, .depth = 3, .batch = 1};
auto stager() {
  return ps::PinnedStager{{.workers = 2, .depth = 3}};
}
auto copier(ps::HostDevice& device) {
  return ps::AsyncCopier{device, {.batch = 1, .depth = 2}};
}

// A chain of some length, ended by a Consumer or by a loop.
class Chain {
 public:
  virtual ~Chain() = default;
  virtual void prepare() = 0;
  virtual void run() = 0;
  virtual void stop() = 0;
  virtual ps::Report report() const = 0;
};
template <class P> class Closed final : public Chain {
 public:
  explicit Closed(P p) : pipeline_{std::move(p)} {}
  void prepare() override { pipeline_.prepare(); }
  void run() override { pipeline_.run(); }
  void stop() override { pipeline_.stop(); }
  ps::Report report() const override { return pipeline_.report(); }

 private:
  P pipeline_;
};
// What outlives the pipeline after a loop.
struct Kept {
  ps::Lease<OnDevice> on_device;
  ps::Lease<OnHost> on_host;
};
template <class P, class B> class Open final : public Chain {
 public:
  Open(P p, Scene& scene, ps::HostStream& stream, ps::Lease<B>& kept)
      : pipeline_{std::move(p)}, scene_{scene}, stream_{stream}, kept_{kept} {}
  void prepare() override { pipeline_.prepare(); }
  void run() override {
    if constexpr (std::is_same_v<B, OnDevice>) {
      walk(pipeline_.on(stream_));
    } else {
      walk(pipeline_.batches());
    }
  }
  void stop() override { pipeline_.stop(); }
  ps::Report report() const override { return pipeline_.report(); }

 private:
  template <class Range> void walk(Range&& range) {
    for (auto batch : range) {
      if (scene_.is_over()) {
        if (scene_.way == destructor) {
          kept_ = std::move(batch);
        }
        break;
      }
      if constexpr (std::is_same_v<B, OnDevice>) {
        try {
          scene_.use(batch, stream_);
        } catch (const ps::DeviceError& e) {
          // This call may be the first to meet the trap. The loop's next step names the stage at
          // fault.
          if (!e.sticky()) {
            throw;
          }
        }
      } else {
        scene_.use(batch);
      }
    }
  }

  P pipeline_;
  Scene& scene_;
  ps::HostStream& stream_;
  ps::Lease<B>& kept_;
};
template <class P> std::unique_ptr<Chain> closed(P p) {
  return std::make_unique<Closed<P>>(std::move(p));
}
template <class B, class P>
std::unique_ptr<Chain> open(P p, Scene& s, ps::HostStream& stream, ps::Lease<B>& kept) {
  return std::make_unique<Open<P, B>>(std::move(p), s, stream, kept);
}

// The surroundings of a chain.
struct Stage {
  ps::HostDevice& device;
  Scene& scene;
  ps::HostStream& stream;
  Kept& kept;
};
struct Shape {
  const char* name;
  bool device;
  bool loop;
  std::unique_ptr<Chain> (*make)(Stage);
};
auto at_device_end(Scene& s) {
  return ps::Consumer{[&s](OnDevice batch, ps::HostStream& stream) {
    s.is_over();
    s.use(batch, stream);
  }};
}
auto decoder() {
  return ps::Decoder{[](ps::Batch<const Item, ps::Pageable> in, ps::Batch<Item, ps::Pageable> out) {
                       out.data()->value = in.data()->value;
                     },
                     {.workers = 2, .depth = 3}};
}
constexpr Shape shapes[] = {
    {"Reader | Consumer", false, false,
     [](Stage g) {
       return closed(ps::Reader{items(g.scene), reading} |
                     ps::Consumer{[&s = g.scene](OnHost batch) {
                                    s.is_over();
                                    s.use(batch);
                                  },
                                  {.workers = 2}});
     }},
    {"Reader | Decoder, loop", false, true,
     [](Stage g) {
       return open(ps::Reader{items(g.scene), reading} | decoder(), g.scene, g.stream,
                   g.kept.on_host);
     }},
    {"Reader | AsyncCopier | Consumer", true, false,
     [](Stage g) {
       return closed(ps::Reader{items(g.scene), ps::to_pinned, reading} | copier(g.device) |
                     at_device_end(g.scene));
     }},
    {"Reader | PinnedStager | AsyncCopier, loop", true, true,
     [](Stage g) {
       return open(ps::Reader{items(g.scene), reading} | stager() | copier(g.device), g.scene,
                   g.stream, g.kept.on_device);
     }},
    {"Reader | Decoder | PinnedStager | AsyncCopier | Consumer", true, false,
     [](Stage g) {
       return closed(ps::Reader{items(g.scene), reading} | decoder() | stager() | copier(g.device) |
                     at_device_end(g.scene));
     }},
    {"Reader | Decoder | PinnedStager | AsyncCopier, loop", true, true,
     [](Stage g) {
       return open(ps::Reader{items(g.scene), reading} | decoder() | stager() | copier(g.device),
                   g.scene, g.stream, g.kept.on_device);
     }},
};

// Returns when nothing moves any more, as far as can be seen from outside.
void await_rest(const Scene& s) {
  for (std::uint64_t before = ~std::uint64_t{0}; before != s.read + s.used;) {
    before = s.read + s.used;
    std::this_thread::sleep_for(5ms);
  }
}
void await_state(State state, const Scene& s) {
  while (s.used < 3) {
    std::this_thread::sleep_for(50us);
    if (state == full && s.used != 0) {
      break;
    }
  }
  if (state == full || state == empty) {
    await_rest(s);
  } else if (state == parked) {
    await_rest(s);
    std::this_thread::sleep_for(30ms); // far longer than any thread spins
  }
}

// Brings a chain into a state, takes the way out and destroys the chain. Returns the time from the
// way out to the end.
Clock::duration leave(const Shape& shape, State state, Way way, std::uint64_t seed) {
  ps::HostDevice device{{.late_seed = state == copying ? seed : 0,
                         .copy_ns_per_kib = state == copying ? 3'000U : 0U}};
  Scene scene;
  scene.way = way;
  Clock::time_point start;
  Clock::time_point gone;
  {
    ps::HostStream stream = device.stream();
    Kept kept;
    std::unique_ptr<Chain> chain = shape.make({device, scene, stream, kept});
    chain->prepare();
    const bool ends_by_itself = state == failed || state == sticky;
    scene.end_waits = state == full;
    scene.source_waits = state == empty || state == parked;
    scene.source_fails = state == failed;
    scene.traps = state == sticky;
    Outcome out;
    if (ends_by_itself) {
      out = outcome_of([&] { chain->run(); });
      CAPTURE(out);
      CHECK(out.came == Came::stage_error);
      CHECK(out.sticky == (state == sticky));
      scene.source_fails = scene.traps = false;
    }
    const bool by_stop = way == stop || (way == destructor && !shape.loop);
    if (ends_by_itself || state == idle) {
      scene.leaves = true;
      start = Clock::now();
      scene.left_at = start;
      if (way == stop) {
        chain->stop();
      } else if (way != destructor) {
        out = outcome_of([&] { chain->run(); });
      }
      chain.reset();
    } else {
      bool stopped = false;
      std::thread driver{[&] {
        out = outcome_of([&] { chain->run(); });
        stopped = chain->report().stopped;
        chain.reset();
        gone = Clock::now();
      }};
      await_state(state, scene);
      start = Clock::now();
      scene.left_at = start;
      if (by_stop) {
        chain->stop();
      }
      scene.leaves = true;
      driver.join();
      CHECK(stopped == (by_stop || shape.loop));
    }
    if (gone == Clock::time_point{}) {
      gone = Clock::now();
    }
    CAPTURE(out);
    const bool runs = !(ends_by_itself || state == idle) || way == thrown || way == left;
    if (state == sticky) {
      CHECK(out.came == Came::stage_error);
      CHECK(out.sticky);
    } else if (way == thrown && runs) {
      CHECK(out.says("boom of the end"));
      CHECK(out.stage == (shape.loop ? "" : "Consumer"));
    } else if (runs) {
      CHECK(out.came == Came::nothing);
    }
    // The pipeline is gone, and the memory that a lease keeps is there.
    if (kept.on_device) {
      CHECK(device.counts().live_allocations == 1);
      scene.use(kept.on_device, stream);
    }
    if (kept.on_host) {
      scene.use(kept.on_host);
    }
  }
  CHECK(scene.right);
  tests::check_nothing_lives(device);
  return gone - scene.left_at.load();
}

// Returns whether there is such a case: for example, a chain without a loop has no break.
bool exists(const Shape& shape, State state, Way way) {
  if (tests::under_tsan && &shape < &shapes[4]) {
    return false; // the longest chains have all states of the others
  }
  return (shape.loop || way != left) && (shape.device || (state != copying && state != sticky));
}

} // namespace

TEST_CASE("every chain goes away from every state by every way, in bounded time") {
  tests::Watchdog watchdog{"shutdown"};
  Clock::duration worst[states.size()][ways.size()]{};
  std::uint64_t cases = 0;
  for (const Shape& shape : shapes) {
    for (const State state : {idle, full, empty, parked, copying, failed, sticky}) {
      for (const Way way : {destructor, stop, thrown, left}) {
        const std::uint64_t seeds = state == copying && !tests::under_tsan ? 4 : 1;
        for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
          if (!exists(shape, state, way)) {
            continue;
          }
          CAPTURE(shape.name, states[state], ways[way]);
          watchdog.progress(++cases);
          const Clock::duration time = leave(shape, state, way, seed);
          CHECK(time < bounded);
          worst[state][way] = std::max(worst[state][way], time);
        }
      }
    }
  }
  std::printf("worst ms from the way out until the pipeline is gone, of %llu\n%-8s",
              static_cast<unsigned long long>(cases), "");
  for (const char* way : ways) {
    std::printf(" %10s", way);
  }
  for (std::size_t state = 0; state < states.size(); ++state) {
    std::printf("\n%-8s", states[state]);
    for (const Clock::duration time : worst[state]) {
      std::printf(" %10.2f", ms(time));
    }
  }
  std::printf("\n");
  CHECK(cases > 40);
}

TEST_CASE("after a stop no worker begins more than the slot that it had") {
  tests::Watchdog watchdog{"stop latency"};
  constexpr unsigned workers = 3;
  constexpr int runs = tests::under_tsan ? 60 : 400;
  struct Small {
    std::uint64_t value[512];
  };
  std::atomic<bool> stopped{false};
  std::atomic<std::uint64_t> read{0}, read_late{0}, decoded_late{0};
  std::vector<Clock::duration> times;
  ps::HostDevice device;
  auto pipeline =
      ps::Reader{ps::generate<Small>(1'000'000,
                                     [&](std::span<Small> out, std::uint64_t first) {
                                       read_late += stopped ? 1 : 0;
                                       ++read;
                                       out[0].value[0] = first;
                                     }),
                 {.workers = workers, .depth = 16, .batch = 4}} |
      ps::Decoder{[&](ps::Batch<const Small, ps::Pageable> in, ps::Batch<Small, ps::Pageable> out) {
                    decoded_late += stopped ? 1 : 0;
                    std::copy_n(in.data(), in.size(), out.data());
                  },
                  {.workers = workers, .depth = 16}} |
      ps::PinnedStager{{.workers = 1, .depth = 16}} |
      ps::AsyncCopier{device, {.batch = 64, .depth = 3}} |
      ps::Consumer{[](ps::Batch<const Small, ps::Device>, ps::HostStream&) {}};
  pipeline.prepare();
  std::mt19937 random{7};
  for (int run = 0; run < runs; ++run) {
    watchdog.progress(static_cast<std::uint64_t>(run));
    stopped = false;
    read = read_late = decoded_late = 0;
    const std::chrono::microseconds after{random() % 3000};
    Clock::time_point asked;
    std::thread stopper{[&] {
      while (read == 0) {
        std::this_thread::yield();
      }
      std::this_thread::sleep_for(after);
      asked = Clock::now();
      pipeline.stop();
      stopped = true;
    }};
    CHECK(pipeline.run().stopped);
    const Clock::time_point returned = Clock::now();
    stopper.join();
    times.push_back(std::max(returned - asked, Clock::duration{}));
    CHECK(read_late <= workers);
    CHECK(decoded_late <= workers);
  }
  std::sort(times.begin(), times.end());
  std::printf("from stop() to run()'s return, of %d: p50 %.3f ms, p99 %.3f ms, max %.3f ms\n", runs,
              ms(times[times.size() / 2]), ms(times[times.size() * 99 / 100]), ms(times.back()));
  CHECK(times.back() < bounded);
}
