// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Epochs of one run as loops in a loop, and runs of one epoch each: the same batches, in the same
// order, with the same positions, as one loop over all.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;
namespace tests = penstock::tests;

namespace {

constexpr std::uint64_t count = 103;
constexpr std::uint64_t epochs = 4;

auto numbers(std::uint64_t size = count, std::uint64_t refused = ps::unknown_size) {
  return ps::generate<std::uint64_t>(
      size, [refused](std::span<std::uint64_t> out, std::uint64_t first) {
        if (first <= refused && refused < first + out.size()) {
          throw ps::SourceError{"penstock: bad sector", "disk", 42, refused};
        }
        std::iota(out.begin(), out.end(), first);
      });
}
auto on_host(ps::ReaderOptions options) {
  options.batch = 10;
  return ps::Reader{numbers(), options} |
         ps::Decoder{[](const std::uint64_t& in, std::uint64_t& out) { out = in; }};
}
const ps::ReaderOptions shuffled{.epochs = epochs, .order = {.shuffle = 7}};

// What a loop sees of a batch.
struct Seen {
  std::uint64_t epoch;
  std::vector<std::uint64_t> records;
  std::string position;

  explicit Seen(const ps::Lease<ps::Batch<const std::uint64_t, ps::Pageable>>& batch)
      : epoch{batch.epoch()}, records(batch.data(), batch.data() + batch.size()),
        position{batch.position().text()} {}
  bool operator==(const Seen&) const = default;
};
template <class Run> std::vector<Seen> seen(Run run) {
  std::vector<Seen> batches;
  for (auto batch : run) {
    batches.emplace_back(batch);
  }
  return batches;
}

} // namespace

TEST_CASE("a loop over epochs gives what one loop over all gives, with their numbers") {
  const tests::Watchdog watchdog{"epochs"};
  auto data = on_host(shuffled);
  const std::vector<Seen> all = seen(data.batches());
  REQUIRE(all.size() == 11 * epochs);

  std::vector<Seen> by_epochs;
  std::vector<std::uint64_t> order;
  for (auto epoch : data.epochs()) {
    order.push_back(epoch.number());
    std::uint64_t records = 0;
    for (auto batch : epoch) {
      CHECK(batch.epoch() == epoch.number());
      records += batch.size();
      by_epochs.emplace_back(batch);
    }
    CHECK(records == count);
    // Between two loops a run stands behind the epoch, though the next one's first batch is there.
    CHECK(data.report().position.epoch() == epoch.number() + 1);
    CHECK(data.report().position.step() == 0);
  }
  CHECK(by_epochs == all);
  CHECK(order == std::vector<std::uint64_t>{0, 1, 2, 3});
  CHECK(data.report().records == epochs * count);
  CHECK_FALSE(data.report().stopped);

  const ps::Position from{all[14].position}; // in epoch 1
  by_epochs.clear();
  for (auto epoch : data.epochs({.from = from})) {
    for (auto batch : epoch) {
      by_epochs.emplace_back(batch);
    }
  }
  CHECK(by_epochs.front().epoch == 1);
  CHECK(by_epochs.front().records == all[15].records);
  CHECK(by_epochs.back() == all.back());
}

TEST_CASE("epochs come on a stream, behind a type that names only batches, and from a FanOut") {
  const tests::Watchdog watchdog{"epochs on a stream"};
  ps::HostDevice device;
  auto stream = device.stream();
  const auto check = [](auto by_epoch) {
    std::uint64_t records = 0;
    std::uint64_t next = 0;
    for (auto epoch : by_epoch) {
      CHECK(epoch.number() == next++);
      for (auto batch : epoch) {
        CHECK(batch.epoch() == epoch.number());
        records += batch.size();
      }
    }
    CHECK(next == epochs);
    CHECK(records == epochs * count);
  };
  auto data =
      ps::Reader{numbers(), ps::to_pinned, shuffled} | ps::AsyncCopier{device, {.batch = 8}};
  check(data.epochs(stream));
  ps::AnyBatches<ps::Batch<const std::uint64_t, ps::Device>> any{std::move(data), stream};
  check(any.epochs());
  ps::FanOut fan{ps::Reader{numbers(), ps::to_pinned, shuffled}, std::span{&device, 1}};
  check(ps::Epochs{fan.on(0, stream)});
}

