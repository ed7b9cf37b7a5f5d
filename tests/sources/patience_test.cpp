// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How a source waits: what Patience tells it, and when it is asked again.

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <time.h>
#include <unistd.h>

namespace ps = penstock;
using namespace std::chrono_literals;
using ps::detail::Interrupt;
using ps::detail::Meter;
using ps::tests::Came;
using ps::tests::Outcome;
using ps::tests::outcome_of;
using ps::tests::Watchdog;

namespace {

using Number = std::uint64_t;
using Numbers = std::vector<Number>;
using OnHost = ps::Batch<const Number, ps::Pageable>;
constexpr auto never = ps::Patience::Clock::time_point::max();

struct Pipe {
  Pipe() { REQUIRE(::pipe(ends) == 0); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    ::close(ends[0]);
    close_to_write();
  }
  void close_to_write() {
    if (ends[1] >= 0) {
      ::close(std::exchange(ends[1], -1));
    }
  }
  void write() const {
    if (::write(ends[1], "x", 1) != 1) {
      std::abort();
    }
  }
  int ends[2]{};
};

struct Run {
  Interrupt interrupt;
  Meter meter;
  ps::Patience patience(ps::Patience::Clock::time_point until = never) {
    return {interrupt, meter, 0, 0, until};
  }
};

// What the source below was asked and told.
struct Asked {
  std::mutex lock;
  std::vector<std::pair<Number, std::size_t>> ranges;
  std::vector<unsigned> attempts;
  std::vector<std::uint64_t> epochs;
  std::set<std::thread::id> threads;
};

// The numbers from 0 on, of which `answer(asked, first)` says how many come this time.
template <class Answer> struct Live {
  using schema = Number;
  std::uint64_t records;
  Answer answer;
  std::shared_ptr<Asked> asked = std::make_shared<Asked>();

  std::uint64_t size() const { return records; }
  template <ps::HostSpace W>
  ps::Filled read(ps::Batch<Number, W> into, const ps::Patience& patience) const {
    {
      const std::scoped_lock lock{asked->lock};
      asked->ranges.push_back({into.index(), into.size()});
      asked->attempts.push_back(patience.attempt());
      asked->epochs.push_back(patience.epoch());
      asked->threads.insert(std::this_thread::get_id());
    }
    const ps::Filled filled = answer(into.size(), into.index());
    std::iota(into.data(), into.data() + std::min(filled.count, into.size()), into.index());
    return filled;
  }
};

template <class Source> Numbers all_of(const Source& source, ps::ReaderOptions options,
                                       ps::Report* report = nullptr) {
  Numbers numbers;
  auto pipeline = ps::Pipeline{std::tuple{ps::Reader{source, options}}};
  for (auto batch : pipeline.batches()) {
    REQUIRE(batch.index() == numbers.size());
    numbers.insert(numbers.end(), batch.data(), batch.data() + batch.size());
  }
  if (report) {
    *report = pipeline.report();
  }
  return numbers;
}
Numbers first(Number count, std::uint64_t epochs = 1) {
  Numbers numbers(count * epochs);
  for (Number i = 0; i < numbers.size(); ++i) {
    numbers[i] = i % count;
  }
  return numbers;
}

} // namespace

TEST_CASE("a number is a Filled, and for_now says that more will come") {
  static_assert(std::is_convertible_v<std::size_t, ps::Filled>);
  static_assert(!std::is_convertible_v<ps::Filled, std::size_t>);
  const ps::Filled last = std::size_t{3};
  CHECK((last.count == 3 && !last.for_now));
  CHECK((ps::for_now(3).count == 3 && ps::for_now(3).for_now));
}

