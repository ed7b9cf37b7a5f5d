// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Items that fail and are skipped or tried again: which records are delivered, how they are
// numbered, and what the Report says of the others.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/faulty_io.hpp"
#include "support/outcome.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <penstock/sources/slice.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <tuple>
#include <utility>

using namespace suite;
using tests::Came;
using tests::Outcome;
using tests::outcome_of;

namespace {

// Each record is its number in the source.
using Number = std::uint64_t;
using OnDevice = ps::Batch<const Number, ps::Device>;
using OnHost = ps::Batch<const Number, ps::Pageable>;
using IntoHost = ps::Batch<Number, ps::Pageable>;
using Numbers = std::vector<Number>;

constexpr std::size_t slot = 100;
constexpr Number count = 1000;

ps::ReaderOptions reading(ps::OnError on_error, std::uint64_t epochs = 1, unsigned workers = 2) {
  return {.workers = workers, .depth = 4, .epochs = epochs, .batch = slot, .on_error = on_error};
}

void fill(std::span<Number> out, std::uint64_t first) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = first + i;
  }
}
// Slots that begin with one of `bad` cannot be read.
auto source_with(std::set<Number> bad) {
  return ps::generate<Number>(count,
                              [bad = std::move(bad)](std::span<Number> out, std::uint64_t first) {
                                fill(out, first);
                                if (bad.contains(first)) {
                                  throw ps::SourceError{"penstock: bad sector", "disk", first * 8};
                                }
                              });
}
auto good_source() {
  return source_with({});
}

// Returns the numbers for which `bad` is false, `epochs` times.
Numbers without(const std::function<bool(Number)>& bad, std::uint64_t epochs = 1) {
  Numbers left;
  for (Number i = 0; i < count * epochs; ++i) {
    if (!bad(i % count)) {
      left.push_back(i % count);
    }
  }
  return left;
}

// The batches that a run delivered.
struct Delivered {
  Numbers numbers;
  std::vector<std::size_t> sizes;
  bool numbered{true};     // index() counts the records delivered
  bool placed{true};       // source_index() is the first record's number
  bool epochs_apart{true}; // no batch goes on beyond an epoch's end

  template <class B> void add(const B& batch) {
    numbered = numbered && batch.index() == numbers.size();
    placed = placed && batch.size() != 0 && batch.source_index() == batch.data()[0];
    epochs_apart = epochs_apart && std::is_sorted(batch.data(), batch.data() + batch.size());
    numbers.insert(numbers.end(), batch.data(), batch.data() + batch.size());
    sizes.push_back(batch.size());
  }
  bool well() const { return numbered && placed && epochs_apart; }
};

// Runs stages before the copier, with batches of this size.
template <class Before> Delivered through_device(Before before, std::size_t batch,
                                                 ps::Report& report) {
  ps::HostDevice device{{.late_seed = 1}};
  Delivered delivered;
  auto pipeline = std::move(before) | ps::AsyncCopier{device, {.batch = batch}};
  auto stream = device.stream();
  for (auto lease : pipeline.on(stream)) {
    const OnDevice some = lease;
    stream.enqueue([&delivered, some] { delivered.add(some); });
  }
  report = pipeline.report();
  return delivered;
}
template <class P> Delivered through_host(P& pipeline) {
  Delivered delivered;
  for (auto batch : pipeline.batches()) {
    delivered.add(batch);
  }
  return delivered;
}

// Returns the skips in the order of their records.
std::vector<ps::SkippedItem> sorted(std::vector<ps::SkippedItem> skips) {
  std::sort(skips.begin(), skips.end(),
            [](const auto& a, const auto& b) { return a.record < b.record; });
  return skips;
}

} // namespace

TEST_CASE("slots that cannot be read are left out, numbered and listed") {
  const auto left_out = [](Number i) { return i / slot == 2 || i / slot == 5 || i / slot == 9; };
  for (const std::size_t batch : {1, 30, 100, 150, 5000}) {
    CAPTURE(batch);
    ps::Report report;
    const Delivered got =
        through_device(ps::Pipeline{std::tuple{ps::Reader{
                           source_with({200, 500, 900}), ps::to_pinned, reading({.skips = 6}, 2)}}},
                       batch, report);
    CHECK(got.numbers == without(left_out, 2));
    CHECK(got.well());
    CHECK(report.records == 1400);
    CHECK(report.records_in_all == 2000);
    CHECK(report.skipped == 600);
    CHECK(report.dropped == 0);
    CHECK(report.stages[0].skipped == 600);
    CHECK(report.stages[0].records == 1400);
    CHECK(report.stages[0].retries == 0);
    const auto skips = sorted(report.skips);
    REQUIRE(skips.size() == 6);
    for (std::size_t i = 0; i < skips.size(); ++i) {
      CAPTURE(i);
      CHECK(skips[i].stage == "Reader");
      CHECK(skips[i].record == std::array<Number, 3>{200, 500, 900}[i / 2]);
      CHECK(skips[i].records == slot);
      CHECK(skips[i].file == "disk");
      CHECK(skips[i].offset == skips[i].record * 8);
      CHECK(skips[i].reason == "penstock: bad sector");
    }
  }
}

