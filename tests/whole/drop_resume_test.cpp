// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// With .drop_last a run that goes on from a position gives what the unbroken run gives behind it,
// whatever was left out, and wherever in a batch it stood. The chains stand beside a model that
// does the same to a list, record by record.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/watchdog.hpp"

#include <penstock/host/device.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/mix.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
namespace tests = penstock::tests;

using Record = std::uint64_t;
using Records = std::vector<Record>;

struct Chain {
  std::uint64_t seed = 0;
  std::uint64_t records = 100;
  std::uint64_t epochs = 1;
  ps::Order order{};
  std::size_t batch = 8;
  std::size_t landing = 8;
  unsigned workers = 2;
  std::uint64_t bad_every = 0;   // before the batches: these are left out
  std::uint64_t worse_every = 0; // behind them

  friend std::string to_string(const Chain& c) {
    const auto text = [](auto n) { return std::to_string(n) + " "; };
    return "seed " + text(c.seed) + "records " + text(c.records) + "epochs " + text(c.epochs) +
           "shuffle " + text(c.order.shuffle.value()) + "block " + text(c.order.block) + "rank " +
           text(c.order.ranks.rank) + text(c.order.ranks.world) + "batch " + text(c.batch) +
           "back " + text(c.landing) + "workers " + text(c.workers) + "bad " + text(c.bad_every) +
           text(c.worse_every);
  }
};

Chain any_chain(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const auto below = [&random](std::uint64_t n) { return random() % n; };
  Chain chain{.seed = seed};
  chain.batch = 1 + below(12);
  chain.landing = 1 + below(12);
  chain.records = chain.batch + below(80);
  chain.epochs = 1 + below(3);
  chain.workers = static_cast<unsigned>(1 + below(3));
  if (below(2) == 0) {
    chain.order.shuffle = below(1000);
    chain.order.block = below(2) == 0 ? 0 : 2 + below(6);
  }
  chain.bad_every = 2 + below(9);
  chain.worse_every = 2 + below(9);
  return chain;
}

bool is_bad(Record record, std::uint64_t every) {
  return every != 0 && (record * 0x9e3779b97f4a7c15U >> 40U) % every == 0;
}
auto leaves_out(std::uint64_t every) {
  return [every](const Record& in, Record& out) {
    if (is_bad(in, every)) {
      throw std::runtime_error{"bad"};
    }
    out = in;
  };
}
auto good_of(const Records& records, std::uint64_t every) {
  Records good;
  for (const Record record : records) {
    if (!is_bad(record, every)) {
      good.push_back(record);
    }
  }
  return good;
}
Records whole_batches_of(Records records, std::size_t batch) {
  records.resize(records.size() / batch * batch);
  return records;
}

auto numbers(const Chain& chain) {
  return ps::generate<Record>(chain.records, [](std::span<Record> out, std::uint64_t first) {
    std::iota(out.begin(), out.end(), first);
  });
}
ps::ReaderOptions reading(const Chain& chain, std::size_t batch, bool drop_last = true) {
  return {.workers = chain.workers,
          .epochs = chain.epochs,
          .order = chain.order,
          .batch = batch,
          .drop_last = drop_last};
}
ps::DecoderOptions decoding(const Chain& chain) {
  return {.workers = chain.workers, .on_error = {.skips = 1'000'000}};
}

/// Returns what the epochs hold, in their order, and what `each` makes of one.
template <class Each> Records modelled(const Chain& chain, Each each) {
  auto plain = ps::Reader{numbers(chain), reading(chain, 7, false)} | ps::Decoder{leaves_out(0)};
  std::vector<Records> epochs(chain.epochs);
  for (auto batch : plain.batches()) {
    Records& epoch = epochs[batch.epoch()];
    epoch.insert(epoch.end(), batch.data(), batch.data() + batch.size());
  }
  Records all;
  for (const Records& epoch : epochs) {
    const Records kept = each(epoch);
    all.insert(all.end(), kept.begin(), kept.end());
  }
  return all;
}