TEST_CASE("a descriptor is readable when something came, when it hung up or is none") {
  const Watchdog dog{"readable"};
  Pipe pipe;
  for (const bool of_a_run : {false, true}) {
    CAPTURE(of_a_run);
    Run run;
    run.interrupt.connect();
    const ps::Patience patience = of_a_run ? run.patience() : ps::Patience{};
    CHECK_FALSE(patience.stop_requested());
    pipe.write();
    CHECK(patience.readable(pipe.ends[0]));
    char c{};
    REQUIRE(::read(pipe.ends[0], &c, 1) == 1);
    std::thread writer{[&] {
      std::this_thread::sleep_for(5ms);
      pipe.write();
    }};
    CHECK(patience.readable(pipe.ends[0]));
    writer.join();
    REQUIRE(::read(pipe.ends[0], &c, 1) == 1);
    CHECK(patience.readable(9999));
  }
  pipe.close_to_write();
  CHECK(ps::Patience{}.readable(pipe.ends[0]));
}

TEST_CASE("waiting is over when what was read is due, but not before") {
  const Watchdog dog{"until"};
  Pipe pipe;
  Run run;
  run.interrupt.connect();
  const auto due = ps::Patience::Clock::now() + 20ms;
  CHECK_FALSE(run.patience(due).readable(pipe.ends[0]));
  CHECK(ps::Patience::Clock::now() >= due);
  // What is there is read all the same.
  pipe.write();
  CHECK(run.patience(due).readable(pipe.ends[0]));

  const auto next = ps::Patience::Clock::now() + 20ms;
  CHECK(run.patience(next).sleep_for(1ms));
  CHECK_FALSE(run.patience(next).sleep_for(1h));
  CHECK(ps::Patience::Clock::now() >= next);
  CHECK_FALSE(run.patience(due).sleep_for(1h));
  CHECK(run.patience(due).until() == due);
  CHECK(ps::Patience{}.until() == never);
  CHECK(ps::Patience{}.sleep_for(1ms));
}

TEST_CASE("a condition of your own is waited for until it holds, is due, or the run ends") {
  const Watchdog dog{"condition"};
  std::mutex mutex;
  std::condition_variable_any changed;
  bool there = false;
  const auto ready = [&] { return there; };
  const auto sets = [&] {
    std::this_thread::sleep_for(5ms);
    {
      const std::scoped_lock lock{mutex};
      there = true;
    }
    changed.notify_one();
  };
  Run run;
  run.interrupt.connect();
  for (const bool of_a_run : {false, true}) {
    CAPTURE(of_a_run);
    const ps::Patience patience = of_a_run ? run.patience() : ps::Patience{};
    there = false;
    std::thread setter{sets};
    {
      std::unique_lock lock{mutex};
      CHECK(patience.wait(changed, lock, ready));
      CHECK((there && lock.owns_lock()));
    }
    setter.join();
  }
  std::unique_lock lock{mutex};
  const auto due = ps::Patience::Clock::now() + 20ms;
  there = false;
  CHECK_FALSE(run.patience(due).wait(changed, lock, ready));
  CHECK(ps::Patience::Clock::now() >= due);
  there = true; // what is there is read all the same
  CHECK(run.patience(due).wait(changed, lock, ready));

  there = false;
  std::thread stopper{[&] {
    std::this_thread::sleep_for(5ms);
    run.interrupt.request_stop();
  }};
  CHECK_FALSE(run.patience().wait(changed, lock, ready));
  stopper.join();
  there = true; // the end is seen first
  CHECK_FALSE(run.patience().wait(changed, lock, ready));
}

TEST_CASE("the run's end wakes who waits, in any way, and who asks later") {
  const Watchdog dog{"raise"};
  Pipe pipe;
  Run run;
  run.interrupt.connect();
  for (int round = 0; round < 20; ++round) {
    run.interrupt.reset();
    const ps::Patience patience = run.patience();
    const std::stop_token token = patience;
    CHECK_FALSE((patience.stop_requested() || token.stop_requested()));
    Meter others[2];
    bool came[3]{true, true, true};
    std::thread polls{[&] { came[0] = patience.readable(pipe.ends[0]); }};
    std::thread sleeps{
        [&] { came[1] = ps::Patience{run.interrupt, others[0], 0, 0}.sleep_for(1h); }};
    std::thread holds{[&] {
      std::atomic<bool> told{false};
      const std::stop_callback callback{token, [&] { told = true; }};
      while (!told) {
        std::this_thread::sleep_for(1ms);
      }
      came[2] = false;
    }};
    if (round % 2 == 0) {
      std::this_thread::sleep_for(2ms);
    }
    run.interrupt.raise();
    CHECK_FALSE(token.stop_requested());
    run.interrupt.request_stop();
    polls.join();
    sleeps.join();
    holds.join();
    CHECK((!came[0] && !came[1] && !came[2]));
    CHECK(token.stop_requested());
    CHECK_FALSE((patience.readable(pipe.ends[0]) || patience.sleep_for(1h)));
    pipe.write(); // the end is seen first
    CHECK_FALSE(patience.readable(pipe.ends[0]));
    char c{};
    REQUIRE(::read(pipe.ends[0], &c, 1) == 1);
  }
}

