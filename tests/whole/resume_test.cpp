// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A run that goes on from a position gives what the unbroken run gives behind it, whatever the
// order, the ranks, the chain, and what is left out.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/watchdog.hpp"

#include <penstock/host/device.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/where.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
namespace tests = penstock::tests;

using Record = std::uint64_t;
using Decode = std::function<void(const Record&, Record&, ps::Visit)>;

/// What a rank was given: records, epoch after epoch, and where it stood behind each batch.
struct Log {
  std::vector<Record> records;
  std::vector<std::size_t> sizes; // of records, behind each batch
  std::vector<ps::Position> positions;
};

struct Chain {
  std::uint64_t records = 100;
  std::uint64_t epochs = 1;
  ps::Order order{};
  std::size_t batch = 8;
  unsigned workers = 2;
  std::uint64_t bad_every = 0; // a Decoder leaves out these
  bool to_device = false;

  friend std::string to_string(const Chain& c) {
    const auto text = [](auto n) { return std::to_string(n) + " "; };
    return text(c.records) + text(c.epochs) + "seed " +
           (c.order.shuffle ? text(c.order.shuffle.value()) : "none ") + "block " +
           text(c.order.block) + text(c.order.window) + "rank " + text(c.order.ranks.rank) +
           text(c.order.ranks.world) + "uneven " + text(static_cast<int>(c.order.uneven)) +
           "batch " + text(c.batch) + text(c.workers) + "bad " + text(c.bad_every) +
           text(c.to_device);
  }
};

ps::Reader<ps::Generate<Record, std::function<void(std::span<Record>, std::uint64_t)>, true>,
           ps::Pageable>
reader(const Chain& chain) {
  const std::function<void(std::span<Record>, std::uint64_t)> numbers = [](std::span<Record> out,
                                                                           std::uint64_t first) {
    for (Record& record : out) {
      record = first++;
    }
  };
  return ps::Reader{ps::generate<Record>(chain.records, numbers),
                    {.workers = chain.workers,
                     .epochs = chain.epochs,
                     .order = chain.order,
                     .batch = chain.to_device ? 0 : chain.batch}};
}
ps::Decoder<Decode, void> decoder(const Chain& chain) {
  const std::uint64_t bad_every = chain.bad_every;
  return ps::Decoder{
      Decode{[bad_every](const Record& in, Record& out, ps::Visit visit) {
        if (visit.record != in) {
          throw std::logic_error{"a Visit names another record"};
        }
        if (bad_every != 0 && visit.step % bad_every == bad_every - 1) {
          throw std::runtime_error{"bad"};
        }
        out = in;
      }},
      {.workers = chain.workers, .on_error = {.skips = bad_every != 0 ? 1'000'000U : 0U}}};
}
template <class Batches, class Wait>
Log log_of(Batches batches, std::size_t most, Wait wait) {
  Log log;
  while (auto batch = batches.next()) {
    wait(); // for a batch on a device
    for (std::size_t i = 0; i != batch.size(); ++i) {
      log.records.push_back(batch.data()[i]);
      if (batch.visit(i).record != batch.data()[i]) {
        throw std::logic_error{"visit() names another record"};
      }
    }
    log.sizes.push_back(log.records.size());
    log.positions.push_back(batch.position());
    if (log.positions.size() == most) {
      break;
    }
  }
  return log;
}
/// Runs a chain from a position, for `most` batches.
Log run(const Chain& chain, const ps::Position& from = {}, std::size_t most = ~std::size_t{0}) {
  if (chain.to_device) {
    ps::HostDevice device;
    ps::HostStream stream = device.stream();
    auto pipeline = reader(chain) | decoder(chain) | ps::PinnedStager{} |
                    ps::AsyncCopier{device, {.batch = chain.batch}};
    return log_of(pipeline.on(stream, {.from = from}), most, [&] { device.sync(stream); });
  }
  auto pipeline = reader(chain) | decoder(chain);
  return log_of(pipeline.batches({.from = from}), most, [] {});
}

ps::Ranks rank(unsigned number, unsigned world) {
  return {.rank = number, .world = world};
}

