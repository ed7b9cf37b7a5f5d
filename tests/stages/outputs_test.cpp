// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Decoders that give another number of records than they take: what comes out, in which slots, what
// is left out, and from where a run goes on.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/randomness.hpp"
#include "support/sanitizer.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace ps = penstock;
using ps::tests::caught;

namespace {

using Number = std::uint64_t;
template <class T> using Host = ps::Batch<T, ps::Pageable>;
struct Text : ps::Columns<ps::Field<"text", ps::Ragged<char>>> {};
struct Pair : ps::Columns<ps::Field<"number", Number>, ps::Field<"part", std::uint32_t>> {};

static_assert(!std::is_copy_constructible_v<ps::Output<Number>>);
static_assert(std::is_same_v<decltype(std::declval<ps::Output<Number>&>().add()), Number&>);
static_assert(std::is_same_v<decltype(std::declval<ps::Output<Pair>&>().add()), ps::Row<Pair>>);

std::vector<Number> numbers(Number count) {
  std::vector<Number> all(count);
  std::iota(all.begin(), all.end(), Number{0});
  return all;
}
/// How many records are made of a number, here: none of many, some of few, and seldom a thousand.
Number made_of(Number number) {
  const Number mixed = number * 0x9e37'79b9'7f4a'7c15 >> 40;
  return mixed % 64 == 0 ? 1000 : mixed % 2 == 0 ? 0 : mixed % 5;
}
Number output(Number number, Number i) {
  return number << 16 | i;
}
std::vector<Number> outputs_of(const std::vector<Number>& numbers) {
  std::vector<Number> all;
  for (const Number number : numbers) {
    for (Number i = 0; i != made_of(number); ++i) {
      all.push_back(output(number, i));
    }
  }
  return all;
}
void make(const Number& in, ps::Output<Number>& out) {
  for (Number i = 0; i != made_of(in); ++i) {
    out.push(output(in, i));
  }
}
void make_stated(const Number& in, ps::Output<Number>& out) {
  out.open(made_of(in));
  make(in, out);
}

/// Runs a chain and returns what came, each batch after the other.
template <class Chain>
std::vector<Number> all_of(Chain chain, const ps::RunOptions& options = {}) {
  std::vector<Number> all;
  bool counted = true;
  for (auto batch : chain.batches(options)) {
    counted = counted && batch.index() == all.size();
    all.insert(all.end(), batch.data(), batch.data() + batch.size());
  }
  CHECK(counted);
  return all;
}
template <class Chain> void begin(Chain& chain, const ps::Position& from) {
  auto run = chain.batches({.from = from});
  static_cast<void>(run.next());
}
auto reader(const std::vector<Number>& of, ps::ReaderOptions options = {}) {
  return ps::Reader{ps::memory(of), options};
}

} // namespace

TEST_CASE("A Decoder gives any number of records of each, in order") {
  const std::vector<Number> data = numbers(8000);
  const std::vector<Number> expected = outputs_of(data);
  for (const unsigned workers : {1U, 2U, 5U}) {
    CAPTURE(workers);
    CHECK(all_of(reader(data) | ps::Decoder{make, {.workers = workers}}) == expected);
    CHECK(all_of(reader(data) | ps::Decoder{make_stated, {.workers = workers}}) == expected);
    CHECK(all_of(reader(data, {.batch = 7}) | ps::Decoder{make_stated, {.workers = workers}}) ==
          expected);
    const std::vector<Number> few = numbers(500);
    CHECK(all_of(reader(few, {.batch = 1}) |
                 ps::Decoder{make_stated, {.workers = workers, .depth = 2}}) == outputs_of(few));
  }
}

TEST_CASE("A slot ends with its epoch, and is full otherwise") {
  const std::vector<Number> data = numbers(300);
  const std::vector<Number> expected = outputs_of(data);
  auto chain = reader(data, {.epochs = 3, .batch = 100}) | ps::Decoder{make, {.workers = 3}};
  std::vector<std::vector<Number>> epochs(3);
  for (auto batch : chain.batches()) {
    std::vector<Number>& epoch = epochs.at(batch.epoch());
    CHECK(epoch.size() % 100 == 0);
    epoch.insert(epoch.end(), batch.data(), batch.data() + batch.size());
  }
  for (const std::vector<Number>& epoch : epochs) {
    CHECK(epoch == expected);
  }
  const auto& report = chain.report();
  CHECK(report.stages[1].name == "Decoder");
  CHECK(report.stages[1].records == 900);
  CHECK(report.records == 3 * expected.size());
  CHECK(report.dropped == 0);

  auto dropping =
      reader(data, {.batch = 100, .drop_last = true}) | ps::Decoder{make, {.workers = 3}};
  CHECK(all_of(std::move(dropping)).size() == expected.size() / 100 * 100);
}

