// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Batches handed to other threads at random: given back there at once, late, in any order, after
// the run, after the pipeline, or kept too long, while loops stop, throw and begin anew. Nothing
// here takes a lock: that would order threads, and hide what the leases forgot to order.
// PENSTOCK_HAND_OVERS says how many batches are handed over, 2,500 by default.

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace ps = penstock;
namespace tests = penstock::tests;
using namespace std::chrono_literals;

namespace {

using Random = std::minstd_rand;
constexpr std::size_t batch_size = 8;

/// Threads that keep what they are given, and give it back in any order.
template <class Lease> class Keepers {
 public:
  explicit Keepers(unsigned seed) {
    for (unsigned i = 0; i != threads_.size(); ++i) {
      threads_.at(i) = std::thread{[this, i, seed] { keep(i, Random{seed + i}); }};
    }
  }
  Keepers(const Keepers&) = delete;
  Keepers& operator=(const Keepers&) = delete;
  ~Keepers() {
    over_.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  /// Returns false if they have no place for it.
  bool take(const Lease& lease, Random& random) {
    auto given = std::make_unique<Lease>(lease);
    Lease* none = nullptr;
    // Relaxed on failure: nothing orders what the keepers did before what the loop does now.
    if (letters_.at(random() % letters_.size())
            .compare_exchange_strong(none, given.get(), std::memory_order_release,
                                     std::memory_order_relaxed)) {
      static_cast<void>(given.release());
      return true;
    }
    return false;
  }
  /// Whether a batch held something else when it was given back than when it was lent.
  bool overwritten() const noexcept { return overwritten_.load(std::memory_order_relaxed); }

 private:
  void keep(unsigned first, Random random) {
    std::vector<std::unique_ptr<Lease>> kept;
    for (bool over = false; !over || !kept.empty();) {
      over = over_.load(std::memory_order_relaxed);
      for (std::size_t i = first; i < letters_.size(); i += threads_.size()) {
        if (auto* const letter = letters_.at(i).exchange(nullptr, std::memory_order_acquire)) {
          kept.emplace_back(letter);
        }
      }
      if (random() % 3 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds{random() % 300});
      }
      for (std::size_t drops = random() % 3 + (over ? 1 : 0); drops != 0 && !kept.empty();
           --drops) {
        std::swap(kept[random() % kept.size()], kept.back());
        look_at(*kept.back());
        kept.pop_back();
      }
    }
  }
  void look_at(const Lease& lease) {
    if constexpr (!std::is_same_v<typename Lease::space, ps::Device>) {
      for (std::size_t i = 0; i != lease.size(); ++i) {
        if (lease.data()[i] != lease.index() + i) {
          overwritten_.store(true, std::memory_order_relaxed);
        }
      }
    }
  }

  std::array<std::atomic<Lease*>, 4> letters_{};
  std::atomic<bool> over_{false};
  std::atomic<bool> overwritten_{false};
  std::array<std::thread, 2> threads_;
};

struct Thrown : std::runtime_error {
  Thrown() : std::runtime_error{"thrown by the body"} {}
};

/// One pipeline, a few runs, and what was handed over.
template <class P, class F> class Round {
  using Shared = decltype(std::declval<F&>()(ps::RunOptions{}).next().share());

 public:
  Round(std::optional<P>& pipeline, F begin, Random& random)
      : pipeline_{pipeline}, begin_{begin}, random_{random},
        keepers_{static_cast<unsigned>(random())} {}

  std::size_t handed_over() const noexcept { return handed_over_; }

  /// `check(batch)` looks at each batch on the loop's thread. Returns whether all was as it should.
  template <class Check> bool go(Check check) {
    bool good = true;
    for (std::uint64_t runs = 1 + random_() % 3; runs != 0 && good; --runs) {
      const bool keeps = random_() % 4 == 0;
      hasty_ = hasty_ || keeps; // a next run waits as long as the one before said
      const auto out = tests::outcome_of([&] { run(check, keeps); });
      good = out.came == tests::Came::nothing || out.says("thrown by the body") ||
             (out.says("held") && hasty_);
      if (!good) {
        WARN(out.text);
      }
      if (random_() % 2 == 0) {
        kept_.clear(); // after the run
      }
    }
    if (random_() % 2 == 0) {
      pipeline_.reset();
    }
    kept_.clear();
    return good && !keepers_.overwritten();
  }

 private:
  template <class Check> void run(const Check& check, bool keeps) {
    const std::uint64_t leave_at = random_() % 120; // a run has 60 batches
    auto batches = begin_({.lease_wait = hasty_ ? 2ms : 20s});
    for (std::uint64_t got = 0; auto batch = batches.next(); ++got) {
      check(batch);
      if (got == leave_at) {
        switch (random_() % 3) {
        case 0:
          return;
        case 1:
          throw Thrown{};
        default:
          pipeline_->stop();
        }
      }
      switch (random_() % 8) {
      case 0:
        break; // the plain lease dies
      case 1:
        batch.release();
        break;
      case 2: {
        const Shared shared = batch.share();
        static_cast<void>(shared); // and goes back here
        break;
      }
      default:
        hand_over(batch.share(), keeps);
      }
    }
  }
  void hand_over(Shared shared, bool keeps) {
    bool taken = false;
    for (std::uint64_t copies = 1 + random_() % 3; copies != 0; --copies) {
      taken = keepers_.take(shared, random_) || taken;
    }
    handed_over_ += taken ? 1 : 0;
    if (keeps && random_() % 4 == 0) {
      kept_.push_back(std::move(shared));
    }
  }

  std::optional<P>& pipeline_;
  F begin_;
  Random& random_;
  std::vector<Shared> kept_;
  std::size_t handed_over_{};
  bool hasty_{};            // since too many may be kept
  Keepers<Shared> keepers_; // last: its threads give back what they have
};

constexpr std::size_t count = 60 * batch_size;
auto reader(Random& random) {
  return ps::Reader{
      ps::generate<std::uint64_t>(count,
                                  [](std::span<std::uint64_t> out, std::uint64_t first) {
                                    std::iota(out.begin(), out.end(), first);
                                  }),
      {.workers = 1, .depth = 2 + random() % 6, .batch = batch_size}};
}
std::size_t wanted() {
  const char* const asked = std::getenv("PENSTOCK_HAND_OVERS");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) : 2500;
}