TEST_CASE("one bad item more than may be left out ends the run with that item's error") {
  auto pipeline = ps::Reader{source_with({200, 500, 900}), reading({.skips = 2}, 1, 1)} |
                  ps::Consumer{[](OnHost) {}};
  for (int run = 0; run < 2; ++run) { // each run has a fresh budget and list
    CAPTURE(run);
    const Outcome out = outcome_of([&] { pipeline.run(); });
    CAPTURE(out);
    CHECK(out.came == Came::stage_error);
    CHECK(out.stage == "Reader");
    CHECK(out.file == "disk");
    CHECK(out.offset == 7200);
    CHECK(out.says("(2 bad ones were left out before it, as many as .on_error.skips allows)"));
    const ps::Report report = pipeline.report();
    CHECK(report.skipped == 200);
    REQUIRE(report.skips.size() == 2);
    CHECK(report.skips[0].record == 200);
    CHECK(report.skips[1].record == 500);
  }
}

TEST_CASE("a second run has a fresh budget and list") {
  auto pipeline =
      ps::Reader{source_with({200, 500, 900}), reading({.skips = 3})} | ps::Consumer{[](OnHost) {}};
  for (int run = 0; run < 3; ++run) {
    CAPTURE(run);
    const ps::Report& report = pipeline.run();
    CHECK(report.records == 700);
    CHECK(report.skipped == 300);
    CHECK(report.skips.size() == 3);
  }
}