TEST_CASE("an epoch left early is passed over, and loops left early go on") {
  const tests::Watchdog watchdog{"epochs left early"};
  auto data = on_host(shuffled);
  const std::vector<Seen> all = seen(data.batches());

  std::vector<Seen> first;
  for (auto epoch : data.epochs()) {
    if (epoch.number() == 2) {
      continue; // without a batch of it
    }
    for (auto batch : epoch) {
      first.emplace_back(batch);
      break;
    }
  }
  CHECK(first == std::vector<Seen>{all[0], all[11], all[33]});
  CHECK_FALSE(data.report().stopped);

  auto run = data.epochs();
  std::vector<Seen> rest;
  for (auto epoch : run) {
    for (int times = 0; times < 2; ++times) { // the second loop goes on where the first was left
      for (auto batch : epoch) {
        rest.emplace_back(batch);
        if (rest.size() == 3) {
          break;
        }
      }
    }
    break;
  }
  CHECK(rest == std::vector<Seen>(all.begin(), all.begin() + 11));
  for (auto epoch : run) {
    CHECK(epoch.number() == 1);
    for (auto batch : epoch) {
      CHECK(Seen{batch} == all[11]);
      break;
    }
    break;
  }
  for (auto epoch : std::exchange(run, data.epochs())) { // nothing was lost between
    for (auto batch : epoch) {
      CHECK(Seen{batch} == all[12]);
      break;
    }
    break;
  }
  CHECK(data.report().stopped);
  CHECK(seen(data.batches()) == all); // the next run is as good as any
}

TEST_CASE("a second loop over an epoch that is used up has no batches, as over the last one") {
  const tests::Watchdog watchdog{"epochs used up"};
  auto data = on_host(shuffled);
  std::uint64_t records = 0;
  for (auto epoch : data.epochs()) {
    for (auto batch : epoch) {
      records += batch.size();
    }
    for (auto batch : epoch) {
      FAIL("batch " << batch.index() << " came behind epoch " << epoch.number());
    }
  }
  CHECK(records == epochs * count);
}

TEST_CASE("a loop over epochs throws the run's error, and none of an empty source comes") {
  const tests::Watchdog watchdog{"errors of epochs"};
  auto bad = ps::Reader{numbers(count, 57), {.epochs = 2, .batch = 10}} |
             ps::Decoder{[](const std::uint64_t& in, std::uint64_t& out) { out = in; }};
  auto run = bad.epochs();
  std::uint64_t records = 0;
  CHECK(tests::outcome_of([&] {
          for (auto epoch : run) {
            for (auto batch : epoch) {
              records += batch.size();
            }
          }
        }).says("bad sector"));
  CHECK(records <= 50);
  CHECK(tests::outcome_of([&] { (void)run.begin(); }).says("this loop has no run"));

  auto none = ps::Reader{numbers(0), {.epochs = 2}} |
              ps::Decoder{[](const std::uint64_t& in, std::uint64_t& out) { out = in; }};
  for (auto epoch : none.epochs()) {
    FAIL("epoch " << epoch.number() << " of nothing");
  }
}

TEST_CASE("runs of one epoch each give what one run of all gives") {
  const tests::Watchdog watchdog{"runs of an epoch"};
  auto data = on_host(shuffled);
  const std::vector<Seen> all = seen(data.batches());
  auto once = on_host({.order = shuffled.order}); // whose Reader has .epochs = 1
  std::vector<Seen> one_by_one;
  for (std::uint64_t e = 0; e < epochs; ++e) {
    for (const Seen& batch : seen(once.batches({.epoch = e}))) {
      one_by_one.push_back(batch);
    }
    CHECK(once.report().records == count);
    CHECK(once.report().records_in_all == count);
    CHECK(once.report().epochs == 1);
    CHECK(once.report().position.epoch() == e + 1);
  }
  CHECK(one_by_one == all);
  CHECK(once.report().stages.front().note.empty());

  // The rest of an epoch, by a Reader of all of them; and the next run is one of all again.
  const auto rest = seen(data.batches({.from = ps::Position{all[14].position}, .epoch = 1}));
  CHECK(rest.front().records == all[15].records);
  CHECK(rest.back() == all[21]);
  CHECK(seen(data.batches({.from = ps::Position{all[21].position}, .epoch = 2})).back() == all[32]);
  CHECK(seen(data.batches()) == all);
  CHECK(tests::outcome_of([&] {
          seen(data.batches({.from = ps::Position{all[14].position}, .epoch = 2}));
        }).says(".epoch is 2, and .from is in epoch 1"));
  CHECK(seen(data.batches()) == all);
}

TEST_CASE("a run of one epoch that cannot be says why") {
  auto live = ps::Reader{numbers(ps::unknown_size)} |
              ps::Decoder{[](const std::uint64_t& in, std::uint64_t& out) { out = in; }};
  CHECK(tests::outcome_of([&] {
          (void)live.batches({.epoch = 1}).next();
        }).says("this source can be delivered once"));
  CHECK(live.batches({.epoch = 0}).next().size() != 0);
  auto data = on_host({});
  CHECK(tests::outcome_of([&] {
          (void)data.batches({.epoch = ~std::uint64_t{0}}).next();
        }).says("too many records for that"));
}