Chain any_chain(std::mt19937& random) {
  const auto below = [&random](std::uint64_t n) {
    return std::uniform_int_distribution<std::uint64_t>{0, n - 1}(random);
  };
  Chain chain;
  const std::uint64_t records = below(4) == 0 ? below(12) : below(300);
  chain.epochs = 1 + below(3);
  chain.batch = 1 + below(20);
  chain.workers = static_cast<unsigned>(1 + below(4));
  chain.to_device = below(2) == 0;
  const auto world = static_cast<unsigned>(1 + below(4));
  chain.order.ranks = rank(static_cast<unsigned>(below(world)), world);
  chain.order.uneven = static_cast<ps::Uneven>(below(3));
  const bool too_few = chain.order.uneven == ps::Uneven::drop && records < world;
  chain.records = too_few && records != 0 ? world : records; // else it is refused
  if (below(3) != 0) {
    chain.order.shuffle = below(1000);
    chain.order.block = below(2) == 0 ? 0 : 2 + below(9);
    chain.order.window = chain.order.block >= 2 ? 1 + below(4) : 1;
  } else {
    chain.order.block = below(10);
  }
  // With several ranks a batch of which nothing is left is an error.
  chain.bad_every = below(2) == 0 ? 0 : (world == 1 ? 2 : 3) + below(20);
  if (world != 1 && chain.batch < 4) {
    chain.bad_every = 0;
  }
  return chain;
}

TEST_CASE("A run that goes on from any batch gives what comes behind it") {
  tests::Watchdog watchdog{"going on from positions"};
  std::mt19937 random{20261123};
  for (int round = 0; round != 120; ++round) {
    watchdog.progress(static_cast<std::uint64_t>(round));
    Chain chain = any_chain(random);
    CAPTURE(round, to_string(chain));
    Log whole;
    try {
      whole = run(chain);
    } catch (const ps::StageError& e) {
      REQUIRE(std::string{e.what()}.find("were left out") != std::string::npos);
      continue;
    }
    if (whole.positions.empty()) {
      continue;
    }
    for (const std::size_t stop :
         {std::size_t{0}, whole.positions.size() / 2, whole.positions.size() - 1}) {
      chain.workers = 1 + random() % 4;
      const ps::Position from{whole.positions[stop].text()};
      CAPTURE(stop, from.text());
      const Log rest = run(chain, from);
      const std::vector<Record> wanted{whole.records.begin() +
                                           static_cast<std::ptrdiff_t>(whole.sizes[stop]),
                                       whole.records.end()};
      REQUIRE(rest.records == wanted);
      if (chain.order.ranks.world != 1) { // where a batch begins is the order's, not the run's
        REQUIRE(rest.positions.size() == whole.positions.size() - stop - 1);
      }
      if (!rest.positions.empty()) {
        REQUIRE(rest.positions.back() == whole.positions.back());
      }
    }
  }
}

TEST_CASE("Other worlds go on in mid-epoch, and each record comes once") {
  for (const bool to_device : {false, true}) {
    Chain chain{.records = 1003,
                .epochs = 2,
                .order = {.shuffle = 5, .uneven = ps::Uneven::keep},
                .batch = 16,
                .to_device = to_device};
    std::vector<std::vector<Record>> by_epoch(2);
    ps::Position from;
    for (const unsigned world : {4U, 3U, 8U, 1U}) {
      std::set<std::string> texts;
      for (unsigned number = 0; number != world; ++number) {
        chain.order.ranks = rank(number, world);
        const Log log = run(chain, from, world == 1 ? ~std::size_t{0} : 7);
        std::size_t done = 0;
        for (std::size_t i = 0; i != log.sizes.size(); ++i) {
          for (; done != log.sizes[i]; ++done) {
            const std::uint64_t epoch = log.positions[i].epoch() - (log.positions[i].step() == 0);
            by_epoch[epoch].push_back(log.records[done]);
          }
        }
        texts.insert(log.positions.back().text());
      }
      REQUIRE(texts.size() == 1); // any rank's will do
      from = ps::Position{*texts.begin()};
    }
    for (std::vector<Record>& records : by_epoch) {
      std::sort(records.begin(), records.end());
      REQUIRE(records.size() == chain.records);
      for (std::size_t i = 0; i != records.size(); ++i) {
        REQUIRE(records[i] == i);
      }
    }
  }
}

