// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Slots of Ragged columns that a Decoder fills: one whose values are full ends short, and the
// record goes into the next.

#include "support/catch.hpp"
#include "support/outcome.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace ps = penstock;
using namespace std::chrono_literals;
using ps::tests::outcome_of;
using Number = std::uint64_t;

struct Text : ps::Columns<ps::Field<"number", Number>, ps::Field<"text", ps::Ragged<char>>,
                          ps::Field<"tags", ps::Ragged<std::uint32_t>>> {};
template <class S> using Host = ps::Batch<S, ps::Pageable>;

constexpr Number records = 1500;
constexpr std::size_t batch = 100, room = 4000; // bytes: some 40 of those of a slot

const std::vector<Number>& numbers() {
  static const std::vector<Number> all = [] {
    std::vector<Number> made(records);
    std::iota(made.begin(), made.end(), Number{0});
    return made;
  }();
  return all;
}
/// Some have none, some all that a slot has room for.
std::size_t length_of(Number n) {
  return n % 7 == 0 ? 0 : n % 311 == 5 ? room : n * 2'654'435'761U % 197;
}
bool is_bad(Number n) {
  return n % 13 == 4 || n / 50 == 5;
}
void fill(Number n, ps::Row<Text> out) {
  ps::get<"number">(out) = n;
  std::fill_n(ps::put<"text">(out, length_of(n)), length_of(n), static_cast<char>('a' + n % 26));
  std::fill_n(ps::put<"tags">(out, n % 3), n % 3, static_cast<std::uint32_t>(n));
}
template <class Batch> bool is_right(const Batch& texts, std::size_t i) {
  const Number n = ps::get<"number">(texts)[i];
  const auto text = ps::get<"text">(texts)[i];
  const auto tags = ps::get<"tags">(texts)[i];
  return text.size() == length_of(n) && tags.size() == n % 3 &&
         std::count(text.data(), text.data() + text.size(), 'a' + n % 26) ==
             static_cast<std::ptrdiff_t>(text.size()) &&
         std::count(tags.data(), tags.data() + tags.size(), n) ==
             static_cast<std::ptrdiff_t>(tags.size());
}

/// Gives one record for one, as the callable of a Decoder in one of three forms.
const auto rows = [](const Number& in, ps::Row<Text> out) { fill(in, out); };
const auto batches = [](Host<const Number> in, Host<Text> out) {
  for (std::size_t i = 0; i != in.size(); ++i) {
    const Number n = in.data()[i];
    ps::get<"number">(out)[i] = n;
    std::fill_n(ps::get<"text">(out).put(i, length_of(n)), length_of(n),
                static_cast<char>('a' + n % 26));
    std::fill_n(ps::get<"tags">(out).put(i, n % 3), n % 3, static_cast<std::uint32_t>(n));
  }
};
const auto outputs = [](const Number& in, ps::Output<Text>& out) { fill(in, out.add()); };
const auto some_bad = [](const Number& in, ps::Row<Text> out) {
  fill(in, out);
  is_bad(in) ? throw std::runtime_error{"bad"} : void();
};

ps::ReaderOptions reading(Number epochs = 1) {
  return {.workers = 2, .depth = 3, .epochs = epochs, .batch = batch};
}
ps::DecoderOptions decoding(unsigned workers) {
  return {.workers = workers, .depth = 3, .value_bytes = room};
}

/// What a chain of open batches gives: the records' numbers, and the batches' sizes.
struct Came {
  std::vector<Number> numbers;
  std::vector<std::size_t> sizes;
  bool right = true;
};
template <class Pipeline> Came all_of(Pipeline& pipeline, bool has_turns) {
  Came came;
  for (auto texts : pipeline.batches()) {
    came.right = came.right && texts.index() == came.numbers.size() &&
                 (!has_turns || texts.source_index() == ps::get<"number">(texts)[0]);
    for (std::size_t i = 0; i != texts.size(); ++i) {
      came.right = came.right && is_right(texts, i);
      came.numbers.push_back(ps::get<"number">(texts)[i]);
    }
    came.sizes.push_back(texts.size());
  }
  return came;
}
template <class F> void check(const F& f, unsigned workers, bool has_turns) {
  CAPTURE(workers);
  auto pipeline = ps::Reader{ps::memory(numbers()), reading(2)} | ps::Decoder{f, decoding(workers)};
  std::vector<Number> expected = numbers();
  expected.insert(expected.end(), numbers().begin(), numbers().end());
  for (int run = 0; run != 2; ++run) {
    const Came came = all_of(pipeline, has_turns);
    CHECK(came.right);
    CHECK(came.numbers == expected);
    CHECK(came.sizes.size() > 2 * records / batch * 2);
  }
  CHECK(pipeline.report().stages[1].records == 2 * records);
}

} // namespace

TEST_CASE("a slot whose values are full ends short, whatever form the callable has") {
  for (const unsigned workers : {1U, 4U}) {
    check(rows, workers, true);
    check(batches, workers, true);
    check(outputs, workers, false);
  }
}