TEST_CASE("waiting costs no time of the processor, and is none of work") {
  Pipe pipe;
  Run run;
  run.interrupt.connect();
  run.meter.start();
  run.meter.spent(ps::detail::Activity::starved, ps::detail::Activity::busy);
  const auto cpu_ns = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
  };
  const auto before = cpu_ns();
  const ps::Patience patience = run.patience(ps::Patience::Clock::now() + 50ms);
  CHECK_FALSE(patience.readable(pipe.ends[0]));
  CHECK_FALSE(run.patience(ps::Patience::Clock::now() + 50ms).sleep_for(1h));
  std::mutex mutex;
  std::unique_lock lock{mutex};
  std::condition_variable_any never_changes;
  CHECK_FALSE(run.patience(ps::Patience::Clock::now() + 50ms).wait(never_changes, lock, [] {
    return false;
  }));
  CHECK(cpu_ns() - before < 50'000'000);
  ps::StageReport stage;
  Meter::sum(&run.meter, 1, 1, stage);
  CHECK(stage.starved_s >= 0.15);
  CHECK(stage.busy_s < stage.starved_s);
  CHECK(stage.busy_now == 1);
}

TEST_CASE("a source of known size that gives some for now is asked for the rest") {
  for (const unsigned workers : {1U, 4U}) {
    CAPTURE(workers);
    const auto calls = std::make_shared<std::atomic<unsigned>>(0U);
    const Live source{1000, [calls](std::size_t asked, Number) {
                        return ps::for_now(++*calls % 3 == 0 ? 0 : std::min<std::size_t>(asked, 7));
                      }};
    CHECK(all_of(source, {.workers = workers, .depth = 4, .epochs = 2, .batch = 100}) ==
          first(1000, 2));
    const Asked& asked = *source.asked;
    CHECK(asked.ranges.size() > 20 * 15); // 15 times seven for each slot, and nothing between
    CHECK(std::ranges::all_of(asked.ranges, [](const auto& range) {
      return range.first % 100 + range.second == 100; // the slot's rest
    }));
    CHECK(std::ranges::count(asked.epochs, 1U) > 10 * 15);
  }
}

TEST_CASE("a source of known size that ends early is an error, and so is one that gives too many") {
  const auto answers = [](auto answer) {
    const Live source{1000, answer};
    return outcome_of([&] { all_of(source, {.workers = 1, .depth = 4, .batch = 100}); });
  };
  const Outcome early = answers([](std::size_t asked, Number at) -> ps::Filled {
    return at < 340 ? ps::for_now(std::min<std::size_t>(asked, 30)) : ps::Filled{5};
  });
  CHECK(early.says("the source gave 65 records where it has 100"));
  CHECK(early.record == 365);
  const Outcome more =
      answers([](std::size_t, Number at) { return ps::for_now(at < 395 ? 5 : 8); });
  CHECK(more.says("the source gave 8 records where it has 5"));
  CHECK(more.record == 400);
}

TEST_CASE("each try knows its number, and asks for nothing that came already") {
  const Watchdog dog{"attempts"};
  const auto fails = std::make_shared<std::atomic<unsigned>>(0U);
  const Live source{200, [fails](std::size_t asked, Number at) {
                      if (at == 150 && ++*fails <= 2) {
                        throw std::runtime_error{"the line is down"};
                      }
                      return ps::for_now(std::min<std::size_t>(asked, 50));
                    }};
  ps::Report report;
  CHECK(all_of(source, {.workers = 1, .depth = 4, .batch = 100, .on_error = {.retries = 2}},
               &report) == first(200));
  CHECK(source.asked->attempts == std::vector<unsigned>{0, 0, 0, 0, 1, 2});
  CHECK(source.asked->ranges.back() == std::pair<Number, std::size_t>{150, 50});
  CHECK(report.stages[0].retries == 2);
}