TEST_CASE("a read that fails in a file is left out with the file and the offset") {
  const tests::TempDir dir;
  const auto bytes = some_bytes(40'000);
  const std::string path = dir.write("bytes", std::span<const std::byte>{bytes});
  for (const bool retries : {false, true}) {
    CAPTURE(retries);
    std::atomic<int> reads{0};
    const tests::FaultyIo<> io{tests::IoFaults::fail(
        [&](const tests::IoCall& call) { return call.name == "read" && ++reads == 3 ? EIO : 0; })};
    ps::OnError on_error{.skips = 1};
    on_error.retries = retries ? 1 : 0;
    auto pipeline = ps::Pipeline{
        std::tuple{ps::Reader{ps::Records<std::byte, tests::FaultyIo<>>{{path}, {}, io},
                              {.workers = 1, .depth = 4, .batch = 4096, .on_error = on_error}}}};
    std::uint64_t records = 0;
    bool right = true;
    for (auto batch : pipeline.batches()) {
      right = right && batch.index() == records &&
              std::memcmp(batch.data(), bytes.data() + batch.source_index(), batch.size()) == 0;
      records += batch.size();
    }
    CHECK(right);
    const ps::Report report = pipeline.report();
    CHECK(report.stages[0].retries == (retries ? 1 : 0));
    CHECK(records == bytes.size() - report.skipped);
    REQUIRE(report.skips.size() == (retries ? 0U : 1U));
    if (!retries) {
      CHECK(report.skipped == 4096);
      CHECK(report.skips[0].records == 4096);
      CHECK(report.skips[0].file == path);
      CHECK(report.skips[0].offset == report.skips[0].record);
      CHECK(report.skips[0].record % 4096 == 0);
    }
  }
}

TEST_CASE("an item that fails is tried again, as often as asked for") {
  std::map<Number, int> tries;
  int good_at = 2;
  const auto source = ps::generate<Number>(count, [&](std::span<Number> out, std::uint64_t first) {
    std::fill(out.begin(), out.end(), Number{77});
    if (++tries[first] < good_at && (first == 300 || first == 900)) {
      throw std::runtime_error{"not yet"};
    }
    fill(out, first);
  });
  auto again = ps::Pipeline{std::tuple{ps::Reader{source, reading({.retries = 3}, 1, 1)}}};
  const Delivered got = through_host(again);
  CHECK(got.numbers == without([](Number) { return false; }));
  CHECK(got.well());
  CHECK(again.report().stages[0].retries == 2);
  CHECK(again.report().skipped == 0);

  tries.clear();
  good_at = 5;
  const Outcome out = outcome_of([&] { through_host(again); });
  CHECK(out.stage == "Reader");
  CHECK(out.says("not yet"));
  CHECK(tries[300] == 4);
  CHECK(tries.find(900) == tries.end());

  tries.clear();
  auto skipping =
      ps::Pipeline{std::tuple{ps::Reader{source, reading({.retries = 2, .skips = 2}, 1, 1)}}};
  CHECK(through_host(skipping).numbers ==
        without([](Number i) { return i / slot == 3 || i / slot == 9; }));
  CHECK(tries[300] == 3);
  CHECK(skipping.report().stages[0].retries == 4);
  CHECK(skipping.report().skipped == 200);
  CHECK(skipping.report().skips.size() == 2);
}

TEST_CASE("a Decoder of batches leaves out the slot, and tries it again before") {
  std::atomic<int> tries{0};
  const auto decode = [&](OnHost in, IntoHost out) {
    std::copy_n(in.data(), in.size(), out.data());
    if (in.source_index() == 400) {
      ++tries;
      throw 42;
    }
  };
  for (const std::size_t batch : {1, 150}) {
    CAPTURE(batch);
    tries = 0;
    ps::Report report;
    const Delivered got = through_device(
        ps::Reader{good_source(), reading({}, 2)} |
            ps::Decoder{decode, {.workers = 3, .on_error = {.retries = 2, .skips = 2}}} |
            ps::PinnedStager{{.workers = 2}},
        batch, report);
    CHECK(got.numbers == without([](Number i) { return i / slot == 4; }, 2));
    CHECK(got.well());
    CHECK(tries == 6);
    CHECK(report.stages[0].records == 2000);
    CHECK(report.stages[1].skipped == 200);
    CHECK(report.stages[1].retries == 4);
    CHECK(report.skipped == 200);
    CHECK(report.dropped == 0);
    REQUIRE(report.skips.size() == 2);
    CHECK(report.skips[0].stage == "Decoder");
    CHECK(report.skips[0].record == 400);
    CHECK(report.skips[0].records == slot);
    CHECK(report.skips[0].file.empty());
    CHECK(report.skips[0].reason == "something that is no std::exception was thrown");
  }
}

TEST_CASE("Decoders of records leave out single ones, and each keeps its number") {
  struct Text {
    Number number;
    char more[24];
  };
  // Several bad records in a slot, neighbours among them, its first and its last.
  const auto bad_for_one = [](Number i) { return i % 10 == 3 || i % 10 == 4 || i % slot == 0; };
  const auto bad_for_two = [](Number i) { return i % 7 == 0 || i % slot == 99; };
  const auto one = [=](const Number& in, Text& out) {
    out = {in, "text"};
    if (bad_for_one(in)) {
      throw std::runtime_error{"one: " + std::to_string(in)};
    }
  };
  const auto two = [=](const Text& in, Number& out) {
    out = in.number;
    if (bad_for_two(in.number)) {
      throw std::runtime_error{"two: " + std::to_string(in.number)};
    }
  };
  const ps::DecoderOptions options{.workers = 2, .on_error = {.skips = 1'000'000}};
  const auto both = [=](Number i) { return bad_for_one(i) || bad_for_two(i); };
  for (const std::size_t batch : {1, 7, 64, 5000}) { // 1: every record's own number is seen
    CAPTURE(batch);
    ps::Report report;
    const Delivered got = through_device(ps::Reader{source_with({600}), reading({.skips = 2}, 2)} |
                                             ps::Decoder{one, options} | ps::Decoder{two, options} |
                                             ps::PinnedStager{},
                                         batch, report);
    const Numbers expected = without([&](Number i) { return both(i) || i / slot == 6; }, 2);
    CHECK(got.numbers == expected);
    CHECK(got.well());
    CHECK(report.skipped == 2 * count - expected.size());
    CHECK(report.dropped == 0);
    CHECK(report.stages[1].name == "Decoder");
    CHECK(report.stages[2].name == "Decoder 2");
    std::uint64_t of_stages = 0;
    for (const ps::StageReport& stage : report.stages) {
      of_stages += stage.skipped;
    }
    CHECK(of_stages == report.skipped);
    // Each skip is listed by its record's number, with its own reason.
    std::multiset<Number> listed;
    for (const ps::SkippedItem& skip : report.skips) {
      CAPTURE(skip.record, skip.stage, skip.reason);
      if (skip.stage == "Reader") {
        CHECK((skip.record == 600 && skip.records == slot));
        continue;
      }
      CHECK(skip.records == 1);
      CHECK(skip.reason ==
            (skip.stage == "Decoder" ? "one: " : "two: ") + std::to_string(skip.record));
      listed.insert(skip.record);
    }
    CHECK(listed.size() == report.skipped - 2 * slot);
    for (const Number i : listed) {
      CHECK(listed.count(i) == 2);
    }
  }
}

TEST_CASE("what comes back from a device has its numbers in the source, whatever was left out") {
  const auto copy = [](ps::Batch<const Number, ps::Device> in, ps::Batch<Number, ps::Device> out,
                       ps::HostStream& stream) {
    stream.enqueue([in, out] { std::copy_n(in.data(), in.size(), out.data()); });
  };
  const auto in_place = [](ps::Batch<Number, ps::Device>, ps::HostStream&) {};
  const auto leaves_out = [](std::set<Number> every) {
    return [every = std::move(every)](const Number& in, Number& out) {
      out = in;
      if (std::any_of(every.begin(), every.end(), [&](Number n) { return in % n == n - 1; })) {
        throw std::runtime_error{"bad"};
      }
    };
  };
  const ps::DecoderOptions options{.workers = 2, .on_error = {.skips = 1'000'000}};
  const auto bad = [](Number i) {
    return i % 10 == 9 || i % 16 == 15 || i % 7 == 6 || i / slot == 4 || i / slot == 9;
  };
  for (const std::size_t batch : {7, 64, 5000}) {
    for (const std::size_t home : {1, 10, 33, 100}) {
      for (const unsigned workers : {1U, 3U}) {
        CAPTURE(batch, home, workers);
        ps::HostDevice device{{.late_seed = 1}};
        const auto there_and_back = [&](auto before) {
          return std::move(before) | ps::AsyncCopier{device, {.batch = batch}} | ps::Kernel{copy} |
                 ps::Kernel{in_place} | ps::AsyncCopier{ps::to_host, {.batch = home}};
        };
        std::mutex mutex;
        std::map<std::uint64_t, Numbers> got;
        std::uint64_t wrong = 0;
        auto pipeline =
            there_and_back(
                there_and_back(ps::Reader{source_with({400, 900}), reading({.skips = 6}, 3)} |
                               ps::Decoder{leaves_out({10, 16}), ps::to_pinned, options}) |
                ps::Decoder{leaves_out({7}), options} | ps::PinnedStager{{.workers = 2}}) |
            ps::Consumer{[&](ps::Batch<const Number, ps::Pinned> some) {
                           const std::scoped_lock lock{mutex};
                           wrong += some.source_index() != some.data()[0];
                           got[some.index()] = {some.data(), some.data() + some.size()};
                         },
                         {.workers = workers}};
        for (int run = 0; run < 2; ++run) {
          CAPTURE(run);
          got.clear();
          const ps::Report& report = pipeline.run();
          CHECK(wrong == 0);
          Numbers all;
          for (const auto& [index, numbers] : got) {
            CHECK(index == all.size());
            all.insert(all.end(), numbers.begin(), numbers.end());
          }
          CHECK(all == without(bad, 3));
          for (const ps::SkippedItem& skip : report.skips) {
            CHECK(bad(skip.record));
          }
        }
      }
    }
  }
}

TEST_CASE("a batch on a device knows which record each of its own is, whatever was left out") {
  ps::HostDevice device{{.late_seed = 5}};
  auto stream = device.stream();
  const auto bad = [](Number i) { return i % 7 == 3 || i % 100 > 90; };
  for (const std::size_t batch : {1, 9, 64, 350}) {
    for (const bool shuffled : {false, true}) {
      CAPTURE(batch, shuffled);
      auto read = reading({.skips = 1000}, 2);
      read.order.shuffle = shuffled ? ps::Seed{7} : ps::Seed{};
      const auto to_device = [&](std::size_t records) {
        return ps::Reader{good_source(), read} |
               ps::Decoder{[&](const Number& in, Number& out) {
                             out = in;
                             if (bad(in)) {
                               throw std::runtime_error{"bad"};
                             }
                           },
                           ps::to_pinned,
                           {.on_error = {.skips = 1000}}} |
               ps::AsyncCopier{device, {.batch = records}};
      };
      const auto check = [&](auto pipeline) {
        std::uint64_t last = 0;
        std::size_t wrong = 0;
        std::size_t records = 0;
        for (int times = 0; times != 2; ++times) {
          last = records = 0;
          for (auto lease : pipeline.on(stream)) {
            stream.sync();
            for (std::size_t i = 0; i != lease.size(); ++i, ++records) {
              const ps::Visit visit = lease.visit(i);
              const bool in_turn = visit.step >= last && visit.step / count == lease.epoch();
              wrong += visit.record != lease.data()[i] || visit.epoch != lease.epoch() || !in_turn;
              last = visit.step + 1;
            }
          }
          CHECK(records == without(bad, 2).size());
        }
        CHECK(wrong == 0);
      };
      check(to_device(batch));
      check(to_device(batch) |
            ps::Kernel{[](OnDevice in, ps::Batch<Number, ps::Device> out, ps::HostStream& on) {
              on.enqueue([in, out] { std::copy_n(in.data(), in.size(), out.data()); });
            }} |
            ps::Kernel{[](ps::Batch<Number, ps::Device>, ps::HostStream&) {}});
      check(to_device(batch) | ps::AsyncCopier{ps::to_host, {.batch = 20}} |
            ps::AsyncCopier{device, {.batch = batch + 1}});
    }
  }
}

TEST_CASE("an error behind what was left out has the record's own number, also after a device") {
  ps::HostDevice device;
  auto pipeline = ps::Reader{good_source(), reading({})} |
                  ps::Decoder{[](const Number& in, Number& out) {
                                out = in;
                                if (in % 10 == 3) {
                                  throw std::runtime_error{"bad"};
                                }
                              },
                              ps::to_pinned,
                              {.on_error = {.skips = 100}}} |
                  ps::AsyncCopier{device, {.batch = 90}} | ps::AsyncCopier{ps::to_host} |
                  ps::Decoder{[](const Number& in, Number& out) {
                    out = in;
                    if (in == 777) {
                      throw std::runtime_error{"worse"};
                    }
                  }} |
                  ps::Consumer{[](OnHost) {}};
  const Outcome out = outcome_of([&] { pipeline.run(); });
  CHECK(out.stage == "Decoder 2");
  CHECK(out.record == 777);
}

TEST_CASE("what comes back spans no two epochs, also if an epoch's last slot was skipped") {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::generate<Number>(100, fill), {.epochs = 3, .batch = 10}} |
                  ps::Decoder{[](const Number& in, Number& out) {
                                out = in;
                                if (in >= 90) {
                                  throw std::runtime_error{"bad"};
                                }
                              },
                              ps::to_pinned,
                              {.on_error = {.skips = 100}}} |
                  ps::AsyncCopier{device, {.batch = 30}} |
                  ps::AsyncCopier{ps::to_host, {.batch = 40}};
  std::vector<std::size_t> sizes;
  for (auto batch : pipeline.batches()) {
    sizes.push_back(batch.size());
    CHECK(batch.data()[0] == batch.index() % 90);
    CHECK(batch.epoch() == batch.index() / 90);
  }
  CHECK(sizes == std::vector<std::size_t>{40, 40, 10, 40, 40, 10, 40, 40, 10});
}