TEST_CASE("slots that have room end where those do of which they are made") {
  for (const unsigned workers : {1U, 4U}) {
    auto pipeline = ps::Reader{ps::memory(numbers()), reading()} |
                    ps::Decoder{rows, {.workers = workers, .value_bytes = batch * room}};
    const Came came = all_of(pipeline, true);
    CHECK(came.right);
    CHECK(came.sizes == std::vector<std::size_t>(records / batch, batch));
  }
}

TEST_CASE("records that are left out leave no gap in slots that end short") {
  std::vector<Number> expected;
  std::copy_if(numbers().begin(), numbers().end(), std::back_inserter(expected),
               [](Number n) { return !is_bad(n); });
  for (const unsigned workers : {1U, 4U}) {
    ps::DecoderOptions options = decoding(workers);
    options.on_error.skips = records;
    auto pipeline = ps::Reader{ps::memory(numbers()), reading()} | ps::Decoder{some_bad, options};
    const Came came = all_of(pipeline, true);
    CHECK(came.right);
    CHECK(came.numbers == expected);
    CHECK(pipeline.report().skipped == records - expected.size());
  }
}

TEST_CASE("a run goes on from a batch that ended short") {
  auto whole = ps::Reader{ps::memory(numbers()), reading()} | ps::Decoder{rows, decoding(3)};
  const Came all = all_of(whole, true);
  for (const std::size_t taken :
       {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{30}}) {
    CAPTURE(taken);
    ps::Position position;
    std::vector<Number> seen;
    auto begun = ps::Reader{ps::memory(numbers()), reading()} | ps::Decoder{rows, decoding(3)};
    for (std::size_t left = taken; auto texts : begun.batches()) {
      seen.insert(seen.end(), ps::get<"number">(texts).data(),
                  ps::get<"number">(texts).data() + texts.size());
      position = texts.position();
      if (--left == 0) {
        break;
      }
    }
    auto rest = ps::Reader{ps::memory(numbers()), reading()} | ps::Decoder{rows, decoding(3)};
    for (auto texts : rest.batches({.from = position})) {
      seen.insert(seen.end(), ps::get<"number">(texts).data(),
                  ps::get<"number">(texts).data() + texts.size());
    }
    CHECK(seen == all.numbers);
  }
}

TEST_CASE("slots that end short reach a device, and are batches there") {
  ps::HostDevice device{{.late_seed = 5}};
  std::vector<Number> seen;
  bool right = true;
  auto pipeline = ps::Reader{ps::memory(numbers()), reading(2)} |
                  ps::Decoder{rows, ps::to_pinned, decoding(3)} |
                  ps::AsyncCopier{device, {.batch = batch}} |
                  ps::Consumer{[&](ps::Batch<const Text, ps::Device> texts, ps::HostStream& on) {
                    on.enqueue([&, texts] {
                      for (std::size_t i = 0; i != texts.size(); ++i) {
                        right = right && is_right(texts, i);
                        seen.push_back(ps::get<"number">(texts)[i]);
                      }
                    });
                  }};
  pipeline.run();
  CHECK(right);
  REQUIRE(seen.size() == 2 * records);
  CHECK(std::equal(seen.begin(), seen.begin() + records, numbers().begin()));
  CHECK(std::equal(seen.begin() + records, seen.end(), numbers().begin()));
}

TEST_CASE("with several ranks, or drop_last, no slot may end short") {
  const bool ranks = GENERATE(true, false);
  ps::ReaderOptions options = reading();
  options.order.ranks = {.rank = 0, .world = ranks ? 2U : 1U};
  options.drop_last = !ranks;
  auto pipeline = ps::Reader{ps::memory(numbers()), options} | ps::Decoder{rows, decoding(2)} |
                  ps::Consumer{[](Host<const Text>) {}};
  const auto failed = outcome_of([&] { pipeline.run(); });
  CAPTURE(failed);
  CHECK(failed.stage == "Decoder");
  CHECK(failed.says("fill a slot of 100 records before the last of them"));
}

TEST_CASE("several workers share a slot of Ragged records, and one that is to have some") {
  constexpr auto work = 2ms;
  const std::vector<Number> few(numbers().begin(), numbers().begin() + 32);
  std::atomic<int> at_once{0}, most{0};
  const auto slowly = [&] {
    most = std::max<int>(most, ++at_once);
    std::this_thread::sleep_for(work);
    --at_once;
  };
  // One slot.
  auto pipeline = ps::Reader{ps::memory(few), {.batch = 32}} |
                  ps::Decoder{[&](const Number& in, ps::Row<Text> out) {
                                slowly();
                                fill(in, out);
                              },
                              {.workers = 4}} |
                  ps::Consumer{[](Host<const Text>) {}};
  pipeline.run();
  CHECK(most == 4);
  most = 0;
  auto read = ps::Reader{ps::memory(few), {.batch = 32}} | ps::Decoder{rows, {.workers = 1}} |
              ps::Decoder{[&](ps::Row<const Text> in, Number& out) {
                            slowly();
                            out = ps::get<"number">(in);
                          },
                          {.workers = 4}} |
              ps::Consumer{[](Host<const Number>) {}};
  read.run();
  CHECK(most == 4);
}