TEST_CASE("pauses between tries grow from a millisecond to a second") {
  const auto pause = [](unsigned failures) { return ps::detail::retry_pause(failures); };
  for (unsigned i = 0; i < 10; ++i) {
    CHECK(pause(i) == std::chrono::milliseconds{1 << i});
  }
  for (const unsigned many : {10U, 31U, 32U, 4'000'000'000U}) {
    CHECK(pause(many) == 1s);
  }
}

TEST_CASE("one worker reads a source of unknown size that gives some for now") {
  const Live source{ps::unknown_size, [](std::size_t asked, Number at) -> ps::Filled {
                      return at < 1000 ? ps::for_now(std::min<std::size_t>(asked, 33)) : 0;
                    }};
  ps::Report report;
  const Numbers numbers = all_of(source, {.workers = 8, .depth = 4, .batch = 100}, &report);
  CHECK(numbers == first(numbers.size()));
  CHECK(numbers.size() >= 1000);
  CHECK(source.asked->threads.size() == 1);
  CHECK(report.stages[0].workers == 1);
  const Outcome twice =
      outcome_of([&] { all_of(source, {.workers = 8, .depth = 4, .epochs = 2}); });
  CHECK(twice.says("1 where the source's size is unknown"));
}

namespace {
// Counts what it reads, and so must be read in order.
template <bool Random> struct Counter {
  using schema = Number;
  std::shared_ptr<Numbers> firsts = std::make_shared<Numbers>();
  std::uint64_t size() const { return 1000; }
  bool random_access() const { return Random; }
  template <ps::HostSpace W> std::size_t read(ps::Batch<Number, W> into) const {
    if constexpr (!Random) {
      firsts->push_back(into.index()); // one thread
    }
    std::iota(into.data(), into.data() + into.size(), into.index());
    return into.size();
  }
};
} // namespace

TEST_CASE("a source says that its records come in order only, alone or zipped") {
  struct Both : ps::Columns<ps::Field<"a", Number>, ps::Field<"b", Number>> {};
  ps::Report report;
  const ps::ReaderOptions options{.workers = 4, .depth = 4, .epochs = 2, .batch = 100};
  const Counter<false> counter;
  CHECK(all_of(counter, options, &report) == first(1000, 2));
  CHECK(report.stages[0].workers == 1);
  Numbers firsts;
  for (Number i = 0; i < 20; ++i) {
    firsts.push_back(i % 10 * 100);
  }
  CHECK(*counter.firsts == firsts);
  CHECK(all_of(Counter<true>{}, options, &report) == first(1000, 2));
  CHECK(report.stages[0].workers == 4);

  const auto workers_of = [&](auto zipped) {
    auto pipeline =
        ps::Reader{zipped, options} | ps::Consumer{[](ps::Batch<const Both, ps::Pageable>) {}};
    return pipeline.run().stages[0].workers;
  };
  CHECK(workers_of(ps::zip<Both>(Counter<true>{}, Counter<false>{})) == 1);
  CHECK(workers_of(ps::zip<Both>(Counter<true>{}, Counter<true>{})) == 4);
}

namespace {
// Record i has i % 5 values, which are i.
struct LiveTexts {
  struct schema : ps::Columns<ps::Field<"number", Number>, ps::Field<"text", ps::Ragged<Number>>> {
  };
  std::shared_ptr<std::atomic<unsigned>> calls = std::make_shared<std::atomic<unsigned>>(0U);
  bool forgets{};

  std::uint64_t size() const { return 300; }
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const {
    for (std::size_t i = 0; i < into.size(); ++i) {
      into[i] = (first + i) % 5;
    }
  }
  template <ps::HostSpace W> ps::Filled read(ps::Batch<schema, W> into) const {
    const unsigned call = ++*calls;
    const std::size_t count = std::min<std::size_t>(into.size(), call % 4 == 0 ? 0 : 9);
    for (std::size_t i = 0; i < count; ++i) {
      const Number number = into.index() + i;
      ps::get<"number">(into).data()[i] = number;
      if (!forgets || number < 120 || i + 1 != count) {
        std::fill_n(ps::get<"text">(into).put(i, number % 5), number % 5, number);
      }
      if (!forgets && call % 7 == 0 && i == 4) {
        throw std::runtime_error{"a bad moment"};
      }
    }
    return ps::for_now(count);
  }
};
} // namespace

TEST_CASE("records of any length may come some at a time, and be tried again") {
  const auto run = [](const LiveTexts& source, unsigned retries) {
    std::uint64_t values = 0;
    Numbers numbers;
    auto pipeline = ps::Pipeline{std::tuple{ps::Reader{
        source, {.workers = 3, .depth = 4, .batch = 50, .on_error = {.retries = retries}}}}};
    for (auto batch : pipeline.batches()) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const Number number = ps::get<"number">(batch).data()[i];
        const auto text = ps::get<"text">(batch)[i];
        numbers.push_back(number);
        REQUIRE(text.size() == number % 5);
        REQUIRE(std::all_of(text.data(), text.data() + text.size(),
                            [&](Number value) { return value == number; }));
        values += text.size();
      }
    }
    CHECK(numbers == first(300));
    return values;
  };
  CHECK(run(LiveTexts{}, 20) == 60 * (0 + 1 + 2 + 3 + 4));
  LiveTexts forgetful;
  forgetful.forgets = true;
  CHECK(outcome_of([&] { run(forgetful, 0); }).says("of a Ragged column was not put"));
}