TEST_CASE("a slot of many records may leave out many of them") {
  // If each skip were looked up in the list of all before, this would take minutes.
  constexpr std::size_t many = 400'000;
  const auto bad = [](Number i) { return i % 10 == 3; };
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::generate<Number>(many, fill), {.workers = 1, .batch = many}} |
                  ps::Decoder{[&](const Number& in, Number& out) {
                                out = in;
                                if (bad(in)) {
                                  throw 1;
                                }
                              },
                              ps::to_pinned,
                              {.workers = 1, .on_error = {.skips = many}}} |
                  ps::AsyncCopier{device, {.batch = 16}};
  auto stream = device.stream();
  std::uint64_t records = 0;
  std::uint64_t wrong = 0;
  for (auto lease : pipeline.on(stream)) {
    const OnDevice some = lease;
    stream.enqueue([&, some] {
      for (std::size_t i = 0; i < some.size(); ++i) {
        const std::uint64_t kept = records + i;
        wrong += some.data()[i] != kept / 9 * 10 + kept % 9 + (kept % 9 >= 3 ? 1 : 0);
      }
      wrong += some.source_index() != some.data()[0];
      records += some.size();
    });
  }
  stream.sync();
  CHECK(wrong == 0);
  CHECK(records == many / 10 * 9);
  CHECK(pipeline.report().skipped == many / 10);
}

