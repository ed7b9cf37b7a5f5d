// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whole pipelines whose callable throws at the k-th record, for every k: one error with the record,
// and a pipeline that runs again with every slot in its place.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <atomic>
#include <cstdio>
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

// Runs it with each record as the one that throws, and after each once without: then all must
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
    const Outcome out = outcome_of([&] { pipeline.run(); });
    CAPTURE(out);
    CHECK(out.came == Came::stage_error);
    CHECK(out.stage == stage);
    CHECK(out.record == k);
    CHECK(out.says("boom"));
    REQUIRE(out.nested);
    CHECK_THROWS_AS(std::rethrow_exception(out.nested), Boom);
    CHECK(arrived < count);
    CHECK(pipeline.report().records == arrived);
    bad = never;
    arrived = 0;
    CHECK(pipeline.run().records == count);
    CHECK(arrived == count);
  }
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