namespace {
struct Opened {
  using schema = Number;
  std::shared_ptr<unsigned> tries = std::make_shared<unsigned>(0U);
  unsigned bad{};
  bool by_option{};
  bool is_open{};
  void open(const ps::PrepareOptions& preparing) {
    REQUIRE(!is_open); // each try has a copy of its own
    is_open = true;
    ++*tries;
    if (preparing.progress) {
      preparing.progress({1, 2});
    }
    if (*tries <= bad) {
      by_option ? throw ps::OptionError{"penstock: no"} : throw std::runtime_error{"not yet"};
    }
  }
  std::uint64_t size() const { return is_open ? 10 : 0; }
  template <ps::HostSpace W> std::size_t read(ps::Batch<Number, W> into) const {
    std::iota(into.data(), into.data() + into.size(), into.index());
    return into.size();
  }
};
} // namespace

TEST_CASE("what cannot be opened is opened again, as often as retries says") {
  Opened source;
  source.bad = 2;
  CHECK(all_of(source, {.on_error = {.retries = 2}}) == first(10));
  CHECK(*source.tries == 3);

  source.bad = 100;
  *source.tries = 0;
  CHECK(outcome_of([&] { all_of(source, {.on_error = {.retries = 3}}); }).text == "not yet");
  CHECK(*source.tries == 4);
  *source.tries = 0;
  CHECK(outcome_of([&] { all_of(source, {}); }).text == "not yet");
  CHECK(*source.tries == 1);
  SECTION("but not after an option that cannot be") {
    *source.tries = 0;
    source.by_option = true;
    CHECK(outcome_of([&] { all_of(source, {.on_error = {.retries = 3}}); }).text == "penstock: no");
    CHECK(*source.tries == 1);
  }
  SECTION("and not after progress ended prepare()") {
    *source.tries = 0;
    const auto preparing = [&](auto progress) {
      auto pipeline = ps::Pipeline{std::tuple{ps::Reader{source, {.on_error = {.retries = 3}}}}};
      return outcome_of([&] { pipeline.prepare({.progress = progress}); }).text;
    };
    CHECK(preparing([](const ps::Preparation&) { throw std::runtime_error{"enough"}; }) ==
          "enough");
    CHECK(*source.tries == 1);
    source.bad = 3;
    CHECK(preparing([](const ps::Preparation&) {}).empty());
    CHECK(*source.tries == 4);
  }
}