TEST_CASE("All ranks end after as many batches, also where records are left out") {
  for (const bool to_device : {false, true}) {
    for (const std::uint64_t records : {1000, 1001, 1007}) {
      for (const ps::Uneven uneven : {ps::Uneven::drop, ps::Uneven::repeat}) {
        std::set<std::size_t> batches;
        std::size_t in_all = 0;
        for (unsigned number = 0; number != 3; ++number) {
          const Log log = run({.records = records,
                               .epochs = 2,
                               .order = {.shuffle = 9, .ranks = rank(number, 3), .uneven = uneven},
                               .batch = 10,
                               .bad_every = 7,
                               .to_device = to_device});
          batches.insert(log.positions.size());
          in_all += log.records.size();
          // A rank's k-th batch is steps of its own, so it is short where one of them is left out.
          for (std::size_t i = 0; i != log.sizes.size(); ++i) {
            REQUIRE(log.sizes[i] - (i == 0 ? 0 : log.sizes[i - 1]) <= 10);
          }
        }
        CAPTURE(records, to_device, static_cast<int>(uneven));
        REQUIRE(batches.size() == 1);
        REQUIRE(in_all < 2 * records);
      }
    }
  }
}

TEST_CASE("All ranks end after as many batches, also on the way back from a device") {
  const auto batches = [](unsigned number, std::size_t sent, std::size_t back) {
    const Chain chain{
        .records = 1 << 20, .order = {.shuffle = 9, .ranks = rank(number, 2)}, .to_device = true};
    ps::HostDevice device;
    auto pipeline = reader(chain) |
                    ps::Decoder{[number](const Record& in, Record& out) {
                                  if (number == 0 && in % 16 == 0) {
                                    throw std::runtime_error{"bad"};
                                  }
                                  out = in;
                                },
                                {.on_error = {.skips = 1 << 20}}} |
                    ps::PinnedStager{} | ps::AsyncCopier{device, {.batch = sent}} |
                    ps::AsyncCopier{ps::to_host, {.batch = back}};
    std::size_t count = 0;
    for (auto batch : pipeline.batches()) {
      count += batch.size() != 0 ? 1U : 0U;
    }
    return count;
  };
  CHECK(batches(0, 0, 0) == batches(1, 0, 0)); // a batch is larger than a usual slot
  CHECK(batches(0, 9000, 9000) == batches(1, 9000, 9000));
  for (const std::size_t back : {4500, 18000}) {
    CHECK(tests::has(tests::caught<ps::OptionError>([&] { batches(0, 9000, back); }),
                     "ranks would have other numbers of batches"));
  }
}

TEST_CASE(
    "Positions of several ranks are behind each batch, also where slots have no size of yours") {
  Chain chain{.records = 6001, .epochs = 2, .order = {.shuffle = 9, .ranks = rank(1, 2)}};
  chain.batch = 0;
  const Log whole = run(chain);
  REQUIRE(whole.positions.size() > 4);
  for (std::size_t i = 0; i != whole.positions.size(); ++i) {
    const ps::Position& at = whole.positions[i];
    REQUIRE(whole.sizes[i] == 3000 * at.epoch() + at.step() / 2);
  }
}

TEST_CASE("Slots have one size on all ranks, also where one has a record more") {
  std::set<std::string> texts;
  for (unsigned number = 0; number != 2; ++number) {
    const Log log =
        run({.records = 8191,
             .order = {.shuffle = 9, .ranks = rank(number, 2), .uneven = ps::Uneven::keep},
             .batch = 0},
            {}, 2);
    texts.insert(log.positions.back().text());
  }
  CHECK(texts.size() == 1);
}

TEST_CASE("A batch of which nothing is left ends a run of several ranks, and is named") {
  for (const bool to_device : {false, true}) {
    Chain chain{.records = 60,
                .order = {.ranks = rank(1, 2)},
                .batch = 2,
                .workers = 1,
                .to_device = to_device};
    chain.order.block = 1;
    chain.bad_every = 2; // all that rank 1 has
    CHECK(tests::has(tests::caught<ps::StageError>([&] { run(chain); }),
                     "were left out, and each of several ranks must have equally many batches"));
    chain.order.ranks = rank(0, 2);
    CHECK(run(chain).records.size() == 30);
  }
}

TEST_CASE("Positions are behind the last batch, at the end, and twice in one epoch") {
  const Chain chain{.records = 100, .epochs = 2, .order = {.shuffle = 3}, .batch = 30};
  const Log whole = run(chain);
  REQUIRE(whole.positions.size() == 8);
  CHECK(whole.positions[0].step() == 30);
  CHECK(whole.positions[3].epoch() == 1);
  CHECK(whole.positions[3].step() == 0);
  CHECK(whole.positions[7].epoch() == 2);
  CHECK(run(chain, whole.positions[7]).records.empty());
  const Log first = run(chain, whole.positions[0], 1);
  const Log second = run(chain, first.positions[0], 1);
  CHECK(first.positions[0] == whole.positions[1]);
  CHECK(second.positions[0] == whole.positions[2]);
  CHECK(second.records ==
        std::vector<Record>(whole.records.begin() + 60, whole.records.begin() + 90));
}