struct Log {
  Records records;
  std::vector<std::pair<std::size_t, ps::Position>> positions; // behind so many records
};
// `start` begins a run, and `records_of` returns the records of a batch.
template <class Start, class RecordsOf>
Log log_of(Start start, RecordsOf records_of, const ps::Position& from = {},
           std::size_t most = ~std::size_t{0}) {
  Log log;
  for (auto batch : start(from)) {
    const Records records = records_of(batch);
    log.records.insert(log.records.end(), records.begin(), records.end());
    log.positions.emplace_back(log.records.size(), ps::Position{batch.position().text()});
    if (log.positions.size() == most) {
      break;
    }
  }
  return log;
}
/// Checks an unbroken run, those that go on behind each of some batches, and a run in many pieces.
template <class Start, class RecordsOf>
void check(const Chain& chain, const Records& expected, Start start, RecordsOf records_of) {
  CAPTURE(to_string(chain));
  const Log whole = log_of(start, records_of);
  REQUIRE(whole.records == expected);
  for (std::size_t i = chain.seed % 3; i < whole.positions.size(); i += 3) {
    const auto& [behind, from] = whole.positions[i];
    CAPTURE(from.text());
    const auto first = expected.begin() + static_cast<std::ptrdiff_t>(behind);
    REQUIRE(log_of(start, records_of, from).records == Records(first, expected.end()));
  }
  Records pieces;
  for (ps::Position from;;) {
    const Log piece = log_of(start, records_of, from, 1 + chain.seed % 4);
    if (piece.records.empty()) {
      break;
    }
    pieces.insert(pieces.end(), piece.records.begin(), piece.records.end());
    from = piece.positions.back().second;
  }
  REQUIRE(pieces == expected);
}
template <class B> Records records_of(const B& batch) {
  return {batch.data(), batch.data() + batch.size()};
}
template <class P> void check_host(const Chain& chain, const Records& expected, P pipeline) {
  check(
      chain, expected, [&](const ps::Position& from) { return pipeline.batches({.from = from}); },
      [](const auto& batch) { return records_of(batch); });
}
template <class P>
void check_device(const Chain& chain, const Records& expected, ps::HostDevice& device, P pipeline) {
  ps::HostStream stream = device.stream();
  check(
      chain, expected,
      [&](const ps::Position& from) { return pipeline.on(stream, {.from = from}); },
      [&](const auto& batch) {
        stream.sync();
        return records_of(batch);
      });
}

/// A source some of whose records cannot be read.
struct Flaky {
  using schema = Record;
  std::uint64_t records;
  std::uint64_t bad_every;

  std::uint64_t size() const { return records; }
  template <ps::HostSpace W> std::size_t read(ps::Batch<Record, W> into) const {
    for (std::size_t i = 0; i != into.size(); ++i) {
      leaves_out(bad_every)(into.index() + i, into.data()[i]);
    }
    return into.size();
  }
};

struct Text : ps::Columns<ps::Field<"id", Record>, ps::Field<"text", ps::Ragged<char>>> {};

void check_each(const std::function<void(Chain)>& check_one) {
  const tests::Watchdog watchdog{"runs that go on"};
  for (std::uint64_t seed = 0; seed != 40; ++seed) {
    check_one(any_chain(seed));
  }
}

} // namespace

TEST_CASE("A record left out of a slot that is a batch moves no other into another batch") {
  check_each([](const Chain& chain) {
    const Records expected = modelled(chain, [&](const Records& epoch) {
      return good_of(whole_batches_of(epoch, chain.batch), chain.bad_every);
    });
    check_host(chain, expected,
               ps::Reader{numbers(chain), reading(chain, chain.batch)} |
                   ps::Decoder{leaves_out(chain.bad_every), decoding(chain)});
  });
}

TEST_CASE("Nor does a record that the Reader leaves out, also of a mix") {
  check_each([](Chain chain) {
    chain.order.shuffle = chain.seed;
    auto read = reading(chain, chain.batch);
    read.on_error.skips = 1'000'000;
    // An epoch's last slot is short too if the Reader has left out one of its records.
    const auto kept = [&](const Records& epoch) {
      const Records whole = whole_batches_of(epoch, chain.batch);
      const bool short_last =
          whole.size() == epoch.size() &&
          good_of({whole.end() - static_cast<std::ptrdiff_t>(chain.batch), whole.end()},
                  chain.bad_every)
                  .size() != chain.batch;
      return good_of(
          {whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(short_last ? chain.batch : 0)},
          chain.bad_every);
    };
    check_host(chain, modelled(chain, kept),
               ps::Reader{Flaky{chain.records, chain.bad_every}, read} |
                   ps::Decoder{leaves_out(0)});

    read.order = {.shuffle = chain.seed, .records = chain.records};
    const auto mix = [&](std::uint64_t bad_every) {
      return ps::mix<Record>({{Flaky{chain.records, bad_every}, 2}, {Flaky{9, bad_every}, 1}});
    };
    auto whole = read;
    whole.drop_last = false;
    auto plain = ps::Reader{mix(0), whole} | ps::Decoder{leaves_out(0)};
    std::vector<Records> epochs(chain.epochs);
    for (auto batch : plain.batches()) {
      Records& epoch = epochs[batch.epoch()];
      epoch.insert(epoch.end(), batch.data(), batch.data() + batch.size());
    }
    Records expected;
    for (const Records& epoch : epochs) {
      const Records good = kept(epoch);
      expected.insert(expected.end(), good.begin(), good.end());
    }
    check_host(chain, expected,
               ps::Reader{mix(chain.bad_every), read} | ps::Decoder{leaves_out(0)});
  });
}

