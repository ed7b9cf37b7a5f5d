// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What is known of what flows from a Reader, and what later stages make of it, without a ring and
// without a thread.

#include "support/catch.hpp"
#include "support/outcome.hpp"

#include <penstock/detail/engine/facts.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace ps = penstock;
namespace detail = penstock::detail;
using namespace penstock::tests;

namespace {

using Number = std::uint32_t;

const std::vector<Number>& numbers() {
  static const std::vector<Number> all(1000, 7);
  return all;
}

/// What a Reader of `source` into pinned memory would be made of.
template <class Source>
detail::Reading read(const Source& source, const ps::ReaderOptions& options, detail::Facts& facts) {
  const detail::SlotSourceOf<Source, ps::Pinned> opened{source};
  return detail::plan_reading(options, &detail::reader_extras, true, opened, facts);
}
detail::Facts read_numbers(const ps::ReaderOptions& options, detail::Facts facts = {}) {
  static_cast<void>(read(ps::memory(numbers()), options, facts));
  return facts;
}
Outcome refused(const ps::ReaderOptions& options) {
  return outcome_of([&] { static_cast<void>(read_numbers(options)); });
}

} // namespace

TEST_CASE("a Reader says how many records and slots a run has") {
  const detail::Facts facts = read_numbers({.epochs = 3, .batch = 300});
  CHECK(facts.records == 3000);
  CHECK(facts.units == 3000);
  CHECK(facts.epochs == 3);
  CHECK(facts.fixed_slots);
  CHECK(facts.slots_of_a_run == 3000 / 300 + 3 + 1); // each epoch may end in a short one
  CHECK(facts.slots_read == 3 * 4);
  CHECK(facts.order->turns() == 1000);
  CHECK_FALSE(facts.skips);
  CHECK_FALSE(facts.ahead);
  CHECK(facts.one_for_one);
}

TEST_CASE("a Reader that feeds a link has most processors, or half of them beside a Decoder") {
  // Of 16 processors, whatever this machine has.
  const auto readers = [](const detail::Plan& plan, const ps::ReaderOptions& options = {},
                          bool to_pinned = true) {
    return detail::processors_of(16, 1,
                                 detail::reading_share(options, sizeof(Number), to_pinned, plan));
  };
  detail::Plan plan;
  CHECK(readers(plan) == 8); // it stays on the host
  plan.works(4);             // a Consumer there
  CHECK(readers(plan) == 8);
  plan = {};
  plan.to_device = true;
  CHECK(readers(plan) == 14);
  CHECK(readers(plan, {}, false) == 8);
  CHECK(readers(plan, {.order = {.shuffle = 1}}) == 14); // small records at random places
  const ps::Decoder decoder{[](const Number& in, Number& out) { out = in; }};
  decoder.plan<ps::Batch<const Number, ps::Pinned>>(plan); // behind the way back
  CHECK(plan.workers == 0);
  CHECK(readers(plan) == 8);
  detail::Facts facts;
  CHECK(read(ps::memory(numbers()), {.workers = 5}, facts).workers == 5);
  CHECK(read(ps::memory(numbers()), {}, facts).workers ==
        std::max(detail::processors(facts.plan, {4, 12}), 2U));
}

TEST_CASE("nobody knows how much a source of unknown size gives") {
  const auto unknown =
      ps::generate<Number>([](std::span<Number>, std::uint64_t) { return std::size_t{0}; });
  detail::Facts facts;
  const detail::Reading reading = read(unknown, {.workers = 4}, facts);
  CHECK(reading.workers == 4); // it may be asked for any range
  CHECK(facts.units == ps::unknown_size);
  CHECK(facts.batches(10) == ps::unknown_size);
  CHECK_FALSE(reading.ranges.known());
}

TEST_CASE("drop_last leaves out an epoch's short batch where batches are slots") {
  const detail::Facts slots = read_numbers({.epochs = 2, .batch = 300, .drop_last = true});
  CHECK(slots.units == 2 * 900);
  CHECK(slots.slots_read == 2 * 3);
  CHECK(slots.batches(300) == 2 * 3);
  CHECK(slots.skips);

  detail::Facts copied;
  copied.plan.fills_up = true; // an AsyncCopier makes batches of its own
  copied = read_numbers({.epochs = 2, .batch = 300, .drop_last = true}, copied);
  CHECK(copied.units == 2 * 1000);
  copied.slots_read = 0;
  CHECK(copied.batches(300) == 2 * 4);
  copied.drop_short(300);
  CHECK(copied.units == 2 * 900);
  CHECK(copied.batches(300) == 2 * 3);
}

TEST_CASE("ahead and flush bound what may be on its way, and only flush hides how many batches") {
  const detail::Facts ahead = read_numbers({.ahead = 50});
  CHECK(ahead.ahead);
  CHECK_FALSE(ahead.flush);
  CHECK(ahead.slots_of_a_run == 50);
  CHECK(ahead.units == 1000);
  const detail::Facts flushed = read_numbers({.flush = std::chrono::milliseconds{5}});
  CHECK_FALSE(flushed.ahead);
  CHECK(flushed.flush);
  CHECK(flushed.units == ps::unknown_size);
}

TEST_CASE("what a Reader cannot do is refused before there is a ring") {
  CHECK(refused({.epochs = 0}).says("epochs"));
  CHECK(refused({.drop_last = true}).says("give the Reader a .batch"));
  CHECK(refused({.batch = 2000, .drop_last = true})
            .says("an epoch has 1000 records, fewer than the 2000 of a batch"));
  CHECK(refused({.order = {.window = 2}}).says("order.window is 2"));
  CHECK(refused({.workers = 2000}).says("workers is 2000"));
}

TEST_CASE("behind a Decoder of another number of records all counts begin anew") {
  detail::Facts facts = read_numbers({.on_error = {.skips = 3}});
  CHECK(facts.jumps);
  facts.recount_outputs(4);
  CHECK(facts.outputs);
  CHECK(facts.recounts == 1);
  CHECK(facts.one_for_one); // each position is still one of the source's
  CHECK(facts.units == ps::unknown_size);
  CHECK_FALSE(facts.skips);
  CHECK_FALSE(facts.jumps);
  facts.recount_outputs(1);
  CHECK_FALSE(facts.one_for_one);
}

TEST_CASE("ranks have the batches of their turns if records may be left out") {
  const ps::Order shared{.ranks = {.rank = 1, .world = 2}};
  CHECK_FALSE(read_numbers({.order = shared}).batches_by_turn());
  CHECK(read_numbers({.order = shared, .on_error = {.skips = 1}}).batches_by_turn());
  CHECK_FALSE(read_numbers({.on_error = {.skips = 1}}).batches_by_turn());
}

TEST_CASE("facts are a value: a chain that forks goes on with copies") {
  const detail::Facts before = read_numbers({.batch = 100});
  detail::Facts one = before;
  detail::Facts other = before;
  one.skip(true);
  other.drop_short(300);
  CHECK(one.jumps);
  CHECK(one.units == before.units);
  CHECK(other.units == 900);
  CHECK_FALSE(other.jumps);
  CHECK_FALSE(before.jumps);
  STATIC_REQUIRE(std::is_copy_assignable_v<detail::Facts>);
}