TEST_CASE("No slot has two epochs, also where only a full batch ended the one before") {
  constexpr Number records = 16, epochs = 3; // 16 outputs of an epoch are two batches of 8
  for (const bool drop_last : {false, true}) {
    CAPTURE(drop_last);
    ps::HostDevice device;
    const std::vector<Number> from = numbers(records);
    auto chain =
        ps::Reader{ps::memory(from), {.epochs = epochs, .batch = 4, .drop_last = drop_last}} |
        ps::Decoder{[](const Number& in, ps::Output<Number>& out) { out.push(in); },
                    ps::to_pinned} |
        ps::AsyncCopier{device, {.batch = 8}} | ps::AsyncCopier{ps::to_host} |
        ps::Decoder{[](const Number& in, ps::Output<Number>& out) {
          for (Number i = 0; i != in % 3; ++i) {
            out.push(in);
          }
        }};
    std::vector<Number> all;
    for (auto batch : chain.batches()) {
      for (std::size_t i = 0; i != batch.size(); ++i) {
        CHECK(batch.epoch() == (batch.index() + i) / 15); // 5 threes of 0, 1 and 2 outputs, and 0
        all.push_back(batch.data()[i]);
      }
    }
    CHECK(all.size() == 15 * epochs);
  }
}

TEST_CASE("drop_last leaves out one short batch of an epoch, behind all Decoders of outputs") {
  const std::vector<Number> data = numbers(1000);
  const auto twice = [](const Number& in, ps::Output<Number>& out) {
    out.push(in);
    out.push(in);
  };
  const auto most = [](const Number& in, ps::Output<Number>& out) {
    if (in % 10 != 0) {
      out.push(in);
    }
  };
  const ps::ReaderOptions options{.batch = 64, .drop_last = true};
  CHECK(all_of(reader(data, options) | ps::Decoder{twice}).size() == 2000 / 64 * 64);
  CHECK(all_of(reader(data, options) | ps::Decoder{twice} | ps::Decoder{most}).size() ==
        1800 / 64 * 64);
  CHECK(all_of(reader(data, options) | ps::Decoder{most} | ps::Decoder{twice}).size() ==
        1800 / 64 * 64);
  // .ahead hands a slot on when its records are read, and no count of records would be whole.
  CHECK(ps::tests::has(caught<ps::OptionError>([&] {
                         all_of(reader(data, {.batch = 64, .drop_last = true, .ahead = 200}) |
                                ps::Decoder{most});
                       }),
                       "choose one of them"));
}

TEST_CASE("A record that no slot has room for is left out, and the next ones come") {
  const std::vector<Number> data = numbers(300);
  const auto texts = [](const Number& in, ps::Output<Text>& out) {
    const std::size_t size = in == 105 ? 5000 : in % 7;
    std::fill_n(ps::put<"text">(out.add(), size), size, 'a');
  };
  for (const std::size_t batch : {std::size_t{1}, std::size_t{64}}) {
    CAPTURE(batch);
    auto chain = reader(data, {.batch = batch}) |
                 ps::Decoder{texts, {.value_bytes = 4000, .on_error = {.skips = 1}}};
    std::size_t count = 0;
    for (auto texts_of_slot : chain.batches()) {
      count += texts_of_slot.size();
    }
    CHECK(count == 299);
    REQUIRE(chain.report().skips.size() == 1);
    CHECK(chain.report().skips[0].record == 105);
    CHECK(chain.report().skips[0].reason.find("5000 values") != std::string::npos);
  }
}