// Plays rounds, of which round(random) returns how many batches it handed over.
template <class F> void play(const char* name, F round) {
  tests::Watchdog watchdog{name};
  std::size_t handed_over = 0;
  unsigned rounds = 0;
  while (handed_over < wanted() / 2) {
    Random random{++rounds};
    CAPTURE(rounds);
    handed_over += round(random);
    watchdog.progress(handed_over);
  }
  CHECK(rounds != 0);
}

} // namespace

TEST_CASE("batches in host memory are handed over at random, and none is overwritten or lost") {
  play("hand-overs on the host", [](Random& random) {
    std::optional pipeline{
        reader(random) | ps::Decoder{[](const std::uint64_t& in, std::uint64_t& out) { out = in; },
                                     {.depth = 2 + random() % 6}}};
    Round round{pipeline, [&](ps::RunOptions o) { return pipeline->batches(std::move(o)); },
                random};
    bool in_order = true;
    CHECK(round.go(
        [&](const auto& batch) { in_order = in_order && batch.data()[0] == batch.index(); }));
    CHECK(in_order);
    return round.handed_over();
  });
}

TEST_CASE("batches on a device are handed over at random, and no work sees a later one") {
  play("hand-overs on a device", [](Random& random) {
    ps::HostDevice device{{.late_seed = 1 + random()}};
    std::size_t handed_over = 0;
    std::uint64_t wrong = 0; // the stream's, and later this thread's
    {
      auto stream = device.stream();
      std::optional pipeline{
          reader(random) | ps::PinnedStager{} |
          ps::AsyncCopier{device, {.batch = batch_size, .depth = 2 + random() % 6}}};
      Round round{pipeline, [&](ps::RunOptions o) { return pipeline->on(stream, std::move(o)); },
                  random};
      CHECK(round.go([&](const auto& batch) {
        stream.enqueue([&wrong, p = batch.data(), n = batch.size(), first = batch.index()] {
          std::this_thread::sleep_for(10us);
          for (std::size_t i = 0; i != n; ++i) {
            wrong += p[i] == first + i ? 0 : 1;
          }
        });
      }));
      stream.sync();
      handed_over = round.handed_over();
    }
    CHECK(wrong == 0);
    CHECK(device.counts().live_allocations == 0);
    return handed_over;
  });
}
