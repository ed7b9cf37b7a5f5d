// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs that are asked for one batch after the other, that move, and that lie in a class beside
// their pipeline, on every device. To be included after loop_suite.hpp.

#include "suite/loop_suite.hpp"
#include "support/caught.hpp"

#include <utility>
#include <vector>

namespace suite {

/// Calls f with a pipeline and with what gives one run of it, for an end on the device and for one
/// in host memory.
template <class F> void for_each_end(F f) {
  for_each_device([&](D& device) {
    {
      auto stream = device.stream();
      auto pipeline = to_device(device);
      f(pipeline, [&stream](auto& of) { return of.on(stream); });
    }
    CHECK(all_given_back(device));
  });
  auto pipeline = to_host_by_decoder();
  f(pipeline, [](auto& of) { return of.batches(); });
}

/// Whether a batch is the one that comes after `got` batches.
template <class B> bool is_next(const B& batch, std::size_t got) {
  return batch && batch.index() == got * batch_size && batch.source_index() == batch.index();
}

/// Returns whether a run of the pipeline gives every batch once.
template <class P, class F> bool delivers_again(P& pipeline, F run_of) {
  std::size_t got = 0;
  for (auto batch : run_of(pipeline)) {
    got += is_next(batch, got) ? 1 : 0;
  }
  return got == batch_count;
}

TEST_CASE("next() starts the run, gives every batch once, and then an empty lease") {
  const tests::Watchdog watchdog{"next()"};
  for_each_end([](auto& pipeline, auto run_of) {
    for (int times = 0; times < 2; ++times) {
      auto run = run_of(pipeline);
      CHECK(run);
      std::size_t got = 0;
      while (auto batch = run.next()) {
        CHECK(is_next(batch, got));
        CHECK(run);
        ++got;
      }
      CHECK(got == batch_count);
      CHECK_FALSE(run);
      CHECK_FALSE(run.next());
      CHECK_FALSE(run.next());
      CHECK(pipeline.report().records == ten_batches().size());
      CHECK_FALSE(pipeline.report().stopped);
    }
  });
}

TEST_CASE("loops and next() may take turns: whoever asks gets the batch that nobody has") {
  const tests::Watchdog watchdog{"next() and loops in turn"};
  for_each_end([](auto& pipeline, auto run_of) {
    auto run = run_of(pipeline);
    CHECK(is_next(run.next(), 0));
    for (auto batch : run) {
      CHECK(is_next(batch, 1));
      CHECK(is_next(run.next(), 2)); // in the midst
      break;
    }
    auto at = run.begin(); // stands at the batch, and has not given it
    CHECK(is_next(run.next(), 3));
    CHECK_FALSE(*at);
    ++at;
    CHECK(at != std::default_sentinel);
    CHECK(is_next(*run.begin(), 4)); // a second one stands where the first does
    ++at;
    ++at; // past one that nobody has got
    CHECK(is_next(*at, 6));
    std::size_t got = 7;
    for (auto batch : run) {
      CHECK(is_next(batch, got++));
    }
    CHECK(got == batch_count);
    CHECK_FALSE(run.next());
    CHECK(pipeline.report().records == ten_batches().size());
    CHECK(delivers_again(pipeline, run_of));
  });
}

TEST_CASE("a loop over a run that is over, moved away or never was is refused with the cure") {
  for_each_end([](auto& pipeline, auto run_of) {
    const auto refused = [](auto& run) {
      CHECK_FALSE(run);
      CHECK_FALSE(run.next());
      CHECK(tests::has(tests::caught<ps::Error>([&] { run.begin(); }), "Ask the pipeline"));
    };
    auto run = run_of(pipeline);
    for (auto batch : run) {
      CHECK(batch);
    }
    refused(run);
    run = run_of(pipeline);
    auto other = std::move(run);
    refused(run);
    CHECK(other);
    decltype(run) never;
    refused(never);
    other = {};
    refused(other);
  });
}

TEST_CASE("a run moves while it goes on, and a loop over what it was moved from ends") {
  const tests::Watchdog watchdog{"moved runs"};
  for_each_end([](auto& pipeline, auto run_of) {
    auto run = run_of(pipeline);
    std::size_t got = 0;
    auto moved = std::move(run); // before its start
    while (got < 4) {
      CHECK(is_next(moved.next(), got++));
      auto away = std::move(moved);
      CHECK_FALSE(moved);
      moved = std::move(away);
    }
    moved = std::move(*&moved); // into itself
    run = std::move(moved);
    std::size_t turns = 0;
    for (auto batch : run) {
      CHECK(is_next(batch, got++));
      ++turns;
      moved = std::move(run);
    }
    CHECK(turns == 1);
    const auto at = moved.begin(); // has a batch in hand
    run = std::move(moved);
    CHECK(at == std::default_sentinel);
    CHECK(is_next(run.next(), got++));
    for (auto batch : run) {
      CHECK(is_next(batch, got++));
    }
    CHECK(got == batch_count);
    CHECK_FALSE(pipeline.report().stopped);
  });
}

TEST_CASE("to assign another run, or none, ends the one that goes on") {
  const tests::Watchdog watchdog{"assigned runs"};
  for_each_end([](auto& pipeline, auto run_of) {
    decltype(run_of(pipeline)) run;
    for (std::size_t last = 0; last < batch_count; ++last) {
      run = run_of(pipeline);
      for (std::size_t got = 0; got <= last; ++got) {
        CHECK(is_next(run.next(), got));
      }
      if (last % 2 == 0) {
        run = {};
        CHECK(pipeline.report().stopped);
        CHECK(pipeline.report().records == std::min((last + 1) * batch_size, ten_batches().size()));
      }
    }
    run = {};
    CHECK(delivers_again(pipeline, run_of));
  });
}

TEST_CASE("a run keeps what it needs of a pipeline that dies or is assigned, begun or not") {
  const tests::Watchdog watchdog{"runs without their pipelines"};
  const auto outlives = [](auto make, auto run_of, std::size_t begun, bool to_the_end) {
    CAPTURE(begun, to_the_end);
    decltype(run_of(std::declval<decltype(make())&>())) run;
    {
      auto pipeline = make();
      run = run_of(pipeline);
      for (std::size_t got = 0; got != begun; ++got) {
        CHECK(is_next(run.next(), got));
      }
      pipeline = make();
      CHECK(delivers_again(pipeline, run_of)); // beside the other
    }
    for (std::size_t got = begun; to_the_end && got != batch_count; ++got) {
      CHECK(is_next(run.next(), got));
    }
    CHECK((!to_the_end || !run.next()));
  };
  for (const std::size_t begun : {0, 1, 4}) {
    for (const bool to_the_end : {true, false}) {
      for_each_device([&](D& device) {
        {
          auto stream = device.stream();
          outlives([&] { return to_device(device); }, [&stream](auto& of) { return of.on(stream); },
                   begun, to_the_end);
        }
        CHECK(all_given_back(device));
      });
      outlives([] { return to_host_by_decoder(); }, [](auto& of) { return of.batches(); }, begun,
               to_the_end);
    }
  }
}

/// A class with its pipeline, its run and its batch as members, which moves as they do.
template <class B> class Puller {
 public:
  explicit Puller(ps::AnyBatches<B> data) : data_{std::move(data)} {}

  /// Good until the next call; empty at the end, and the call after that begins anew.
  const B& next() {
    if (!run_) {
      run_ = data_.batches();
    }
    batch_ = run_.next();
    return batch_;
  }
  bool has_batch() const { return static_cast<bool>(batch_); }

 private:
  ps::AnyBatches<B> data_;
  ps::Batches<B> run_;
  ps::Lease<B> batch_;
};

TEST_CASE("a class of a pipeline, a run and a batch moves and is assigned at any time") {
  const tests::Watchdog watchdog{"a class that pulls"};
  const auto pull = [](auto make) {
    auto puller = make();
    for (int run = 0; run < 2; ++run) {
      std::size_t got = 0;
      while (puller.next(), puller.has_batch()) {
        CHECK(puller.next().index() == (got + 1) * batch_size);
        auto moved = std::move(puller);
        puller = std::move(moved);
        got += 2;
      }
      CHECK(got == batch_count);
    }
    CHECK(puller.next().index() == 0);
    auto other = make();
    CHECK(other.next().index() == 0);
    CHECK(other.next().index() == batch_size);
    puller = std::move(other); // over one that runs: its pipeline goes first
    CHECK(puller.next().index() == 2 * batch_size);
  };
  for_each_device([&](D& device) {
    {
      auto stream = device.stream();
      pull([&] { return Puller<Bytes>{ps::AnyBatches<Bytes>{to_device(device), stream}}; });
      pull([&] {
        return Puller<PinnedBytes>{
            ps::AnyBatches<PinnedBytes>{to_host() | ps::PinnedStager{device}}};
      });
    }
    CHECK(all_given_back(device));
  });
}

} // namespace suite