TEST_CASE("what is left out and not listed is not described either") {
  struct Described : std::exception {
    explicit Described(std::atomic<int>& times) : asked{&times} {}
    const char* what() const noexcept override {
      ++*asked;
      return "bad";
    }
    std::atomic<int>* asked;
  };
  std::atomic<int> asked{0};
  auto pipeline = ps::Reader{ps::generate<Number>(5000, fill), reading({})} |
                  ps::Decoder{[&](const Number&, Number&) { throw Described{asked}; },
                              {.workers = 1, .on_error = {.skips = 5000}}} |
                  ps::Consumer{[](OnHost) {}};
  for (int run = 0; run < 2; ++run) {
    asked = 0;
    const ps::Report& report = pipeline.run();
    CHECK(report.skipped == 5000);
    CHECK(report.skips.size() == 1000);
    CHECK(asked == 1000);
  }
}

// Throws what has no text: an error of its own, or of a source about record 7.
struct NoText : std::exception {
  const char* what() const noexcept override { return nullptr; }
};
struct SourceErrorWithoutText : ps::SourceError {
  SourceErrorWithoutText() : ps::SourceError{"penstock: lost", "disk", 56, 7} {}
  const char* what() const noexcept override { return nullptr; }
};

TEST_CASE("an exception whose what() is null is an error as any other") {
  const std::string said = "an exception was thrown whose what() is null";
  const auto says = [&](auto&& pipeline) {
    std::string text;
    try {
      pipeline.run();
    } catch (const ps::StageError& e) {
      text = e.what();
    }
    CAPTURE(text);
    CHECK(text.find(said) != std::string::npos);
    CHECK(pipeline.report().error == text);
  };
  const auto decode = [](const Number&, Number&) { throw NoText{}; };
  const auto keep = [](OnHost) {};
  says(ps::Reader{ps::generate<Number>(count, fill), reading({})} | ps::Decoder{decode} |
       ps::Consumer{keep});
  says(ps::Reader{ps::generate<Number>(count, fill), reading({})} |
       ps::Consumer{[](OnHost) { throw NoText{}; }});
  const auto lose = [](std::span<Number>, std::uint64_t) { throw SourceErrorWithoutText{}; };
  says(ps::Reader{ps::generate<Number>(count, lose), reading({})} | ps::Consumer{keep});
  says(ps::Reader{ps::take(ps::generate<Number>(count, lose), 20), reading({})} |
       ps::Consumer{keep});
  ps::HostDevice device;
  says(ps::Reader{ps::generate<Number>(count, fill), ps::to_pinned, reading({})} |
       ps::AsyncCopier{device, {.batch = slot}} |
       ps::Consumer{
           [](OnDevice, ps::HostStream& stream) { stream.enqueue([] { throw NoText{}; }); }});

  auto skips = ps::Reader{ps::generate<Number>(count, fill), reading({})} |
               ps::Decoder{decode, {.on_error = {.skips = count}}} | ps::Consumer{keep};
  const ps::Report& report = skips.run();
  CHECK(report.skipped == count);
  CHECK(report.skips.front().reason == said);
}