TEST_CASE("The Report's position goes on behind what was used up") {
  const Chain chain{.records = 200, .order = {.shuffle = 3}, .batch = 10};
  std::vector<Record> seen;
  bool fails = true;
  auto pipeline = reader(chain) | ps::Consumer{[&](ps::Batch<const Record, ps::Pageable> batch) {
                    seen.insert(seen.end(), batch.data(), batch.data() + batch.size());
                    if (seen.size() == 70 && fails) {
                      throw std::runtime_error{"enough"};
                    }
                  }};
  REQUIRE_THROWS_AS(pipeline.run(), ps::StageError);
  const ps::Position at = pipeline.report().position;
  CHECK(at.step() == 60); // the last callable did not return
  seen.clear();
  fails = false;
  const ps::Report& report = pipeline.run({.from = at});
  CHECK(report.records_in_all == 140);
  CHECK(report.records == 140);
  CHECK(report.position.epoch() == 1);
  const Log whole = run(chain);
  CHECK(seen == std::vector<Record>(whole.records.begin() + 60, whole.records.end()));
}

TEST_CASE("Several workers of a Consumer use up no record behind the position") {
  const tests::Watchdog watchdog{"several workers"};
  const Chain chain{.records = 3000, .order = {.shuffle = 3}, .batch = 10};
  std::vector<Record> seen(chain.records, 0);
  ps::Position at;
  auto pipeline = reader(chain) | ps::Consumer{[&](ps::Batch<const Record, ps::Pageable> batch) {
                                                 if (batch.index() == 1500) {
                                                   throw std::runtime_error{"enough"};
                                                 }
                                                 for (std::size_t i = 0; i != batch.size(); ++i) {
                                                   seen[batch.data()[i]] = 1;
                                                 }
                                               },
                                               {.workers = 4}};
  REQUIRE_THROWS_AS(pipeline.run(), ps::StageError);
  at = pipeline.report().position;
  REQUIRE(at.step() <= 1500);
  const Log whole = run(chain);
  for (std::size_t step = 0; step != at.step(); ++step) {
    REQUIRE(seen[whole.records[step]] == 1);
  }
}

TEST_CASE("A position of another order is refused, and what differs is named") {
  const Chain chain{.records = 100, .order = {.shuffle = 3}};
  const ps::Position at = run(chain, {}, 2).positions.back();
  const auto refused = [&](Chain other) {
    return std::string{tests::caught<ps::OptionError>([&] { run(other, at); }).what()};
  };
  Chain other = chain;
  other.order.shuffle = 4;
  CHECK(refused(other) ==
        "penstock: this position is of another order: the seed of .shuffle is 3 there and 4 "
        "here. Resume with the same order and data, or begin anew without .from.");
  other.order.shuffle = {};
  CHECK(refused(other).find("seed of .shuffle is 3 there and none here") != std::string::npos);
  other = chain;
  other.records = 101;
  CHECK(refused(other).find("the number of the source's records is 100 there and 101 here") !=
        std::string::npos);
  other = chain;
  other.order.block = 4;
  CHECK(refused(other).find(".block is 1 there and 4 here") != std::string::npos);
  const std::vector<Record> records(100);
  const auto chosen = [&records](std::vector<std::uint64_t> numbers) {
    return ps::Reader{ps::where(ps::memory(records), std::move(numbers)),
                      {.order = {.shuffle = 3}}} |
           ps::Consumer{[](ps::Batch<const Record, ps::Pageable>) {}};
  };
  auto one = chosen({1, 2, 3});
  one.run();
  auto two = chosen({3, 2, 1});
  const auto differs =
      tests::caught<ps::OptionError>([&] { two.run({.from = one.report().position}); });
  CHECK(std::string{differs.what()}.find("the source is made otherwise there than here") !=
        std::string::npos);
  other = chain;
  other.batch = 5;
  CHECK(run(other, at).records.size() == 84);
}

TEST_CASE("Inside a block another world is refused, with the two steps that would do") {
  Chain chain{
      .records = 100, .order = {.shuffle = 3, .block = 10, .ranks = rank(0, 2)}, .batch = 4};
  const Log log = run(chain, {}, 2);
  CHECK(log.positions[1].step() == 0);
  CHECK(log.positions[1].inside() == 8);
  chain.order.ranks = rank(0, 3);
  CHECK(std::string{tests::caught<ps::OptionError>([&] { run(chain, log.positions[1]); }).what()} ==
        "penstock: this position is inside a block of each of 2 ranks, and here are 3: go on with "
        "as many, or from where all stand between blocks, at step 0 or 20.");
}

