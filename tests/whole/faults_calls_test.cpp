// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whole pipelines whose callable throws at the k-th record, for every k: one error with the record,
// and a pipeline that runs again with every slot in its place.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/outcome.hpp"
#include "support/sanitizer.hpp"
#include "support/watchdog.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace suite;
using tests::Came;
using tests::Outcome;
using tests::outcome_of;

namespace {

// One record a slot, so that a callable sees each.
struct Large {
  std::byte bytes[524'289];
};
constexpr std::uint64_t count = 9;
constexpr std::uint64_t never = ~std::uint64_t{0};

struct Boom : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void fill(std::span<Large> out, std::uint64_t first) {
  for (Large& large : out) {
    std::memset(large.bytes, static_cast<int>(first++ + 1), sizeof large.bytes);
  }
}
bool is_right(const Large& large, std::uint64_t index) {
  const auto expected = static_cast<std::byte>(index + 1);
  return large.bytes[0] == expected && large.bytes[sizeof large.bytes - 1] == expected &&
         large.bytes[sizeof large.bytes / 2] == expected;
}

void check_boom(const Outcome& out, const std::string& stage, std::uint64_t record) {
  CAPTURE(out);
  CHECK(out.came == Came::stage_error);
  CHECK(out.stage == stage);
  CHECK(out.record == record);
  CHECK(out.says("boom"));
  REQUIRE(out.nested);
  CHECK_THROWS_AS(std::rethrow_exception(out.nested), Boom);
}

// Runs the pipeline once for each record, which throws, and after each once without: then all must
// arrive.
template <class P>
void break_at_each_record(P& pipeline, const char* stage, std::atomic<std::uint64_t>& bad,
                          std::atomic<std::uint64_t>& arrived) {
  tests::Watchdog watchdog{stage};
  for (std::uint64_t k = 0; k < count; ++k) {
    CAPTURE(k);
    watchdog.progress(k);
    bad = k;
    arrived = 0;
    check_boom(outcome_of([&] { pipeline.run(); }), stage, k);
    CHECK(arrived < count);
    CHECK(pipeline.report().records == arrived);
    bad = never;
    arrived = 0;
    CHECK(pipeline.run().records == count);
    CHECK(arrived == count);
  }
}

// Several records a slot, and two decoders: one of batches, one of records.
struct Raw {
  std::uint64_t value;
};
struct Half {
  std::uint64_t twice;
};
struct Cooked {
  std::uint64_t value;
  std::uint64_t more;
};
constexpr std::uint64_t raw_count = 14;
constexpr std::size_t a_slot = 4;

// The record that throws in each place.
struct Bad {
  std::atomic<std::uint64_t> first{never}, second{never}, end{never};
  void clear() { first = second = end = never; }
  static void look(const std::atomic<std::uint64_t>& bad, std::uint64_t from, std::uint64_t to) {
    if (from <= bad && bad < to) {
      throw Boom{"boom"};
    }
  }
};

auto raws() {
  return ps::generate<Raw>(raw_count, [](std::span<Raw> out, std::uint64_t first) {
    for (Raw& raw : out) {
      raw.value = first++;
    }
  });
}
auto cooked(unsigned workers, Bad& bad) {
  return ps::Reader{raws(), {.workers = workers, .depth = 2, .batch = a_slot}} |
         ps::Decoder{
             [&bad](ps::Batch<const Raw, ps::Pageable> in, ps::Batch<Half, ps::Pageable> out) {
               Bad::look(bad.first, in.source_index(), in.source_index() + in.size());
               for (std::size_t i = 0; i < in.size(); ++i) {
                 out.data()[i].twice = 2 * in.data()[i].value;
               }
             },
             {.workers = workers, .depth = 2}} |
         ps::Decoder{[&bad](const Half& in, Cooked& out) {
                       out = {in.twice / 2, ~in.twice};
                       Bad::look(bad.second, out.value, out.value + 1);
                     },
                     {.workers = workers, .depth = 2}};
}
bool is_right(const Cooked* at, std::size_t n, std::uint64_t index) {
  bool right = true;
  for (std::size_t i = 0; i < n; ++i, ++index) {
    right = right && at[i].value == index && at[i].more == ~(2 * index);
  }
  return right;
}

// The end of a chain.
struct End {
  const char* name;
  std::function<void()> run;
  std::function<ps::Report()> report;
  /// Checks the outcome if it throws at record k.
  std::function<void(const Outcome&, std::uint64_t k)> check;
};

// Has each record throw in each place.
void break_everywhere(const End& end, Bad& bad, std::atomic<std::uint64_t>& arrived) {
  tests::Watchdog watchdog{end.name};
  const auto attempt = [&](std::atomic<std::uint64_t>& where, std::uint64_t k, auto check) {
    CAPTURE(k, end.name);
    watchdog.progress(k);
    bad.clear();
    where = k;
    arrived = 0;
    check(outcome_of(end.run));
    CHECK(arrived < raw_count);
    CHECK(end.report().records >= arrived);
    bad.clear();
    arrived = 0;
    end.run();
    CHECK(arrived == raw_count);
    CHECK(end.report().records == raw_count);
    CHECK_FALSE(end.report().stopped);
  };
  for (std::uint64_t k = 0; k < raw_count; ++k) {
    attempt(bad.first, k,
            [k](const Outcome& out) { check_boom(out, "Decoder", k / a_slot * a_slot); });
    attempt(bad.second, k, [k](const Outcome& out) { check_boom(out, "Decoder 2", k); });
    attempt(bad.end, k, [&end, k](const Outcome& out) { end.check(out, k); });
  }
}

constexpr std::size_t a_batch = 3;

// The body of a loop throws an exception of the application's own, which stops the run.
void check_own_boom(const Outcome& out) {
  CAPTURE(out);
  CHECK(out.came == Came::other);
  CHECK(out.text == "boom");
}

} // namespace

TEST_CASE("a device consumer may throw at any record") {
  for (const std::uint64_t seed : {0, 1}) {
    ps::HostDevice device{{.late_seed = seed}};
    std::atomic<std::uint64_t> bad{never}, arrived{0};
    std::atomic<bool> right{true};
    auto pipeline =
        ps::Reader{ps::generate<Large>(count, fill), {.workers = 2, .depth = 2}} |
        ps::PinnedStager{{.workers = 2, .depth = 2}} |
        ps::AsyncCopier{device, {.batch = 1, .depth = 2}} |
        ps::Consumer{[&](ps::Batch<const Large, ps::Device> batch, ps::HostStream& stream) {
          stream.enqueue(
              [&right, batch] { right = right && is_right(batch.data()[0], batch.index()); });
          if (batch.index() == bad) {
            throw Boom{"boom"};
          }
          ++arrived;
        }};
    break_at_each_record(pipeline, "Consumer", bad, arrived);
    CHECK(right);
  }
}

TEST_CASE("a host consumer may throw at any record, with one worker and with several") {
  for (const unsigned workers : {1U, 3U}) {
    CAPTURE(workers);
    std::atomic<std::uint64_t> bad{never}, arrived{0};
    std::atomic<bool> right{true};
    auto pipeline = ps::Reader{ps::generate<Large>(count, fill), {.workers = 2, .depth = 2}} |
                    ps::Consumer{[&](ps::Batch<const Large, ps::Pageable> batch) {
                                   if (batch.index() == bad) {
                                     throw Boom{"boom"};
                                   }
                                   right = right && is_right(batch.data()[0], batch.index());
                                   ++arrived;
                                 },
                                 {.workers = workers}};
    break_at_each_record(pipeline, "Consumer", bad, arrived);
    CHECK(right);
  }
}

TEST_CASE("a source may throw at any record, with one worker and with several") {
  for (const unsigned workers : {1U, 4U}) {
    for (const bool on_device : {false, true}) {
      CAPTURE(workers, on_device);
      ps::HostDevice device;
      std::atomic<std::uint64_t> bad{never}, arrived{0};
      std::atomic<bool> right{true};
      const auto source =
          ps::generate<Large>(count, [&bad](std::span<Large> out, std::uint64_t first) {
            if (first == bad) {
              throw Boom{"boom"};
            }
            fill(out, first);
          });
      const ps::ReaderOptions options{.workers = workers, .depth = 3};
      if (on_device) {
        auto pipeline =
            ps::Reader{source, ps::to_pinned, options} | ps::AsyncCopier{device, {.batch = 1}} |
            ps::Consumer{[&](ps::Batch<const Large, ps::Device> batch, ps::HostStream& stream) {
              stream.enqueue(
                  [&right, batch] { right = right && is_right(batch.data()[0], batch.index()); });
              ++arrived;
            }};
        break_at_each_record(pipeline, "Reader", bad, arrived);
      } else {
        auto pipeline = ps::Reader{source, options} |
                        ps::Consumer{[&](ps::Batch<const Large, ps::Pageable> batch) {
                          right = right && is_right(batch.data()[0], batch.index());
                          ++arrived;
                        }};
        break_at_each_record(pipeline, "Reader", bad, arrived);
      }
      CHECK(right);
    }
  }
}

TEST_CASE("a source of unknown size may throw at any record") {
  for (const unsigned workers : {1U, 4U}) {
    CAPTURE(workers);
    std::atomic<std::uint64_t> bad{never}, arrived{0};
    auto pipeline =
        ps::Reader{
            ps::generate<Large>([&bad](std::span<Large> out, std::uint64_t first) -> std::size_t {
              if (first == bad) {
                throw Boom{"boom"};
              }
              if (first >= count) {
                return 0;
              }
              fill(out, first);
              return out.size();
            }),
            {.workers = workers, .depth = 3}} |
        ps::Consumer{[&](ps::Batch<const Large, ps::Pageable>) { ++arrived; }, {.workers = 2}};
    break_at_each_record(pipeline, "Reader", bad, arrived);
  }
}

TEST_CASE("of errors at many places at once, one comes out") {
  tests::Watchdog watchdog{"many errors"};
  for (std::uint64_t round = 0; round < 50; ++round) {
    watchdog.progress(round);
    ps::HostDevice device;
    auto pipeline =
        ps::Reader{ps::generate<Large>(count,
                                       [round](std::span<Large> out, std::uint64_t first) {
                                         fill(out, first);
                                         if (first >= round % 5) {
                                           throw Boom{"boom of the source"};
                                         }
                                       }),
                   ps::to_pinned,
                   {.workers = 4}} |
        ps::AsyncCopier{device, {.batch = 1}} |
        ps::Consumer{[](ps::Batch<const Large, ps::Device>, ps::HostStream&) {
          throw Boom{"boom of the consumer"};
        }};
    const Outcome out = outcome_of([&] { pipeline.run(); });
    CAPTURE(out, round);
    CHECK(out.came == Came::stage_error);
    CHECK((out.stage == "Reader") == out.says("boom of the source"));
    CHECK((out.stage == "Consumer") == out.says("boom of the consumer"));
  }
}

TEST_CASE(
    "decoders, and what stands at the end, may throw at any record with any number of workers") {
  using OnDevice = ps::Batch<const Cooked, ps::Device>;
  using OnHost = ps::Batch<const Cooked, ps::Pageable>;
  for (const unsigned workers : {1U, 3U}) {
    CAPTURE(workers);
    ps::HostDevice device{{.late_seed = workers}};
    Bad bad;
    std::atomic<std::uint64_t> arrived{0};
    std::atomic<bool> right{true};
    {
      ps::HostStream own = device.stream();
      const auto use = [&](OnDevice batch, ps::HostStream& stream) {
        stream.enqueue([&right, batch] {
          right = right && is_right(batch.data(), batch.size(), batch.index());
        });
        Bad::look(bad.end, batch.index(), batch.index() + batch.size());
        arrived += batch.size();
      };
      const auto use_here = [&](OnHost batch) {
        right = right && is_right(batch.data(), batch.size(), batch.index());
        Bad::look(bad.end, batch.index(), batch.index() + batch.size());
        arrived += batch.size();
      };
      const auto to_device = [&] {
        return cooked(workers, bad) | ps::PinnedStager{{.workers = workers, .depth = 2}} |
               ps::AsyncCopier{device, {.batch = a_batch, .depth = 2}};
      };

      auto consumed = to_device() | ps::Consumer{use};
      break_everywhere({"Consumer of device batches", [&] { consumed.run(); },
                        [&] { return consumed.report(); },
                        [](const Outcome& out, std::uint64_t k) {
                          check_boom(out, "Consumer", k / a_batch * a_batch);
                        }},
                       bad, arrived);

      auto consumed_here = cooked(workers, bad) | ps::Consumer{use_here, {.workers = workers}};
      break_everywhere({"Consumer of host batches", [&] { consumed_here.run(); },
                        [&] { return consumed_here.report(); },
                        [](const Outcome& out, std::uint64_t k) {
                          check_boom(out, "Consumer", k / a_slot * a_slot);
                        }},
                       bad, arrived);

      auto open = to_device();
      break_everywhere({"loop over device batches",
                        [&] {
                          for (auto batch : open.on(own)) {
                            use(batch, own);
                          }
                        },
                        [&] { return open.report(); },
                        [&](const Outcome& out, std::uint64_t) {
                          check_own_boom(out);
                          CHECK(open.report().stopped);
                        }},
                       bad, arrived);

      auto open_here = cooked(workers, bad);
      break_everywhere({"loop over host batches",
                        [&] {
                          for (auto batch : open_here.batches()) {
                            use_here(batch);
                          }
                        },
                        [&] { return open_here.report(); },
                        [&](const Outcome& out, std::uint64_t) {
                          check_own_boom(out);
                          CHECK(open_here.report().stopped);
                        }},
                       bad, arrived);

      ps::AnyBatches<OnDevice> any{to_device(), own};
      break_everywhere({"AnyBatches",
                        [&] {
                          for (auto batch : any.batches()) {
                            use(batch, own);
                          }
                        },
                        [&] { return any.report(); },
                        [](const Outcome& out, std::uint64_t) { check_own_boom(out); }},
                       bad, arrived);
    }
    CHECK(right);
    ps::tests::check_nothing_lives(device);
  }
}

TEST_CASE("progress may throw at any call, of a run and of a loop") {
  tests::Watchdog watchdog{"progress"};
  for (std::uint64_t k = 1; k <= 5; ++k) {
    for (const bool in_loop : {false, true}) {
      CAPTURE(k, in_loop);
      watchdog.progress(k);
      std::atomic<bool> endless{true};
      const auto source =
          ps::generate<Raw>([&endless](std::span<Raw> out, std::uint64_t first) -> std::size_t {
            if (!endless && first >= raw_count) {
              return 0;
            }
            out[0].value = first;
            return 1;
          });
      const ps::ReaderOptions options{.workers = 2, .depth = 2, .batch = 1};
      const auto ignore = [](ps::Batch<const Raw, ps::Pageable>) {};
      auto closed = ps::Reader{source, options} | ps::Consumer{ignore};
      auto looped = ps::Reader{source, options} |
                    ps::Decoder{[](const Raw& in, Raw& out) { out = in; }, {.depth = 2}};
      std::uint64_t calls = 0;
      bool complete = true;
      const auto run = [&](const ps::RunOptions& told) {
        if (!in_loop) {
          closed.run(told);
          return;
        }
        for (auto batch : looped.batches(told)) {
          ignore(batch);
        }
      };
      const Outcome out = outcome_of([&] {
        run({.progress =
                 [&calls, &complete, k](const ps::Report& report) {
                   complete = complete && report.stages.size() > 1;
                   if (++calls >= k) {
                     throw Boom{"boom"};
                   }
                 },
             .every = std::chrono::milliseconds{1}});
      });
      check_boom(out, "progress", 0);
      CHECK(calls >= k);
      CHECK(complete);
      endless = false;
      run({});
      CHECK((in_loop ? looped.report() : closed.report()).records == raw_count);
    }
  }
}

TEST_CASE("more bad records than may be left out end the run, and nobody waits for his turn") {
  // Several consumers take turns to count the records delivered.
  for (const unsigned workers : {1U, 3U}) {
    for (std::uint64_t skips = 0; skips < 4; ++skips) {
      CAPTURE(workers, skips);
      tests::Watchdog watchdog{"skips"};
      for (std::uint64_t from = 0; from + skips < raw_count; ++from) {
        CAPTURE(from);
        watchdog.progress(from);
        std::atomic<std::uint64_t> bad{from}, arrived{0};
        auto pipeline =
            ps::Reader{raws(), {.workers = workers, .depth = 2, .batch = 1}} |
            ps::Decoder{[&bad](const Raw& in, Cooked& out) {
                          Bad::look(bad, bad, in.value + 1);
                          out.value = in.value;
                        },
                        {.workers = workers, .depth = 3, .on_error = {.skips = skips}}} |
            ps::Consumer{
                [&](ps::Batch<const Cooked, ps::Pageable> batch) { arrived += batch.size(); },
                {.workers = 3}};
        const Outcome out = outcome_of([&] { pipeline.run(); });
        CAPTURE(out);
        CHECK(out.came == Came::stage_error);
        CHECK(out.stage == "Decoder");
        CHECK(out.record >= from);
        CHECK((workers != 1 || out.record == from + skips));
        CHECK(pipeline.report().skipped <= skips);
        CHECK(arrived <= from);
        bad = never;
        arrived = 0;
        CHECK(pipeline.run().records == raw_count);
        CHECK(pipeline.report().skipped == 0);
        CHECK(arrived == raw_count);
      }
    }
  }
}

TEST_CASE("no callable is given a slot whose filling failed") {
  tests::Watchdog watchdog{"a slot that was not filled"};
  struct Numbered {
    std::uint64_t number; // the record's number, and one more
  };
  for (std::uint64_t round = 0; round < (tests::under_tsan ? 5 : 20); ++round) {
    for (std::uint64_t k = 1; k < raw_count; ++k) {
      for (const bool in_source : {false, true}) {
        CAPTURE(round, k, in_source);
        watchdog.progress(round);
        std::atomic<bool> right{true};
        // Slots hold the records of a lap before until they are filled.
        const auto look = [&right](const ps::Batch<const Numbered, ps::Pageable>& batch) {
          right = right && batch.data()->number == batch.source_index() + 1;
        };
        const auto check = [look](ps::Batch<const Numbered, ps::Pageable> in,
                                  ps::Batch<Numbered, ps::Pageable> out) {
          look(in);
          out.data()[0] = in.data()[0];
        };
        auto pipeline =
            ps::Reader{ps::generate<Numbered>(raw_count,
                                              [=](std::span<Numbered> out, std::uint64_t first) {
                                                if (in_source && first == k) {
                                                  throw Boom{"boom"};
                                                }
                                                out[0].number = first + 1;
                                              }),
                       {.workers = 1, .depth = 2, .batch = 1}} |
            ps::Decoder{check, {.workers = 3, .depth = 2, .on_error = {.skips = 1}}} |
            ps::Decoder{[=](const Numbered& in, Numbered& out) {
                          if (!in_source && in.number == k + 1) {
                            throw Boom{"boom"};
                          }
                          out = in;
                        },
                        {.workers = 1, .depth = 2}} |
            ps::Consumer{look, {.workers = 3}};
        const Outcome out = outcome_of([&] { pipeline.run(); });
        check_boom(out, in_source ? "Reader" : "Decoder 2", k);
        CHECK(right);
      }
    }
  }
}