TEST_CASE("batches end at the epoch's end, also if all its last records are left out") {
  // Batches of one slot and a half, so that the last one is not full.
  const auto last_slot = [](Number i) { return i / slot == 9; };
  ps::Report report;
  const Delivered by_reader =
      through_device(ps::Pipeline{std::tuple{
                         ps::Reader{source_with({900}), ps::to_pinned, reading({.skips = 3}, 3)}}},
                     250, report);
  CHECK(by_reader.numbers == without(last_slot, 3));
  CHECK(by_reader.well());
  const std::vector<std::size_t> sizes{250, 250, 250, 150};
  REQUIRE(by_reader.sizes.size() == 12);
  for (std::size_t i = 0; i < by_reader.sizes.size(); ++i) {
    CHECK(by_reader.sizes[i] == sizes[i % 4]);
  }

  const auto decode = [&](const Number& in, Number& out) {
    out = in;
    if (last_slot(in)) {
      throw std::runtime_error{"bad"};
    }
  };
  const Delivered by_decoder = through_device(
      ps::Reader{good_source(), reading({}, 3)} |
          ps::Decoder{decode, ps::to_pinned, {.workers = 2, .on_error = {.skips = 300}}},
      250, report);
  CHECK(by_decoder.numbers == by_reader.numbers);
  CHECK(by_decoder.sizes == by_reader.sizes);
  CHECK(by_decoder.well());
  CHECK(report.skips.size() == 300);
}