TEST_CASE("A position is one line of text, and other text is none") {
  const Chain chain{.records = 100, .epochs = 3, .order = {.shuffle = ~0ULL, .block = 7}};
  const ps::Position at = run(chain, {}, 5).positions.back();
  CHECK(at.text().size() < 256);
  CHECK(at.text().find('\n') == std::string::npos);
  CHECK(ps::Position{at.text()} == at);
  CHECK(at);
  CHECK_FALSE(ps::Position{});
  CHECK(ps::Position{ps::Position{}.text()}.text() == ps::Position{}.text());
  for (std::size_t length = 0; length != at.text().size(); ++length) {
    const std::string cut = at.text().substr(0, length);
    CAPTURE(cut);
    // Of the last number some digits may be there.
    if (cut.find(" source=") == std::string::npos || cut.back() == '=') {
      REQUIRE_THROWS_AS(ps::Position{cut}, ps::OptionError);
    }
  }
  for (const char* text : {"penstock-position 2 epoch=0", "penstock-position 1 epoch=-1",
                           "penstock-position 1 epoch=99999999999999999999"}) {
    CHECK_THROWS_AS(ps::Position{text}, ps::OptionError);
  }
  CHECK(ps::Position{" " + at.text() + "\r\n"} == at);
  CHECK_THROWS_AS(ps::Position{at.text() + " 1"}, ps::OptionError);
  const auto refusal = [](const std::string& text) {
    return std::string{tests::caught<ps::OptionError>([&] { ps::Position{text}; }).what()};
  };
  CHECK(refusal("penstock-position 2 epoch=0").find("no position of this version") !=
        std::string::npos);
  CHECK(refusal(std::string{"a\0b", 3}).find("\"a?b\". Give all of the one line") !=
        std::string::npos);
  std::stringstream stream;
  stream << 17 << '\n' << at << "\nmore";
  int number = 0;
  ps::Position read;
  stream >> number >> read;
  CHECK(read == at);
  CHECK(number == 17);
}

TEST_CASE("A text of a place that no run can be at is no position") {
  Chain chain{
      .records = 100, .order = {.shuffle = 3, .block = 10, .ranks = rank(0, 2)}, .batch = 4};
  const std::string good = run(chain, {}, 2).positions[1].text();
  const auto altered = [](std::string text, const std::string& from, const std::string& to) {
    REQUIRE(text.find(from) != std::string::npos);
    return text.replace(text.find(from), from.size(), to);
  };
  CHECK(ps::Position{good}.inside() == 8);
  for (const char* place : {"inside=10 world=2", "inside=18446744073709551615 world=2",
                            "inside=8 world=0", "inside=8 world=1", "inside=8 world=4294967296"}) {
    CAPTURE(place);
    CHECK_THROWS_AS(ps::Position{altered(good, "inside=8 world=2", place)}, ps::OptionError);
  }
  const std::string beginning = ps::Position{}.text();
  for (const char* name : {"epoch=", "step=", "inside=", "world="}) {
    const std::string nothing = std::string{name} + "0";
    CAPTURE(name);
    CHECK_THROWS_AS(ps::Position{altered(beginning, nothing, name + std::string{"5"})},
                    ps::OptionError);
  }
}

TEST_CASE("A source whose records come in order has no positions") {
  auto pipeline = ps::Reader{ps::generate<Record>([](std::span<Record> out, std::uint64_t first) {
                               const std::size_t count =
                                   first < 100 ? std::min<std::size_t>(out.size(), 100 - first) : 0;
                               for (std::size_t i = 0; i != count; ++i) {
                                 out[i] = first + i;
                               }
                               return count;
                             }),
                             {.workers = 1, .batch = 10}} |
                  ps::Decoder{[](const Record& in, Record& out) { out = in; }};
  // Its size is unknown, but each record may be asked for: it can go on anywhere.
  ps::Position at;
  for (auto batch : pipeline.batches()) {
    at = batch.position();
    if (at.step() == 30) {
      break;
    }
  }
  std::vector<Record> rest;
  for (auto batch : pipeline.batches({.from = at})) {
    rest.insert(rest.end(), batch.data(), batch.data() + batch.size());
  }
  REQUIRE(rest.size() == 70);
  CHECK(rest.front() == 30);
}

} // namespace
