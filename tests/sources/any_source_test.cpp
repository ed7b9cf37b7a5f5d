// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/made_source.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/any_source.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace ps::tests;

namespace {

static_assert(ps::Source<ps::AnySource<Plain>> && ps::Source<ps::AnySource<Uneven>>);
static_assert(std::is_same_v<decltype(ps::AnySource{Made<Wide>{{}}}), ps::AnySource<Wide>>);
static_assert(
    std::is_same_v<decltype(ps::AnySource{ps::AnySource{Made<Wide>{{}}}}), ps::AnySource<Wide>>);
static_assert(std::is_nothrow_move_constructible_v<ps::AnySource<Plain>>);

// Has records once it is open, each for itself.
class Shut {
 public:
  using schema = Plain;
  void open() { open_ = true; }
  std::uint64_t size() const {
    if (!open_) {
      throw ps::Error{"penstock: it is shut."};
    }
    return 7;
  }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Plain, Where> into) const {
    return into.size();
  }

 private:
  bool open_{};
};

// Has other records in each epoch, and fails where each read begins the first time.
template <class Schema> struct Flaky {
  using schema = Schema;
  std::uint64_t size() const { return 100; }
  template <ps::HostSpace Where>
  std::size_t read(ps::Batch<Schema, Where> into, const ps::Patience& patience) const {
    for (std::size_t i = 0; i < into.size(); ++i) {
      make(into, i, 1000 * patience.epoch() + into.index() + i);
      if (patience.attempt() == 0 && i == into.size() / 2) {
        throw ps::SourceError{"penstock: flaky", "", 0};
      }
    }
    return into.size();
  }
};

// Ten records, which come by and by.
struct Slow {
  using schema = Plain;
  std::uint64_t size() const { return ps::unknown_size; }
  template <ps::HostSpace Where>
  ps::Filled read(ps::Batch<Plain, Where> into, const ps::Patience&) const {
    if (into.index() == 10) {
      return 0;
    }
    make(into, 0, into.index());
    return ps::for_now(1);
  }
};

template <class S> ps::Report report_of(S source, const ps::ReaderOptions& options) {
  using T = typename S::schema;
  auto pipeline = ps::Reader{std::move(source), options} |
                  ps::Consumer{[](ps::Batch<const T, ps::Pageable>) {}};
  return pipeline.run();
}

} // namespace

TEST_CASE("sources of any types are one list") {
  std::vector<ps::AnySource<Plain>> list{Made<Plain>{{.first = 5, .records = 100}}};
  list.push_back(Made<Plain, read_at>{{.first = 900, .records = 30}});
  for (int i = 0; i < 10; ++i) {
    list.emplace_back(list.front());
  }
  check_all(list[1], from_to(900, 930));
  check_all(list.back(), from_to(5, 105));
  check_all(ps::AnySource{Made<Wide>{{.first = 5, .records = 100}}}, from_to(5, 105));
  check_all(ps::AnySource{Made<Uneven, lengths>{{.first = 5, .records = 100}}}, from_to(5, 105));
}

TEST_CASE("a copy has a source of its own, which is opened by itself") {
  ps::AnySource a = Shut{};
  ps::AnySource b = a;
  a.open();
  CHECK(a.size() == 7);
  CHECK(has(caught<ps::Error>([&] { b.size(); }), "it is shut"));
  const ps::AnySource c = a;
  CHECK(c.size() == 7);
  b = std::move(a);
  CHECK(b.size() == 7);
  a = b;
  b = Shut{};
  CHECK(a.size() == 7);
  CHECK(has(caught<ps::Error>([&] { b.size(); }), "it is shut"));
}

TEST_CASE("one without a source says so") {
  ps::AnySource<Plain> none;
  CHECK(!none);
  const auto empty = caught<ps::Error>([&] { none.open(); });
  CHECK(has(empty, "this AnySource is empty: it never had a source, or was moved away."));
  const auto copy = none;
  CHECK(!copy);
  none = Made<Plain>{{.records = 3}};
  CHECK(none);
  const ps::AnySource moved = std::move(none);
  CHECK(moved.size() == 3);
  CHECK(!none);
}

TEST_CASE("it has no more than the source in it") {
  ps::AnySource any = ps::generate<int>(5, [](std::span<int>, std::uint64_t) {});
  any.open();
  const ps::detail::Abilities can = any.abilities();
  CHECK(!(can.read_bytes || can.lengths || can.read_at || can.for_now || can.says_order));
  CHECK(any.record_bytes() == sizeof(int));
  CHECK(any.random_access());
  const auto lacks = [](auto call) { return caught<ps::Error>(call); };
  CHECK(has(lacks([&] { any.read_bytes(0, {}); }), "in an AnySource has no read_bytes()"));
  CHECK(has(lacks([&] { any.record_of(0, {}); }), "has no record_of()"));
  CHECK(has(lacks([&] { any.group(); }), "has no group()"));
  const ps::AnySource uneven = Made<Uneven>{{.records = 5}};
  CHECK(has(lacks([&] { uneven.lengths(0, {}); }), "has no lengths()"));

  const ps::AnySource wide = Made<Wide, read_at>{{.records = 5}};
  CHECK(wide.abilities().read_at);
  CHECK(wide.extents() == std::vector<std::size_t>{many, more});
  CHECK(ps::AnySource{Made<Uneven, lengths>{{.records = 5}}}.abilities().lengths);
  CHECK(ps::AnySource{Slow{}}.abilities().for_now);
  CHECK(!ps::AnySource{Slow{}}.random_access());
  const std::vector<int> numbers(5);
  CHECK(ps::AnySource{ps::memory(numbers)}.abilities().read_bytes);
}

TEST_CASE("a Reader treats it as the source in it") {
  const ps::ReaderOptions flushing{.workers = 3, .flush = std::chrono::hours{1}};
  const Made<Plain> made{{.records = 100}};
  CHECK(report_of(ps::AnySource{made}, flushing).stages[0].workers == 3);
  CHECK(report_of(ps::AnySource{Slow{}}, flushing).stages[0].workers == 1);
  const Made<Plain> in_order{{.records = 100, .in_order = true}};
  CHECK(report_of(ps::AnySource{in_order}, {.workers = 3}).stages[0].workers == 1);
  CHECK(numbers_through(ps::AnySource{Slow{}}, {.workers = 3, .batch = 4}) == from_to(0, 10));

  // Several workers fill one slot of a source that knows its lengths.
  const Made<Uneven, lengths> knows{{.records = 100}};
  CHECK(numbers_through(ps::AnySource{knows}, {.workers = 3, .batch = 64}) == from_to(0, 100));
  CHECK(knows.is().lengths_calls > 0);
  const Made<Uneven> knows_not{{.records = 100}};
  CHECK(numbers_through(ps::AnySource{knows_not}, {.workers = 3, .batch = 64}) == from_to(0, 100));
}

TEST_CASE("the source in it knows epoch and attempt, and a read that failed is made again") {
  const Numbers both = one_after_the_other(from_to(0, 100), from_to(1000, 1100));
  const ps::ReaderOptions again{.workers = 2, .epochs = 2, .batch = 32, .on_error = {.retries = 1}};
  CHECK(numbers_through(ps::AnySource{Flaky<Plain>{}}, again) == both);
  CHECK(numbers_through(ps::AnySource{Flaky<Uneven>{}}, again) == both);
}