TEST_CASE("a run may leave out everything, and more than it lists") {
  const auto nothing = ps::generate<Number>(
      1200 * slot, [](std::span<Number>, std::uint64_t) { throw std::runtime_error{"bad"}; });
  const auto all_left_out = [](const ps::Report& report) {
    CHECK(report.records == 0);
    CHECK(report.skipped == 1200 * slot);
    CHECK(report.skips.size() == 1000);
    CHECK(report.dropped == 0);
    CHECK_FALSE(report.stopped);
  };
  ps::Report report;
  const Delivered got = through_device(
      ps::Pipeline{std::tuple{ps::Reader{nothing, ps::to_pinned, reading({.skips = 1200})}}}, 150,
      report);
  CHECK(got.sizes.empty());
  all_left_out(report);

  std::atomic<int> calls{0};
  auto consumed = ps::Reader{nothing, reading({.skips = 1200})} |
                  ps::Consumer{[&](OnHost) { ++calls; }, {.workers = 3}};
  all_left_out(consumed.run());
  CHECK(calls == 0);

  auto open = ps::Pipeline{std::tuple{ps::Reader{nothing, reading({.skips = 1200})}}};
  CHECK(through_host(open).sizes.empty());
  all_left_out(open.report());
}

TEST_CASE("a source of unknown size goes on behind what cannot be read, to its end") {
  const auto source = ps::generate<Number>([](std::span<Number> out, std::uint64_t first) {
    if (first == 300) {
      throw std::runtime_error{"bad"};
    }
    const std::size_t left =
        std::min<std::size_t>(out.size(), 950 - std::min<std::uint64_t>(first, 950));
    fill(out.first(left), first);
    return left;
  });
  auto pipeline = ps::Pipeline{std::tuple{ps::Reader{source, reading({.skips = 1})}}};
  for (int run = 0; run < 2; ++run) {
    const Delivered got = through_host(pipeline);
    CHECK(got.numbers == without([](Number i) { return i / slot == 3 || i >= 950; }));
    CHECK(got.well());
    CHECK(pipeline.report().skipped == slot);
  }
}