TEST_CASE("A rank's batches are its own, and what it left out moves none") {
  check_each([](Chain chain) {
    chain.order.ranks = {.rank = static_cast<unsigned>(chain.seed % 2), .world = 2};
    chain.order.block = 0;
    chain.records *= 2;
    chain.batch += 8;
    chain.bad_every = 11; // of no batch all of it
    chain.records += 2 * chain.batch;
    const auto expected = [&](std::uint64_t bad_every) {
      return modelled(chain, [&](const Records& epoch) {
        return good_of(whole_batches_of(epoch, chain.batch), bad_every);
      });
    };
    check_host(chain, expected(chain.bad_every),
               ps::Reader{numbers(chain), reading(chain, chain.batch)} |
                   ps::Decoder{leaves_out(chain.bad_every), decoding(chain)});
    ps::HostDevice device;
    check_device(chain, expected(0), device,
                 ps::Reader{numbers(chain), ps::to_pinned, reading(chain, 0)} |
                     ps::AsyncCopier{device, {.batch = chain.batch}});
    check_host(chain, expected(0),
               ps::Reader{numbers(chain), ps::to_pinned, reading(chain, 0)} |
                   ps::AsyncCopier{device, {.batch = chain.batch}} |
                   ps::AsyncCopier{ps::to_host, {.batch = chain.batch}});
  });
}

TEST_CASE("Batches on a device are filled up, and go on full") {
  check_each([](const Chain& chain) {
    ps::HostDevice device;
    const Records expected = modelled(chain, [&](const Records& epoch) {
      return whole_batches_of(good_of(epoch, chain.bad_every), chain.batch);
    });
    check_device(chain, expected, device,
                 ps::Reader{numbers(chain), reading(chain, 0)} |
                     ps::Decoder{leaves_out(chain.bad_every), ps::to_pinned, decoding(chain)} |
                     ps::AsyncCopier{device, {.batch = chain.batch}});
  });
}

TEST_CASE("With a Ragged column a batch on a device is a slot, also if a record was left out") {
  check_each([](const Chain& chain) {
    ps::HostDevice device;
    ps::HostStream stream = device.stream();
    const Records expected = modelled(chain, [&](const Records& epoch) {
      return good_of(whole_batches_of(epoch, chain.batch), chain.bad_every);
    });
    const auto text_of = [every = chain.bad_every](const Record& in, ps::Row<Text> out) {
      leaves_out(every)(in, ps::get<"id">(out));
      ps::put<"text">(out, in % 5);
    };
    auto pipeline = ps::Reader{numbers(chain), reading(chain, chain.batch)} |
                    ps::Decoder{text_of, ps::to_pinned, decoding(chain)} | ps::AsyncCopier{device};
    check(
        chain, expected,
        [&](const ps::Position& from) { return pipeline.on(stream, {.from = from}); },
        [&](const auto& batch) {
          stream.sync();
          const auto ids = ps::get<"id">(batch);
          return Records(ids.data(), ids.data() + ids.size());
        });
  });
}

TEST_CASE("What comes back in other batches goes on inside one of the device's") {
  check_each([](const Chain& chain) {
    ps::HostDevice device;
    const Records expected = modelled(chain, [&](const Records& epoch) {
      return good_of(whole_batches_of(epoch, chain.batch), chain.worse_every);
    });
    check_host(chain, expected,
               ps::Reader{numbers(chain), ps::to_pinned, reading(chain, 0)} |
                   ps::AsyncCopier{device, {.batch = chain.batch}} |
                   ps::AsyncCopier{ps::to_host, {.batch = chain.landing}} |
                   ps::Decoder{leaves_out(chain.worse_every), decoding(chain)});
  });
}

TEST_CASE("What comes back in the device's batches goes on behind one of them") {
  check_each([](const Chain& chain) {
    ps::HostDevice device;
    const Records expected = modelled(chain, [&](const Records& epoch) {
      return good_of(whole_batches_of(good_of(epoch, chain.bad_every), chain.batch),
                     chain.worse_every);
    });
    check_host(chain, expected,
               ps::Reader{numbers(chain), reading(chain, 0)} |
                   ps::Decoder{leaves_out(chain.bad_every), ps::to_pinned, decoding(chain)} |
                   ps::AsyncCopier{device, {.batch = chain.batch}} |
                   ps::AsyncCopier{ps::to_host, {.batch = chain.batch}} |
                   ps::Decoder{leaves_out(chain.worse_every), decoding(chain)});
  });
}