TEST_CASE("One record may give more than the whole ring holds") {
  const std::vector<Number> data = numbers(5);
  const auto many = [](const Number& in, ps::Output<Number>& out) {
    if (in % 2 == 0) {
      out.open(10'000);
    }
    for (Number i = 0; i != 10'000; ++i) {
      out.push(output(in, i));
    }
  };
  for (const unsigned workers : {1U, 3U}) {
    const std::vector<Number> all =
        all_of(reader(data, {.batch = 2}) | ps::Decoder{many, {.workers = workers, .depth = 2}});
    REQUIRE(all.size() == 50'000);
    for (std::size_t i = 0; i != all.size(); ++i) {
      REQUIRE(all[i] == output(i / 10'000, i % 10'000));
    }
  }
}

TEST_CASE("Rows and Ragged columns: a text is filtered, and split into its words") {
  std::vector<Number> data = numbers(3000);
  struct Word : ps::Columns<ps::Field<"word", ps::Ragged<char>>, ps::Field<"of", Number>> {};
  const auto words = [](const Number& in, ps::Output<Word>& out) {
    for (Number i = 0; i != in % 5; ++i) {
      const std::string word(in % 97 + i, static_cast<char>('a' + i));
      const ps::Row<Word> row = out.add();
      ps::get<"of">(row) = in;
      std::copy(word.begin(), word.end(), ps::put<"word">(row, word.size()));
    }
  };
  const auto long_ones = [](ps::Row<const Word> in, ps::Output<Pair>& out) {
    if (const auto word = ps::get<"word">(in); word.size() > 50) {
      const ps::Row<Pair> row = out.add();
      ps::get<"number">(row) = ps::get<"of">(in);
      ps::get<"part">(row) = static_cast<std::uint32_t>(word.size());
    }
  };
  const auto kept = [](ps::Row<const Word> in, ps::Output<Word>& out) {
    if (const auto word = ps::get<"word">(in); word.size() > 50) {
      const ps::Row<Word> row = out.add();
      ps::get<"of">(row) = ps::get<"of">(in);
      std::copy_n(word.data(), word.size(), ps::put<"word">(row, word.size()));
    }
  };
  for (const unsigned workers : {1U, 3U}) {
    std::size_t at = 0;
    auto split = reader(data) | ps::Decoder{words, {.workers = workers, .value_bytes = 16384}};
    std::vector<std::pair<Number, std::size_t>> all;
    for (auto batch : split.batches()) {
      for (std::size_t i = 0; i != batch.size(); ++i, ++at) {
        const auto word = ps::get<"word">(batch)[i];
        const Number of = ps::get<"of">(batch)[i];
        all.emplace_back(of, word.size());
        const Number part = word.size() - of % 97;
        CHECK(std::string_view{word.data(), word.size()} ==
              std::string(word.size(), static_cast<char>('a' + part)));
      }
    }
    std::vector<std::pair<Number, std::size_t>> expected;
    for (const Number in : data) {
      for (Number i = 0; i != in % 5; ++i) {
        expected.emplace_back(in, in % 97 + i);
      }
    }
    CHECK(all == expected);
    std::erase_if(expected, [](const auto& word) { return word.second <= 50; });

    auto two = reader(data) | ps::Decoder{words, {.workers = workers, .value_bytes = 16384}} |
               ps::Decoder{long_ones, {.workers = workers}};
    all.clear();
    for (auto batch : two.batches()) {
      for (std::size_t i = 0; i != batch.size(); ++i) {
        all.emplace_back(ps::get<"number">(batch)[i], ps::get<"part">(batch)[i]);
      }
    }
    CHECK(all == expected);
    CHECK(!two.report().position);

    auto ragged = reader(data) | ps::Decoder{words, {.workers = workers, .value_bytes = 16384}} |
                  ps::Decoder{kept, {.workers = workers, .value_bytes = 32768}};
    all.clear();
    for (auto batch : ragged.batches()) {
      for (std::size_t i = 0; i != batch.size(); ++i) {
        all.emplace_back(ps::get<"of">(batch)[i], ps::get<"word">(batch)[i].size());
      }
    }
    CHECK(all == expected);
  }
  const auto unput = [](const Number&, ps::Output<Word>& out) { out.add(); };
  CHECK_THROWS_AS(
      all_of(reader(data) | ps::Decoder{unput} |
             ps::Decoder{[](ps::Row<const Word> in, Number& out) { out = ps::get<"of">(in); }}),
      ps::StageError);
}

TEST_CASE("A callable of batches gets groups of the order, whatever sizes slots have") {
  const std::vector<Number> data = numbers(2000);
  constexpr Number group = 6;
  const auto packed = [](Host<const Number> in, ps::Output<Number>& out) {
    const Number sum = std::accumulate(in.data(), in.data() + in.size(), Number{0});
    const Number count = sum % 4;
    if (sum % 3 != 0) {
      out.open(count);
    }
    for (Number i = 0; i != count; ++i) {
      out.push(sum << 8 | i);
    }
  };
  const auto expected = [&](auto is_left_out) {
    std::vector<Number> all;
    for (Number first = 0; first < data.size(); first += group) {
      Number sum = 0;
      bool any = false;
      for (Number i = first; i != std::min<Number>(first + group, data.size()); ++i) {
        sum += is_left_out(i) ? 0 : i;
        any = any || !is_left_out(i);
      }
      for (Number i = 0; any && i != sum % 4; ++i) {
        all.push_back(sum << 8 | i);
      }
    }
    return all;
  };
  const auto all_there = expected([](Number) { return false; });
  for (const unsigned workers : {1U, 4U}) {
    for (const std::size_t batch : {std::size_t{0}, std::size_t{6}, std::size_t{60}}) {
      CHECK(all_of(reader(data, {.batch = batch}) |
                   ps::Decoder{packed, {.workers = workers, .group = group}}) == all_there);
    }
    CHECK(all_of(reader(data, {.ahead = 64}) |
                 ps::Decoder{packed, {.workers = workers, .group = group}}) == all_there);
    // Records that were skipped before move no group.
    const auto bad = [](Number i) { return i % 5 == 3 || (i >= 100 && i < 130); };
    const auto check = [bad](const Number& in, Number& out) {
      if (bad(in)) {
        throw std::runtime_error{"bad"};
      }
      out = in;
    };
    CHECK(all_of(reader(data) | ps::Decoder{check, {.on_error = {.skips = 10'000}}} |
                 ps::Decoder{packed, {.workers = workers, .group = group}}) == expected(bad));
  }
  CHECK(ps::tests::has(
      caught<ps::OptionError>(
          [&] { (reader(data, {.batch = 10}) | ps::Decoder{packed, {.group = group}}).prepare(); }),
      "make .batch a multiple"));
  CHECK(ps::tests::has(
      caught<ps::OptionError>([&] { (reader(data) | ps::Decoder{packed}).prepare(); }),
      "say of how many by .group"));
  CHECK(ps::tests::has(
      caught<ps::OptionError>([&] { (reader(data) | ps::Decoder{make, {.group = 3}}).prepare(); }),
      "leave it out"));
  CHECK(ps::tests::has(
      caught<ps::OptionError>([&] {
        (reader(data) | ps::Decoder{make} | ps::Decoder{packed, {.group = 3}}).prepare();
      }),
      "combine them before"));
}

TEST_CASE("Groups are whole, whatever stands before or behind them") {
  const std::vector<Number> data = numbers(6400);
  const auto plain = [](const Number& in, Number& out) { out = in; };
  const auto as_it_is = [](const Number& in, ps::Output<Number>& out) { out.push(in); };
  for (const std::size_t group : {3U, 32U, 64U, 100U, 4096U}) {
    // A call that gets another number of records, or begins elsewhere, gives what is not expected.
    const auto packed = [group, &data](Host<const Number> in, ps::Output<Number>& out) {
      const bool whole = in.size() == group || in.data()[in.size() - 1] == data.back();
      out.push(whole && in.data()[0] % group == 0 ? in.data()[0] : ~Number{0});
    };
    std::vector<Number> expected;
    for (Number first = 0; first < data.size(); first += group) {
      expected.push_back(first);
    }
    const ps::DecoderOptions by_group{.workers = 3, .group = group};
    for (const std::size_t ahead : {std::size_t{0}, std::size_t{5000}}) {
      CAPTURE(group, ahead);
      const auto read = [&] { return reader(data, {.ahead = ahead}); };
      CHECK(all_of(read() | ps::Decoder{packed, by_group} | ps::Decoder{as_it_is}) == expected);
      CHECK(all_of(read() | ps::Decoder{packed, by_group} | ps::Decoder{plain} |
                   ps::Decoder{as_it_is} | ps::Decoder{as_it_is}) == expected);
      CHECK(all_of(read() | ps::Decoder{plain} | ps::Decoder{packed, by_group} |
                   ps::Decoder{as_it_is}) == expected);
    }
  }
}

TEST_CASE("What is stated must come, and be stated first and once") {
  const std::vector<Number> data = numbers(100);
  const auto fails = [&](auto f, const char* text) {
    for (const unsigned workers : {1U, 3U}) {
      const ps::StageError error = caught<ps::StageError>(
          [&] { all_of(reader(data) | ps::Decoder{f, {.workers = workers}}); });
      CHECK(ps::tests::has(error, text));
      CHECK(error.stage() == "Decoder");
    }
  };
  fails(
      [](const Number& in, ps::Output<Number>& out) {
        out.open(2);
        out.push(in);
      },
      "stated 2 records by open() and gave 1");
  fails(
      [](const Number& in, ps::Output<Number>& out) {
        out.open(1);
        out.push(in);
        out.push(in);
      },
      "stated 1 records by open() and");
  fails(
      [](const Number& in, ps::Output<Number>& out) {
        out.push(in);
        out.open(1);
      },
      "once, and first");
  fails(
      [](const Number&, ps::Output<Number>& out) {
        out.open(0);
        out.open(0);
      },
      "once, and first");
}

TEST_CASE("What a record gave before it failed is withdrawn") {
  const std::vector<Number> data = numbers(3000);
  std::vector<Number> good;
  std::copy_if(data.begin(), data.end(), std::back_inserter(good),
               [](Number i) { return i % 7 != 2; });
  const std::vector<Number> expected = outputs_of(good);
  for (const bool states : {false, true}) {
    const auto tries = std::make_shared<std::atomic<int>>(0);
    const auto failing = [states, tries](const Number& in, ps::Output<Number>& out) {
      states ? make_stated(in, out) : make(in, out);
      if (in % 7 == 2) {
        ++*tries;
        throw std::runtime_error{"bad"};
      }
    };
    CHECK(all_of(reader(data) |
                 ps::Decoder{failing, {.workers = 3, .on_error = {.skips = 10'000}}}) == expected);
    CHECK(*tries == static_cast<int>(data.size() - good.size()));
  }
  // The second try gives what the first did not.
  const auto second = [first = true](const Number& in, ps::Output<Number>& out) mutable {
    make(in, out);
    if (in == 1234 && std::exchange(first, false)) {
      throw std::runtime_error{"once"};
    }
  };
  auto chain = reader(data) | ps::Decoder{second, {.workers = 1, .on_error = {.retries = 1}}};
  std::vector<Number> all;
  for (auto batch : chain.batches()) {
    all.insert(all.end(), batch.data(), batch.data() + batch.size());
  }
  CHECK(all == outputs_of(data));
  CHECK(chain.report().stages[1].retries == 1);
}

TEST_CASE("A callable that fails, or a stop, ends those who wait for their turn or for room") {
  const ps::tests::Watchdog watchdog{"outputs that end", std::chrono::seconds{60}};
  const std::vector<Number> data = numbers(2000);
  for (int run = 0; run != 20; ++run) {
    const auto failing = [run](const Number& in, ps::Output<Number>& out) {
      make_stated(in, out);
      if (in == static_cast<Number>(run) * 90) {
        std::this_thread::sleep_for(std::chrono::milliseconds{2});
        throw std::runtime_error{"bad"};
      }
    };
    const auto error = caught<ps::StageError>([&] {
      all_of(reader(data, {.batch = 20}) | ps::Decoder{failing, {.workers = 4, .depth = 2}});
    });
    CHECK(error.record() == static_cast<Number>(run) * 90);

    auto stopped =
        reader(data, {.batch = 20}) | ps::Decoder{make_stated, {.workers = 4, .depth = 2}};
    int batches = 0;
    for (auto batch : stopped.batches()) {
      if (++batches == run + 1) {
        break;
      }
    }
    CHECK(batches == run + 1);
    CHECK(stopped.report().stopped);
  }
}

TEST_CASE("A run ends behind a slot that the Reader claimed and did not fill") {
  const ps::tests::Watchdog watchdog{"outputs behind an end", std::chrono::seconds{120}};
  const auto plain = [](const Number& in, Number& out) { out = in; };
  const auto whole = [](Host<const Number> in, Host<Number> out) {
    std::copy_n(in.data(), in.size(), out.data());
  };
  const auto as_it_is = [](const Number& in, ps::Output<Number>& out) { out.push(in); };
  const auto some = [](std::span<Number> out, Number first) {
    const Number left = first < 20 ? 20 - first : 0;
    std::iota(out.begin(), out.begin() + std::min<Number>(left, out.size()), first);
    return std::min<std::size_t>(left, out.size());
  };
  const auto check = [](auto chain, std::size_t records) {
    // The sooner they end, the oftener it failed.
    const int runs = (records == 0 ? 2000 : 200) / (ps::tests::under_tsan ? 10 : 1);
    for (int run = 0; run != runs; ++run) {
      std::size_t came = 0;
      for (auto batch : chain.batches()) {
        came += batch.size();
      }
      REQUIRE(came == records);
    }
  };
  const std::vector<Number> data = numbers(20);
  for (const ps::ReaderOptions& options :
       {ps::ReaderOptions{.workers = 1, .batch = 8, .ahead = 100},
        ps::ReaderOptions{.workers = 2, .batch = 8, .ahead = 100},
        ps::ReaderOptions{.workers = 1, .batch = 8, .flush = std::chrono::microseconds{100}}}) {
    check(reader({}, options) | ps::Decoder{plain, {.workers = 1}} |
              ps::Decoder{as_it_is, {.workers = 3}},
          0);
    check(reader(data, options) | ps::Decoder{plain, {.workers = 2}} |
              ps::Decoder{as_it_is, {.workers = 3}},
          data.size());
  }
  const auto unknown = [&] {
    return ps::Reader{ps::generate<Number>(some), {.workers = 2, .batch = 8}};
  };
  ps::HostDevice device;
  check(unknown() | ps::Decoder{whole, {.workers = 2}} | ps::Decoder{as_it_is, {.workers = 3}}, 20);
  check(unknown() | ps::PinnedStager{device, {.workers = 1}} |
            ps::Decoder{as_it_is, {.workers = 3}},
        20);
}

TEST_CASE("A Reader that may be ahead of few records gets them back, and what is read goes on") {
  const ps::tests::Watchdog watchdog{"outputs with ahead", std::chrono::seconds{60}};
  const std::vector<Number> data = numbers(2000);
  const std::vector<Number> expected = outputs_of(data);
  for (const std::size_t ahead : {std::size_t{1}, std::size_t{10}, std::size_t{100}}) {
    for (const unsigned workers : {1U, 3U}) {
      CAPTURE(ahead, workers);
      CHECK(all_of(reader(data, {.ahead = ahead}) | ps::Decoder{make, {.workers = workers}}) ==
            expected);
      CHECK(all_of(reader(data, {.ahead = ahead}) |
                   ps::Decoder{make_stated, {.workers = workers}}) == expected);
    }
  }
  // Most of what is read gives nothing: batches come all the same.
  const auto few = [](const Number& in, ps::Output<Number>& out) {
    if (in % 50 == 0) {
      out.push(in);
    }
  };
  ps::HostDevice device;
  auto chain = reader(data, {.ahead = 16}) | ps::Decoder{few, ps::to_pinned} |
               ps::AsyncCopier{device, {.batch = 10}};
  auto stream = device.stream();
  std::size_t batches = 0;
  for (auto batch : chain.on(stream)) {
    CHECK(batch.size() == 10);
    CHECK(batch.index() == batches * 10);
    ++batches;
  }
  CHECK(batches == 4);
}

TEST_CASE("With flush, records do not wait for those that are still to come") {
  const ps::tests::Watchdog watchdog{"outputs with flush", std::chrono::seconds{60}};
  using namespace std::chrono_literals;
  struct Live {
    using schema = Number;
    std::shared_ptr<std::atomic<Number>> given = std::make_shared<std::atomic<Number>>(0);
    ps::Filled read(Host<Number> into, const ps::Patience& patience) const {
      const Number next = *given;
      if (next == 30) {
        return 0;
      }
      if (next >= *allowed) {
        patience.sleep_for(1ms);
        return ps::for_now(0);
      }
      into.data()[0] = next;
      *given = next + 1;
      return ps::for_now(1);
    }
    ps::Filled read(ps::Batch<Number, ps::Pinned>, const ps::Patience&) const { return 0; }
    std::uint64_t size() const { return ps::unknown_size; }
    std::shared_ptr<std::atomic<Number>> allowed = std::make_shared<std::atomic<Number>>(1);
  };
  const Live live;
  auto chain =
      ps::Reader{live, {.flush = 1ms}} | ps::Decoder{[](const Number& in, ps::Output<Number>& out) {
        out.push(in);
        out.push(in);
      }};
  Number came = 0;
  for (auto batch : chain.batches()) {
    for (std::size_t i = 0; i != batch.size(); ++i, ++came) {
      CHECK(batch.data()[i] == came / 2);
    }
    *live.allowed = came / 2 + 1; // the next comes only when this one is here
  }
  CHECK(came == 60);
}

TEST_CASE("Every position, also inside an output, goes on exactly") {
  const std::vector<Number> data = numbers(400);
  const auto packed = [](Host<const Number> in, ps::Output<Number>& out) {
    const Number sum = std::accumulate(in.data(), in.data() + in.size(), Number{0});
    if (sum % 3 == 0) {
      out.open(sum % 9);
    }
    for (Number i = 0; i != sum % 9; ++i) {
      out.push(sum << 8 | i);
    }
  };
  const auto skipping = [](const Number& in, ps::Output<Number>& out) {
    make(in, out);
    if (in % 11 == 3) {
      throw std::runtime_error{"bad"};
    }
  };
  const auto check = [&](auto chain_of) {
    const auto whole = [&] {
      std::vector<Number> all;
      std::vector<std::pair<std::size_t, std::string>> positions;
      auto chain = chain_of(3U, std::size_t{20});
      for (auto batch : chain.batches()) {
        all.insert(all.end(), batch.data(), batch.data() + batch.size());
        positions.emplace_back(all.size(), batch.position().text());
      }
      const ps::Position behind = chain.report().position;
      CHECK(behind.made() == 0);
      CHECK(behind.step() == 0);
      return std::pair{all, positions};
    };
    const auto [all, positions] = whole();
    CHECK(whole().first == all);
    std::size_t inside = 0;
    for (std::size_t i = 0; i < positions.size(); i += 1 + i % 5) {
      const ps::Position from{positions[i].second};
      inside += from.made() != 0 ? 1 : 0;
      auto chain = chain_of(1 + static_cast<unsigned>(i % 4), std::size_t{20 * (i % 3)});
      std::vector<Number> rest;
      std::optional<ps::Position> then;
      for (auto batch : chain.batches({.from = from})) {
        CHECK(batch.index() == rest.size());
        rest.insert(rest.end(), batch.data(), batch.data() + batch.size());
        if (!then) {
          then = batch.position();
          const std::vector<Number> expected(
              all.begin() + static_cast<std::ptrdiff_t>(positions[i].first),
              all.begin() + static_cast<std::ptrdiff_t>(positions[i].first + rest.size()));
          REQUIRE(rest == expected);
        }
      }
      REQUIRE(rest ==
              std::vector<Number>(all.begin() + static_cast<std::ptrdiff_t>(positions[i].first),
                                  all.end()));
      if (then) { // from a run that went on itself
        auto again = chain_of(2U, std::size_t{0});
        std::vector<Number> last;
        for (auto batch : again.batches({.from = *then})) {
          last.insert(last.end(), batch.data(), batch.data() + batch.size());
        }
        REQUIRE(last.size() < rest.size());
        REQUIRE(std::equal(last.rbegin(), last.rend(), rest.rbegin()));
      }
    }
    CHECK(inside != 0);
  };
  const ps::Order shuffled{.shuffle = 7};
  check([&](unsigned workers, std::size_t batch) {
    return reader(data, {.epochs = 2, .batch = batch}) | ps::Decoder{make, {.workers = workers}};
  });
  check([&](unsigned workers, std::size_t batch) {
    return reader(data, {.epochs = 3, .order = shuffled, .batch = batch}) |
           ps::Decoder{make_stated, {.workers = workers}};
  });
  check([&](unsigned workers, std::size_t batch) {
    return reader(data, {.epochs = 2, .order = shuffled, .batch = batch}) |
           ps::Decoder{skipping, {.workers = workers, .on_error = {.skips = 10'000}}};
  });
  check([&](unsigned workers, std::size_t batch) {
    return reader(data, {.epochs = 3, .order = shuffled, .batch = batch}) |
           ps::Decoder{packed, {.workers = workers, .group = 5}};
  });
}

TEST_CASE("A position is good at an epoch's end, where groups are short or records left out") {
  const std::vector<Number> data = numbers(47);
  const auto all_of_group = [](Host<const Number> in, ps::Output<Number>& out) {
    for (std::size_t i = 0; i != in.size(); ++i) {
      out.push(in.data()[i]);
      out.push(in.data()[i]);
    }
  };
  for (const Number bad : {Number{46}, Number{45}, Number{3}, Number{100}}) {
    const auto checked = [bad](const Number& in, Number& out) {
      if (in >= bad && in < bad + 2) {
        throw std::runtime_error{"bad"};
      }
      out = in;
    };
    const auto chain_of = [&] {
      return reader(data, {.epochs = 3, .batch = 5}) |
             ps::Decoder{checked, {.on_error = {.skips = 1000}}} |
             ps::Decoder{all_of_group, {.workers = 2, .group = 5}};
    };
    const std::vector<Number> all = all_of(chain_of());
    std::size_t given = 0;
    auto whole = chain_of();
    for (auto batch : whole.batches()) {
      given += batch.size();
      const ps::Position from{batch.position().text()};
      auto rest = chain_of();
      std::size_t next = given;
      for (auto later : rest.batches({.from = from})) {
        for (std::size_t i = 0; i != later.size(); ++i, ++next) {
          REQUIRE(next < all.size());
          REQUIRE(later.data()[i] == all[next]);
        }
      }
      REQUIRE(next == all.size());
    }
    auto done = chain_of();
    CHECK(all_of(std::move(done), {.from = whole.report().position}).empty());
  }
}

TEST_CASE("Numbers that cannot be, and a callable that swallows errors, end in an error") {
  const ps::tests::Watchdog watchdog{"outputs that cannot be", std::chrono::seconds{60}};
  const std::vector<Number> data = numbers(200);
  const auto says = [&](auto f, const char* text) {
    CHECK(ps::tests::has(
        caught<ps::StageError>([&] { all_of(reader(data, {.ahead = 4}) | ps::Decoder{f}); }),
        text));
  };
  says([](const Number&, ps::Output<Number>& out) { out.open(~std::size_t{0}); }, "negative");
  says([](const Number&, ps::Output<Number>& out) { out.open(std::size_t{1} << 40); }, "gave 0");
  says(
      [](const Number& in, ps::Output<Number>& out) {
        out.open(1);
        out.push(in);
        try {
          out.push(in);
        } catch (const std::exception&) {
        }
      },
      "let that error pass");
  // A stop that a callable swallows stays a stop.
  auto stopped =
      reader(data, {.batch = 1}) | ps::Decoder{[](const Number& in, ps::Output<Number>& out) {
                                                 try {
                                                   out.open(1000);
                                                   for (Number i = 0; i != 1000; ++i) {
                                                     out.push(in);
                                                   }
                                                 } catch (...) {
                                                 }
                                               },
                                               {.workers = 3, .depth = 2}};
  for (auto batch : stopped.batches()) {
    CHECK(batch.size() == 1);
    break;
  }
  CHECK(stopped.report().stopped);
  CHECK(stopped.report().error.empty());
  const auto refused = [](auto chain, const char* text) {
    CHECK(ps::tests::has(caught<ps::OptionError>([&] { chain.prepare(); }), text));
  };
  const auto batches = [](Host<const Number>, ps::Output<Number>&) {};
  refused(reader(data) | ps::Decoder{batches, {.group = ~std::size_t{0}}}, "make it smaller");
  refused(reader(data, {.flush = std::chrono::milliseconds{1}}) |
              ps::Decoder{batches, {.group = 2}},
          "leave out one of them");
  refused(reader(data, {.drop_last = true}) | ps::Decoder{make}, "give the Reader a .batch");
  refused(reader(data) | ps::Decoder{[](const Number& in, Number& out) { out = in; }, {.group = 2}},
          "leave it out");
}

TEST_CASE("Of several ranks each goes on from its own position, and from no other") {
  const std::vector<Number> data = numbers(500);
  const auto chain_of = [&](std::uint32_t rank, std::uint32_t world) {
    return reader(data, {.epochs = 2,
                         .order = {.shuffle = 3,
                                   .ranks = {.rank = rank, .world = world},
                                   .uneven = ps::Uneven::keep}}) |
           ps::Decoder{make, {.workers = 2}};
  };
  for (std::uint32_t rank = 0; rank != 3; ++rank) {
    std::vector<Number> all;
    std::vector<std::pair<std::size_t, ps::Position>> positions;
    auto chain = chain_of(rank, 3);
    for (auto batch : chain.batches()) {
      all.insert(all.end(), batch.data(), batch.data() + batch.size());
      positions.emplace_back(all.size(), batch.position());
    }
    REQUIRE(positions.size() > 3);
    for (const auto& [given, position] : positions) {
      auto rest = chain_of(rank, 3);
      std::size_t at = given;
      for (auto batch : rest.batches({.from = ps::Position{position.text()}})) {
        for (std::size_t i = 0; i != batch.size(); ++i, ++at) {
          REQUIRE(at < all.size());
          REQUIRE(batch.data()[i] == all[at]);
        }
      }
      REQUIRE(at == all.size());
      CHECK(ps::tests::has(caught<ps::OptionError>([&] {
                             auto other = chain_of((rank + 1) % 3, 3);
                             begin(other, position);
                           }),
                           "goes on from its own position"));
      auto alone = chain_of(0, 1);
      CHECK_THROWS_AS(begin(alone, position), ps::OptionError);
    }
  }
  auto one = chain_of(0, 1);
  const ps::Position there = [&] {
    for (auto batch : one.batches()) {
      return batch.position();
    }
    return ps::Position{};
  }();
  auto same = reader(data, {.epochs = 2, .order = {.shuffle = 3}}) |
              ps::Decoder{[](const Number& in, Number& out) { out = in; }};
  CHECK(ps::tests::has(caught<ps::OptionError>([&] { begin(same, there); }),
                       "Decoder of another number takes together"));
}

TEST_CASE("Behind it the device gets full batches, and stages count what came out") {
  const std::vector<Number> data = numbers(3000);
  const std::vector<Number> expected = outputs_of(data);
  ps::HostDevice device;
  auto stream = device.stream();
  auto chain = reader(data, {.drop_last = true}) | ps::Decoder{make, ps::to_pinned} |
               ps::AsyncCopier{device, {.batch = 64}};
  std::size_t at = 0;
  ps::Position middle;
  std::size_t behind = 0;
  for (auto batch : chain.on(stream)) {
    device.sync(stream);
    REQUIRE(batch.size() == 64);
    CHECK(batch.index() == at);
    CHECK(std::equal(batch.data(), batch.data() + 64,
                     expected.begin() + static_cast<std::ptrdiff_t>(at)));
    at += 64;
    if (at == 640) {
      middle = batch.position();
      behind = at;
    }
    CHECK(ps::tests::has(caught<ps::OptionError>([&] { batch.visit(0); }), "visit()"));
  }
  CHECK(at == expected.size() / 64 * 64);
  for (auto batch : chain.on(stream, {.from = middle})) {
    device.sync(stream);
    CHECK(batch.data()[0] == expected[behind]);
    break;
  }

  // A Decoder behind leaves some out: what is left is counted, and goes on from there.
  const auto some = [](const Number& in, Number& out) {
    if (in % 3 == 0) {
      throw std::runtime_error{"bad"};
    }
    out = in;
  };
  std::vector<Number> left = expected;
  std::erase_if(left, [](Number n) { return n % 3 == 0; });
  const auto with_skips = [&] {
    return reader(data) | ps::Decoder{make} | ps::Decoder{some, {.on_error = {.skips = 1'000'000}}};
  };
  CHECK(all_of(with_skips()) == left);
  auto first = with_skips();
  std::size_t given = 0;
  for (auto batch : first.batches()) {
    given += batch.size();
    auto rest = with_skips();
    std::size_t next = given;
    for (auto later : rest.batches({.from = batch.position()})) {
      REQUIRE(later.data()[0] == left[next]);
      next += later.size();
    }
    CHECK(next == left.size());
    if (given > 3000) {
      break;
    }
  }
  CHECK_THROWS_AS(
      (reader(data) | ps::Decoder{make} | ps::Decoder{[](const Number& in, Number& out, ps::Visit) {
         out = in;
       }}).prepare(),
      ps::OptionError);
}