TEST_CASE("consumers in host memory are told the delivered number, by one worker or several") {
  for (const unsigned workers : {1U, 4U}) {
    CAPTURE(workers);
    std::mutex mutex;
    std::map<std::uint64_t, Numbers> got;
    std::uint64_t throws_at = ~std::uint64_t{0};
    auto pipeline = ps::Reader{source_with({0, 200, 500, 600, 900}), reading({.skips = 20}, 4)} |
                    ps::Decoder{[](const Number& in, Number& out) {
                                  out = in;
                                  if (in % 9 == 0) {
                                    throw std::runtime_error{"bad"};
                                  }
                                },
                                {.workers = 2, .on_error = {.skips = 10'000}}} |
                    ps::Consumer{[&](OnHost batch) {
                                   if (batch.index() == throws_at) {
                                     throw std::runtime_error{"boom"};
                                   }
                                   const std::scoped_lock lock{mutex};
                                   CHECK(batch.source_index() == batch.data()[0]);
                                   got[batch.index()] =
                                       Numbers(batch.data(), batch.data() + batch.size());
                                 },
                                 {.workers = workers}};
    const auto bad = [](Number i) {
      const Number s = i / slot;
      return i % 9 == 0 || s == 0 || s == 2 || s == 5 || s == 6 || s == 9;
    };
    for (int run = 0; run < 3; ++run) {
      CAPTURE(run);
      got.clear();
      throws_at = ~std::uint64_t{0};
      pipeline.run();
      Numbers all;
      bool numbered = true;
      for (const auto& [index, numbers] : got) {
        numbered = numbered && index == all.size();
        all.insert(all.end(), numbers.begin(), numbers.end());
      }
      CHECK(numbered);
      CHECK(all == without(bad, 4));

      throws_at = std::next(got.begin(), 11)->first;
      const Outcome out = outcome_of([&] { pipeline.run(); });
      CAPTURE(out);
      CHECK(out.stage == "Consumer");
      CHECK(out.record == throws_at);
    }
  }
}

TEST_CASE("a kept batch whose place lies behind a slot left out is an error, and no deadlock") {
  const tests::Watchdog watchdog{"kept beside what was left out"};
  auto pipeline = ps::Pipeline{std::tuple{ps::Reader{
      source_with({100}), {.workers = 1, .depth = 2, .batch = slot, .on_error = {.skips = 1}}}}};
  ps::Lease<OnHost> kept;
  const Outcome out = outcome_of([&] {
    for (auto batch : pipeline.batches()) {
      kept = std::move(batch);
    }
  });
  CAPTURE(out);
  CHECK(out.stage == "loop");
  CHECK(out.says("batch number 0"));
  CHECK(kept);
  kept = {};
  std::uint64_t records = 0;
  for (auto batch : pipeline.batches()) {
    records += batch.size();
  }
  CHECK(records == count - slot);
}

namespace {
constexpr int few = 64;
// A source whose ten slots of four records in the middle cannot be read.
struct BadInTheMiddle {
  using schema = int;
  static std::uint64_t size() { return few; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<int, Where> into) const {
    if (into.index() >= 8 && into.index() < 48) {
      throw std::runtime_error{"a bad slot"};
    }
    for (std::size_t i = 0; i < into.size(); ++i) {
      into.data()[i] = static_cast<int>(into.index() + i);
    }
    return into.size();
  }
};
} // namespace

TEST_CASE("slots that are left out whole come between slots that lost records, lap after lap") {
  std::vector<int> got;
  std::vector<std::uint64_t> from;
  auto pipeline =
      ps::Reader{BadInTheMiddle{},
                 {.workers = 1, .depth = 2, .batch = 4, .on_error = {.skips = 100}}} |
      ps::Decoder{[](const int& in, int& out) {
                    if (in % 4 == 1) {
                      throw std::runtime_error{"a bad record"};
                    }
                    out = in;
                  },
                  {.workers = 1, .depth = 2, .on_error = {.skips = 100}}} |
      ps::Decoder{[](ps::Batch<const int, ps::Pageable> in, ps::Batch<int, ps::Pageable> out) {
                    std::copy_n(in.data(), in.size(), out.data());
                  },
                  {.workers = 1, .depth = 2}} |
      ps::Consumer{[&](ps::Batch<const int, ps::Pageable> batch) {
        got.insert(got.end(), batch.data(), batch.data() + batch.size());
        from.push_back(batch.source_index());
      }};
  for (int runs = 0; runs < 2; ++runs) {
    got.clear();
    from.clear();
    const ps::Report& report = pipeline.run();
    std::vector<int> wanted;
    for (int i = 0; i < few; ++i) {
      if ((i < 8 || i >= 48) && i % 4 != 1) {
        wanted.push_back(i);
      }
    }
    CHECK(got == wanted);
    CHECK(from == std::vector<std::uint64_t>{0, 4, 48, 52, 56, 60});
    CHECK(report.skipped == few - wanted.size());
  }
}

TEST_CASE("the Report prints what was left out") {
  auto pipeline = ps::Reader{source_with({200, 500}), reading({.skips = 2}, 1, 1)} |
                  ps::Consumer{[](OnHost) {}};
  std::ostringstream text;
  text << pipeline.run();
  CAPTURE(text.str());
  CHECK(text.str().find("200 records skipped") != std::string::npos);
  CHECK(text.str().find("skipped by Reader: record 200 to 299: penstock: bad sector") !=
        std::string::npos);
  CHECK(text.str().find("record 500 to 599") != std::string::npos);
}

namespace {

// Counts, in order only; once it gives half of what it was asked for, which fails.
struct Counting {
  using schema = std::uint32_t;

  std::uint64_t size() const { return 1000; }
  bool random_access() const { return false; }
  template <ps::HostSpace W> std::size_t read(ps::Batch<std::uint32_t, W> into) const {
    const bool half = into.index() >= 200 && !std::exchange(state->gave_half, true);
    const std::size_t given = half ? into.size() / 2 : into.size();
    std::iota(into.data(), into.data() + given, state->next);
    state->next += static_cast<std::uint32_t>(given);
    return given;
  }

  struct State {
    std::uint32_t next{};
    bool gave_half{};
  };
  std::shared_ptr<State> state = std::make_shared<State>();
};

} // namespace

TEST_CASE("what came of a source in order is not asked for again by another attempt") {
  std::uint32_t next = 0;
  auto pipeline = ps::Reader{Counting{}, {.batch = 100, .on_error = {.retries = 1}}} |
                  ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Pageable> in) {
                    for (const std::uint32_t number : std::span{in.data(), in.size()}) {
                      CHECK(number == next++);
                    }
                  }};
  CHECK(pipeline.run().records == 1000);
  CHECK(next == 1000);
}
