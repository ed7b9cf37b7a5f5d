// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A pipeline that ends in a last stage, behind a type that says nothing of its stages.

#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/penstock.hpp>

#include <atomic>
#include <cstdint>
#include <numeric>
#include <span>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <vector>

namespace ps = penstock;
namespace tests = penstock::tests;

namespace {

std::vector<std::uint64_t> numbers(std::size_t count) {
  std::vector<std::uint64_t> made(count);
  std::iota(made.begin(), made.end(), std::uint64_t{0});
  return made;
}

// A function may return whichever chain it has made.
ps::AnyPipeline adding(const std::vector<std::uint64_t>& from, std::atomic<std::uint64_t>& sum,
                       bool twice) {
  auto add = [&sum](ps::Batch<const std::uint64_t, ps::Pageable> batch) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      sum += batch.data()[i];
    }
  };
  if (twice) {
    return ps::Reader{ps::memory(from)} |
           ps::Decoder{[](const std::uint64_t& in, std::uint64_t& out) { out = 2 * in; }} |
           ps::Consumer{add};
  }
  return ps::Reader{ps::memory(from)} | ps::Consumer{add};
}

} // namespace

static_assert(std::is_nothrow_move_constructible_v<ps::AnyPipeline>);
static_assert(!std::is_copy_constructible_v<ps::AnyPipeline>);
static_assert(!std::is_convertible_v<int, ps::AnyPipeline>);

TEST_CASE("AnyPipeline is a function's result and a member, moves, and runs again") {
  const auto from = numbers(1000);
  std::atomic<std::uint64_t> sum{0};
  struct Job {
    ps::AnyPipeline pipeline;
  };
  Job job{adding(from, sum, true)};
  job.pipeline.prepare();
  CHECK(job.pipeline.report().records == 0);
  for (int run = 0; run < 2; ++run) {
    CHECK(job.pipeline.run().records == 1000);
  }
  CHECK(sum == 2 * 2 * 499'500);
  Job moved = std::move(job);
  CHECK(moved.pipeline.run().stages.size() == 3);
  CHECK(moved.pipeline.report().records == 1000);
  moved.pipeline = adding(from, sum, false); // another chain
  sum = 0;
  CHECK(moved.pipeline.run().stages.size() == 2);
  CHECK(sum == 499'500);
}

TEST_CASE("AnyPipeline takes the options of a run, and stops") {
  const auto from = numbers(100'000);
  std::atomic<std::uint64_t> sum{0};
  ps::AnyPipeline pipeline = adding(from, sum, false);
  pipeline.stop(); // nothing runs
  CHECK_FALSE(pipeline.run().stopped);
  std::stop_source stop;
  stop.request_stop();
  CHECK(pipeline.run({.stop = stop.get_token()}).stopped);
  CHECK(pipeline.run(stop.get_token()).stopped);

  ps::AnyPipeline endless =
      ps::Reader{ps::generate<std::uint64_t>([](std::span<std::uint64_t> out, std::uint64_t) {
                   std::fill(out.begin(), out.end(), 1U);
                   return out.size();
                 }),
                 {.batch = 64}} |
      ps::Consumer{[&endless](ps::Batch<const std::uint64_t, ps::Pageable>) { endless.stop(); }};
  CHECK(endless.run().stopped);
}

TEST_CASE("an empty AnyPipeline says so") {
  const auto from = numbers(10);
  std::atomic<std::uint64_t> sum{0};
  const auto empty = [](ps::AnyPipeline& any) {
    CHECK_FALSE(any);
    CHECK(tests::has(tests::caught<ps::Error>([&] { any.run(); }), "AnyPipeline is empty"));
    CHECK(tests::has(tests::caught<ps::Error>([&] { any.prepare(); }), "Assign one to it"));
    any.stop();
    CHECK(any.report().stages.empty());
  };
  ps::AnyPipeline pipeline;
  empty(pipeline);
  pipeline = adding(from, sum, false);
  CHECK(pipeline);
  const ps::AnyPipeline moved = std::move(pipeline);
  CHECK(moved);
  empty(pipeline);
}

TEST_CASE("AnyPipeline throws what its pipeline throws") {
  ps::AnyPipeline none = ps::Reader{ps::records<std::uint64_t>("/there/is/none")} |
                         ps::Consumer{[](ps::Batch<const std::uint64_t, ps::Pageable>) {}};
  CHECK_THROWS_AS(none.prepare(), ps::SourceError);
  CHECK_THROWS_AS(none.run(), ps::SourceError);
}