TEST_CASE("On its way to a device a second time each copier goes on where it stood") {
  check_each([](const Chain& chain) {
    ps::HostDevice device;
    const std::size_t second = 1 + chain.batch / 2;
    const Records expected = modelled(chain, [&](const Records& epoch) {
      return whole_batches_of(good_of(whole_batches_of(epoch, chain.batch), chain.worse_every),
                              second);
    });
    check_device(chain, expected, device,
                 ps::Reader{numbers(chain), ps::to_pinned, reading(chain, 0)} |
                     ps::AsyncCopier{device, {.batch = chain.batch}} |
                     ps::AsyncCopier{ps::to_host, {.batch = chain.landing}} |
                     ps::Decoder{leaves_out(chain.worse_every), ps::to_pinned, decoding(chain)} |
                     ps::AsyncCopier{device, {.batch = second}});
  });
}

TEST_CASE("Slots of outputs are whole batches, also where some of them are left out") {
  check_each([](const Chain& chain) {
    const auto outputs_of = [](const Record& in) { return in % 4; };
    const Records expected = modelled(chain, [&](const Records& epoch) {
      Records outputs;
      for (const Record record : good_of(epoch, chain.bad_every)) {
        for (Record i = 0; i != outputs_of(record); ++i) {
          outputs.push_back(10 * record + i);
        }
      }
      return good_of(whole_batches_of(outputs, chain.batch), chain.worse_every);
    });
    const auto some = [=](const Record& in, ps::Output<Record>& out) {
      for (Record i = 0; i != outputs_of(in); ++i) {
        out.push(10 * in + i);
      }
    };
    check_host(chain, expected,
               ps::Reader{numbers(chain), reading(chain, chain.batch)} |
                   ps::Decoder{leaves_out(chain.bad_every), decoding(chain)} |
                   ps::Decoder{some, {.workers = chain.workers}} |
                   ps::Decoder{leaves_out(chain.worse_every), decoding(chain)});
  });
}

TEST_CASE("Where nothing tells how far inside a batch a run stands, it has no position") {
  ps::HostDevice device;
  const Chain chain{.records = 100, .bad_every = 5};
  const auto to_device = [&](const ps::Order& order) {
    auto read = reading(chain, 0);
    read.order = order;
    return ps::Reader{numbers(chain), read} |
           ps::Decoder{leaves_out(order.ranks.world == 1 ? 5 : 0),
                       ps::to_pinned,
                       {.on_error = {.skips = order.ranks.world == 1 ? 100U : 0U}}} |
           ps::AsyncCopier{device, {.batch = 8}};
  };
  const auto refused = [](auto pipeline) {
    std::size_t records = 0;
    for (auto batch : pipeline.batches()) {
      records += batch.size();
      const auto error = tests::caught<ps::OptionError>([&] { batch.position(); });
      CHECK(tests::has(error, "drop_last counts the batches of the AsyncCopier to the device"));
      CHECK(tests::has(error, "give AsyncCopier{ps::to_host} the .batch of the AsyncCopier"));
    }
    CHECK_FALSE(pipeline.report().position);
    return records;
  };
  const std::size_t good =
      good_of(modelled(chain, [](const Records& all) { return all; }), 5).size();
  CHECK(refused(to_device({}) | ps::AsyncCopier{ps::to_host, {.batch = 5}}) == good / 8 * 8);
  CHECK(refused(to_device({.ranks = {.rank = 1, .world = 2}}) |
                ps::AsyncCopier{ps::to_host, {.batch = 5}}) == 48);
}

TEST_CASE("A position inside a batch is one line of text too") {
  ps::HostDevice device;
  auto pipeline = ps::Reader{numbers({}), ps::to_pinned, {.drop_last = true}} |
                  ps::AsyncCopier{device, {.batch = 36}} |
                  ps::AsyncCopier{ps::to_host, {.batch = 25}};
  auto run = pipeline.batches();
  const ps::Position at = run.next().position();
  CHECK(at.step() == 25);
  CHECK(at.made() == 25);
  CHECK(at.text().ends_with(" group=0 rank=0 made=25"));
  CHECK(ps::Position{at.text()} == at);
  for (const char* other :
       {" made=25", " group=0 rank=1 made=25", " group=0 rank=0 made=25 made=1"}) {
    const std::string text = at.text().substr(0, at.text().find(" group")) + other;
    CHECK(tests::has(tests::caught<ps::OptionError>([&] { ps::Position{text}; }), "no position"));
  }
}
