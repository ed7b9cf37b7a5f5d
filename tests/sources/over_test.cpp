// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// take, drop, where and concat: what they have, compared with plain loops, and what they refuse.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/counted_new.hpp"
#include "support/made_source.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/any_source.hpp>
#include <penstock/sources/concat.hpp>
#include <penstock/sources/fifo.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/slice.hpp>
#include <penstock/sources/where.hpp>
#include <penstock/sources/zip.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <unistd.h>

namespace ps = penstock;
using namespace ps::tests;

namespace {

using Reads = std::vector<std::pair<std::uint64_t, std::size_t>>;

// Calls f with what makes sources of each kind of schema, with the members that they may have, and
// without.
template <class F> void for_each_kind(F f) {
  f([](Making making) { return Made<Plain>{std::move(making)}; });
  f([](Making making) { return Made<Wide, read_at>{std::move(making)}; });
  f([](Making making) { return Made<Uneven>{std::move(making)}; });
  f([](Making making) { return Made<Uneven, lengths | read_at>{std::move(making)}; });
}

Made<Plain> plain(std::uint64_t first, std::uint64_t records) {
  return Made<Plain>{{.first = first, .records = records}};
}

// A list that has runs, repeats numbers, and goes back and forth.
Numbers some_numbers(std::uint64_t below, std::size_t count) {
  std::mt19937_64 random{below};
  Numbers numbers;
  while (numbers.size() < count) {
    const std::uint64_t first = random() % below;
    for (std::uint64_t i = first; i < std::min(first + random() % 5, below); ++i) {
      numbers.push_back(i);
    }
  }
  return numbers;
}
Numbers made_of_these(std::uint64_t first, const Numbers& records) {
  Numbers all;
  for (const std::uint64_t record : records) {
    all.push_back(first + record);
  }
  return all;
}

// Hears which records are soon to be read, and keeps it, in a list that copies share.
struct Hearing : Made<Plain> {
  Hearing(Making making, Reads& said) : Made{std::move(making)}, heard{&said} {}
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept {
    heard->emplace_back(first, count);
  }
  Reads* heard;
};
// Throws an error about no record.
struct Vague {
  using schema = Plain;
  std::uint64_t size() const { return 10; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Plain, Where>) const {
    throw ps::SourceError{"penstock: vague", "", 3};
  }
};
// Has nothing for now.
struct ForNow : ps::Memory<std::int32_t> {
  using Memory::Memory;
  template <ps::HostSpace Where>
  ps::Filled read(ps::Batch<std::int32_t, Where>, const ps::Patience&) const {
    return ps::for_now(0);
  }
};

template <class S> ps::StageError error_of_run(const S& source, std::size_t batch) {
  auto pipeline = ps::Reader{source, {.workers = 1, .batch = batch}} |
                  ps::Consumer{[](ps::Batch<const typename S::schema, ps::Pageable>) {}};
  return caught<ps::StageError>([&] { pipeline.run(); });
}
template <class S> ps::SourceError unopened(S source) {
  return caught<ps::SourceError>([&] { source.open(); });
}
template <class S> ps::OptionError forbidden(S source) {
  return caught<ps::OptionError>([&] { source.open(); });
}

} // namespace

TEST_CASE("take has the first records, and drop the others") {
  for_each_kind([](auto of) {
    for (const std::uint64_t n : {0, 1, 150, 300}) {
      CAPTURE(n);
      check_all(ps::take(of({.first = 1000, .records = 300}), n), from_to(1000, 1000 + n));
      check_all(ps::drop(of({.first = 1000, .records = 300}), n), from_to(1000 + n, 1300));
    }
  });
}

TEST_CASE("where has the records of a list, in its order, as often as they stand there") {
  for_each_kind([](auto of) {
    const Numbers numbers = some_numbers(300, 400);
    check_all(ps::where(of({.first = 500, .records = 300}), numbers), made_of_these(500, numbers));
    check_all(ps::where(of({.first = 500, .records = 300}), {7, 8, 3, 7}), {507, 508, 503, 507});
    check_all(ps::where(of({.first = 500, .records = 300}), {}), {});
  });
}

TEST_CASE("concat has the records of one source after the other") {
  for_each_kind([](auto of) {
    const auto a = of({.first = 100, .records = 70});
    const auto none = of({.first = 0, .records = 0});
    const auto b = of({.first = 5000, .records = 1});
    const auto c = of({.first = 9000, .records = 200});
    const Numbers all =
        one_after_the_other(from_to(100, 170), from_to(5000, 5001), from_to(9000, 9200));
    check_all(ps::concat(none, a, none, none, b, c, none), all);
    check_all(ps::concat(a, ps::take(b, 1), ps::AnySource{c}), all);
    check_all(ps::concat(std::vector{a, none, b, c}), all);
    using Schema = typename decltype(of(Making{}))::schema;
    check_all(ps::concat(std::vector<ps::AnySource<Schema>>{a, ps::drop(none, 0), b, c}), all);
    check_all(ps::concat(none), {});
  });
}

TEST_CASE("sources over sources over sources are as one") {
  for_each_kind([](auto of) {
    const auto a = of({.first = 100, .records = 70});
    const auto b = of({.first = 5000, .records = 90});
    const auto joined = ps::concat(ps::drop(a, 20), ps::take(b, 30), ps::where(b, {80, 81, 5}));
    const Numbers all =
        one_after_the_other(from_to(120, 170), from_to(5000, 5030), Numbers{5080, 5081, 5005});
    check_all(joined, all);
    const Numbers list = some_numbers(all.size(), 100);
    Numbers listed;
    for (const std::uint64_t number : list) {
      listed.push_back(all[number]);
    }
    check_all(ps::where(joined, list), listed);
    const auto part = ps::take(ps::drop(ps::where(joined, list), 13), 60);
    check_all(part, {listed.begin() + 13, listed.begin() + 73});
    check_pipelines(part, {listed.begin() + 13, listed.begin() + 73});
    check_all(ps::concat(ps::AnySource{part}, ps::AnySource{joined}),
              one_after_the_other(Numbers{listed.begin() + 13, listed.begin() + 73}, all));
  });
}

TEST_CASE("where reads a run of numbers at once, or all numbers where the source can") {
  const Made<Plain> source{{.records = 20, .note_reads = true}};
  auto runs = ps::where(source, {5, 6, 7, 3, 9, 10, 10, 11});
  runs.open();
  CHECK(numbers_of(runs, 1, 6) == Numbers{6, 7, 3, 9, 10, 10});
  CHECK(source.is().reads == Reads{{6, 2}, {3, 1}, {9, 2}, {10, 1}});

  const Made<Plain, read_at> at_once{{.records = 20, .note_reads = true}};
  auto all = ps::where(at_once, {5, 6, 7, 3, 9, 10, 10, 11});
  all.open();
  CHECK(numbers_of(all, 1, 6) == Numbers{6, 7, 3, 9, 10, 10});
  CHECK(at_once.is().reads.empty());
  CHECK(at_once.is().at_calls == 1);
}

TEST_CASE("read_at is there where the source has it, and hands on all numbers") {
  const Made<Plain, read_at> a{{.first = 0, .records = 500}};
  const Made<Plain, read_at> b{{.first = 1000, .records = 500}};
  using Without = decltype(ps::concat(a, plain(0, 1)));
  static_assert(!ps::detail::ReadsAt<Without, ps::Pageable>);
  static_assert(!ps::detail::ReadsAt<decltype(ps::take(plain(0, 1), 1)), ps::Pageable>);
  auto source = ps::drop(ps::concat(a, b), 100);
  static_assert(ps::detail::ReadsAt<decltype(source), ps::Pinned>);
  source.open();
  // More numbers than are handed on at a time.
  const Numbers numbers = some_numbers(900, 1000);
  CHECK(ps::detail::abilities_of(source).read_at);
  Numbers wanted;
  for (const std::uint64_t number : numbers) {
    wanted.push_back(number < 400 ? 100 + number : 1000 + number - 400);
  }
  CHECK(numbers_at(source, numbers) == wanted);
  const auto beyond = caught<ps::SourceError>([&] { numbers_at(source, {1, 900, 2}); });
  CHECK(has(beyond, "drop: asked for record 900, but the source has 900"));
  CHECK(beyond.record() == 900);

  // Behind an AnySource it is there in any case, and reads runs if the source cannot.
  ps::AnySource any = plain(0, 50);
  any.open();
  CHECK(!any.abilities().read_at);
  CHECK(numbers_at(any, {3, 4, 9}) == Numbers{3, 4, 9});
}

TEST_CASE("of a source of unknown size take has as many, or fewer if that ends first") {
  for (const bool in_order : {false, true}) {
    for (const std::uint64_t has : {0, 50, 99, 100, 101, 1000}) {
      for (const std::size_t batch : {1, 32, 100, 1000}) {
        CAPTURE(in_order, has, batch);
        const Made<Plain> source{
            {.records = has, .known = false, .in_order = in_order, .note_reads = in_order}};
        auto some = ps::take(source, 100);
        const Numbers all = numbers_through(some, {.workers = 3, .batch = batch});
        REQUIRE(all == from_to(0, std::min<std::uint64_t>(has, 100)));
        for (const auto& [first, count] : source.is().reads) {
          REQUIRE(first + count <= 100);
        }
        some.open();
        REQUIRE(some.size() == ps::unknown_size);
        REQUIRE(some.random_access() == !in_order);
      }
    }
  }
}

TEST_CASE("take ends when it has what it takes, though the source waits for more") {
  const Watchdog watchdog{"take of a pipe"};
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  for (const std::size_t batch : {1, 10, 16, 30, 64}) {
    CAPTURE(batch);
    std::vector<std::uint32_t> numbers(30);
    std::uint32_t next = 0;
    std::generate(numbers.begin(), numbers.end(), [&next] { return next++; });
    REQUIRE(::write(ends[1], numbers.data(), 120) == 120);
    std::vector<std::uint32_t> got;
    auto pipeline = ps::Reader{ps::take(ps::AnySource{ps::fifo<std::uint32_t>(ends[0])}, 30),
                               {.batch = batch}} |
                    ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Pageable> some) {
                                   got.insert(got.end(), some.data(), some.data() + some.size());
                                 },
                                 {.workers = 1}};
    pipeline.run();
    CHECK(got == numbers);
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("take of records that come in order only reads them in order") {
  const Made<Plain> source{{.records = 500, .in_order = true, .note_reads = true}};
  CHECK(numbers_through(ps::take(source, 300), {.workers = 4, .batch = 64}) == from_to(0, 300));
  CHECK(source.is().reads == Reads{{0, 64}, {64, 64}, {128, 64}, {192, 64}, {256, 44}});
}

TEST_CASE("bytes are those of all records, back to back") {
  std::vector<std::byte> bytes(3 * 200);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  }
  const auto memory = ps::memory(bytes, {.record_bytes = 3});
  const Numbers numbers = some_numbers(200, 50);
  auto source = ps::concat(ps::take(memory, 20), ps::drop(memory, 200), ps::where(memory, numbers),
                           ps::AnySource{ps::drop(memory, 150)});
  source.open();
  CHECK(source.record_bytes() == 3);
  CHECK(ps::detail::abilities_of(source).read_bytes);
  std::vector<std::byte> wanted;
  for (const std::uint64_t record :
       one_after_the_other(from_to(0, 20), numbers, from_to(150, 200))) {
    wanted.insert(wanted.end(), &bytes[3 * record], &bytes[3 * record] + 3);
  }
  REQUIRE(source.size() == wanted.size() / 3);
  std::mt19937_64 random{5};
  for (int round = 0; round < 200; ++round) {
    const std::size_t at = random() % (wanted.size() + 1);
    std::vector<std::byte> got(random() % (wanted.size() - at + 1));
    source.read_bytes(at, got);
    REQUIRE(std::equal(got.begin(), got.end(), wanted.begin() + static_cast<std::ptrdiff_t>(at)));
  }
  std::vector<std::byte> wider(4);
  const auto beyond = caught<ps::SourceError>([&] { source.read_bytes(wanted.size() - 3, wider); });
  CHECK(has(beyond, "concat: asked for 4 bytes"));
}

TEST_CASE("large records go in pieces where each of the sources has their bytes") {
  constexpr std::size_t each = (std::size_t{3} << 20) / 2;
  std::vector<std::byte> bytes(each * 5);
  for (std::size_t i = 0; i < bytes.size(); i += 512) {
    bytes[i] = static_cast<std::byte>(i / 512 * 13);
  }
  struct Large {
    std::byte bytes[each];
  };
  const auto memory = ps::memory(bytes, {.record_bytes = each});
  const auto check = [&](const auto& source, const Numbers& records, bool in_pieces) {
    ps::HostDevice device;
    std::size_t next = 0;
    bool right = true;
    auto pipeline =
        ps::Reader{source, ps::to_pinned} | ps::AsyncCopier{device, {.batch = 1}} |
        ps::Consumer{[&](ps::Batch<const std::byte, ps::Device> batch, ps::HostStream& stream) {
          stream.enqueue([&, batch] {
            right = right && std::memcmp(batch.data(), &bytes[records[next] * each], each) == 0;
            ++next;
          });
        }};
    const ps::Report& report = pipeline.run();
    CHECK(next == records.size());
    CHECK(right);
    CHECK(report.stages[0].note.empty() == in_pieces);
  };
  const auto part = ps::concat(ps::drop(memory, 3), ps::where(memory, {4, 0}), ps::take(memory, 1));
  check(part, {3, 4, 4, 0, 0}, true);
  check(ps::AnySource{part}, {3, 4, 4, 0, 0}, true);

  // The same records, of a source that has no read_bytes().
  const auto slots = ps::generate<Large>(5, [&](std::span<Large> out, std::uint64_t first) {
    std::memcpy(out.data(), &bytes[first * each], out.size() * each);
  });
  ps::HostDevice device;
  std::size_t next = 0;
  auto pipeline =
      ps::Reader{ps::take(ps::AnySource{slots}, 4), ps::to_pinned} |
      ps::AsyncCopier{device, {.batch = 1}} |
      ps::Consumer{[&](ps::Batch<const Large, ps::Device> batch, ps::HostStream& stream) {
        stream.enqueue([&, batch] {
          next += std::memcmp(batch.data(), &bytes[next * each], each) == 0 ? 1 : 100;
        });
      }};
  CHECK(!pipeline.run().stages[0].note.empty());
  CHECK(next == 4);
}

TEST_CASE("a read allocates nothing, whatever it goes through") {
  const Made<Uneven, lengths | read_at> a{{.records = 300}};
  const Made<Uneven, lengths> b{{.records = 300}};
  auto source = ps::AnySource{ps::concat(ps::where(ps::AnySource{a}, some_numbers(300, 200)),
                                         ps::drop(ps::take(ps::AnySource{b}, 200), 50),
                                         ps::where(b, some_numbers(300, 40)))};
  source.open();
  const auto size = source.size();
  const Room<Uneven, ps::Pageable> room{size, 0};
  const Room<Uneven, ps::Pinned> pinned{size, 0};
  const Numbers numbers = some_numbers(size - 10, size - 10);
  Numbers lengths(2 * size);
  const Room<Uneven, ps::Pageable> numbered{numbers.size(), 0};
  const std::uint64_t before = memory::allocations;
  CHECK(source.read(room.batch()).count == size);
  CHECK(source.read(pinned.batch()).count == size);
  CHECK(source.read_at(numbers, numbered.batch()) == numbers.size());
  source.lengths(0, lengths);
  const std::uint64_t after = memory::allocations;
  CHECK(after == before);
  CHECK(before > 100); // they are counted
}

TEST_CASE("a source hears under its own numbers which records come soon") {
  Reads a;
  Reads b;
  auto source = ps::drop(ps::concat(Hearing{{.records = 20}, a}, plain(0, 5),
                                    ps::AnySource{ps::take(Hearing{{.records = 30}, b}, 25)}),
                         4);
  source.open();
  source.will_read(10, 20);
  CHECK(a == Reads{{14, 6}});
  CHECK(b == Reads{{0, 9}});
  static_assert(!ps::detail::HearsWhatComes<decltype(ps::concat(plain(0, 5), plain(0, 5)))>);
  ps::AnySource deaf = plain(0, 5);
  deaf.open();
  deaf.will_read(0, 5);
}

TEST_CASE("where hands on the runs of its list, and zip tells all its sources") {
  Reads a;
  auto chosen = ps::where(Hearing{{.records = 20}, a}, {4, 5, 6, 7, 2, 3, 9, 9});
  chosen.open();
  chosen.will_read(1, 6);
  CHECK(a == Reads{{5, 3}, {2, 2}, {9, 1}});
  Reads b;
  struct Both : ps::Columns<ps::Field<"left", Plain>, ps::Field<"right", Plain>> {};
  auto both = ps::zip<Both>(plain(0, 20), Hearing{{.records = 20}, b});
  both.open();
  both.will_read(3, 4);
  CHECK(b == Reads{{3, 4}});
}

TEST_CASE("sources over others tell how many bytes any of their records have at most") {
  // A record of it has as many bytes as its number says, from 1 on.
  struct Growing : Made<Uneven> {
    using Made::Made;
    std::uint64_t value_bytes(std::uint64_t count) const {
      const std::uint64_t some = std::min(count, size());
      return some * size() - some * (some - (some != 0 ? 1 : 0)) / 2;
    }
  };
  const auto growing = [](std::uint64_t records) { return Growing{{.records = records}}; };
  const auto bytes = [](auto source, std::uint64_t records) {
    ps::detail::open_source(source);
    return ps::detail::value_bytes_of(source, records);
  };
  CHECK(bytes(growing(10), 3) == 27);
  CHECK(bytes(ps::concat(growing(10), growing(4)), 0) == 0);
  CHECK(bytes(ps::concat(growing(10), growing(4)), 1) == 10);
  CHECK(bytes(ps::concat(growing(10), growing(4)), 2) == 20);
  CHECK(bytes(ps::concat(growing(10), growing(4)), 5) == 50);
  CHECK(bytes(ps::concat(growing(10), growing(4)), 100) == 65);
  CHECK(bytes(ps::concat(std::vector{growing(3)}), 2) == 5);
  CHECK(bytes(ps::mix<Uneven>({{growing(10), 1}, {growing(4), 3}}), 100) == 1000);
  CHECK(bytes(ps::where(growing(10), {1, 1, 1}), 3) == 30);
  CHECK(bytes(ps::where(growing(10), {3, 1, 2}), 3) == 30);
  CHECK(bytes(ps::where(growing(10), {1, 2, 9}), 3) == 27);
  // One that does not tell hides what the others do.
  const Made<Uneven> silent{{.records = 5}};
  for (const std::uint64_t records : {1U, 7U}) {
    CHECK(bytes(ps::concat(growing(10), silent), records) == ps::unknown_size);
    CHECK(bytes(ps::concat(silent, silent), records) == ps::unknown_size);
    CHECK(bytes(ps::mix<Uneven>({{silent, 1}, {growing(4), 3}}), records) == ps::unknown_size);
  }
}

TEST_CASE("sources that have other records, or in another order, have other identities") {
  const auto identity = [](auto source) {
    ps::detail::open_source(source);
    return ps::detail::identity_of(source);
  };
  const auto web = [] { return ps::drop(plain(0, 20), 10); };
  const auto books = [] { return ps::take(plain(0, 20), 10); };
  const auto mixed = [&](std::uint64_t weight) {
    return ps::mix<Plain>({{web(), weight}, {books(), 1}});
  };
  std::vector<std::uint64_t> all{identity(web()),
                                 identity(books()),
                                 identity(ps::drop(ps::drop(plain(0, 20), 5), 5)),
                                 identity(ps::where(plain(0, 20), {1, 2})),
                                 identity(ps::where(plain(0, 20), {2, 1})),
                                 identity(ps::where(web(), {1, 2})),
                                 identity(ps::concat(web(), books())),
                                 identity(ps::concat(books(), web())),
                                 identity(ps::concat(plain(0, 10), plain(0, 10))),
                                 identity(ps::concat(plain(0, 9), plain(0, 11))),
                                 identity(mixed(2)),
                                 identity(mixed(3)),
                                 identity(ps::mix<Plain>({{books(), 2}, {web(), 1}}))};
  CHECK(identity(ps::AnySource{web()}) == all[0]);
  CHECK(identity(ps::where(plain(0, 20), {1, 2})) == all[3]);
  CHECK(identity(mixed(2)) == all[10]);
  CHECK(identity(plain(0, 20)) == 0);
  const std::size_t count = all.size();
  std::sort(all.begin(), all.end());
  CHECK(static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin()) == count);
}

TEST_CASE("the Report's note has what each of the sources tells of its reads, once") {
  struct Telling : Made<Plain> {
    using Made<Plain>::Made;
    void note(std::string& to) const { ps::detail::add_note(to, "by post"); }
  };
  const auto telling = [] { return Telling{{.records = 20}}; };
  auto pipeline = ps::Reader{ps::concat(plain(0, 5), ps::AnySource{ps::drop(telling(), 4)},
                                        ps::where(telling(), {3, 4}))} |
                  ps::Consumer{[](ps::Batch<const Plain, ps::Pageable>) {}};
  pipeline.run();
  CHECK(pipeline.report().stages[0].note == "by post");
}

TEST_CASE("an error says which record it is here") {
  const auto bad = [](std::uint64_t record) {
    return Made<Plain, read_at>{{.records = 100, .bad = record, .offset = 12345}};
  };
  const auto check = [](const auto& source, std::uint64_t record, const std::string& text) {
    CAPTURE(record, text);
    const ps::StageError failed = error_of_run(source, 8);
    CHECK(failed.record() == record);
    CHECK(failed.file() == "the file");
    CHECK(failed.offset() == 12345);
    CHECK(has(failed, "Reader failed at record " + std::to_string(record) + ": " + text));
    auto opened = source;
    opened.open();
    const auto here = caught<ps::SourceError>([&] { numbers_at(opened, {0, record, record}); });
    CHECK(here.record() == record);
  };
  check(ps::take(bad(40), 80), 40, "made: record 40 is bad.");
  check(ps::drop(bad(40), 15), 25, "made: record 40 is bad. In drop() it is record 25.");
  check(ps::where(bad(40), {1, 2, 39, 40, 3, 40}), 3,
        "made: record 40 is bad. In where() it is record 3.");
  check(ps::concat(ps::take(bad(0), 0), bad(200), bad(7)), 107,
        "made: record 7 is bad. In concat() it is record 107.");
  check(ps::AnySource{ps::concat(ps::drop(bad(99), 50), bad(7))}, 49,
        "made: record 99 is bad. In drop() it is record 49.");
  check(ps::concat(bad(200), ps::drop(bad(99), 50)), 149,
        "made: record 99 is bad. In drop() it is record 49. In concat() it is record 149.");

  // An error about no record stays one.
  auto vague = ps::drop(Vague{}, 3);
  vague.open();
  CHECK(!caught<ps::SourceError>([&] { numbers_of(vague, 0, 1); }).record());
}

TEST_CASE("what is left out because it is bad is listed under its number here") {
  const Made<Plain> source{{.records = 100, .bad = 40}};
  auto pipeline = ps::Reader{ps::drop(source, 15), {.batch = 5, .on_error = {.skips = 1}}} |
                  ps::Consumer{[](ps::Batch<const Plain, ps::Pageable>) {}};
  const ps::Report& report = pipeline.run();
  CHECK(report.records == 80);
  REQUIRE(report.skips.size() == 1);
  CHECK(report.skips[0].record == 25);
}

TEST_CASE("a number beyond the source is refused when it is opened") {
  const auto take = unopened(ps::take(plain(0, 99), 100));
  CHECK(has(take, "take: the source has 99 records, fewer than the 100 that are to be taken: give "
                  "it more, or a smaller number."));
  CHECK(has(unopened(ps::drop(plain(0, 99), 100)),
            "drop: the source has 99 records, fewer than the 100 that are to be dropped"));
  const auto where = unopened(ps::where(plain(0, 99), {3, 98, 99, 1000}));
  CHECK(has(where, "where: number 2 of the list is record 99, but the source has 99: it must be "
                   "less than that."));
  CHECK(where.record() == 2);

  auto one = ps::drop(plain(0, 10), 4);
  one.open();
  const auto beyond = caught<ps::SourceError>([&] { numbers_of(one, 5, 2); });
  CHECK(has(beyond, "drop: asked for 2 records from record 5 on, but the source has 6"));
  auto list = ps::where(plain(0, 10), {1, 2});
  list.open();
  CHECK(
      has(caught<ps::SourceError>([&] { numbers_of(list, 1, 2); }), "where: asked for 2 records"));
  auto joined = ps::concat(plain(0, 10), plain(0, 1));
  joined.open();
  CHECK(has(caught<ps::SourceError>([&] { numbers_of(joined, 11, 1); }),
            "concat: asked for 1 records from record 11 on, but the source has 11"));
}

TEST_CASE("what must know all records refuses sources that do not, by name") {
  const Made<Plain> unknown{{.records = 9, .known = false}};
  const Made<Plain> in_order{{.records = 9, .in_order = true}};
  CHECK(has(forbidden(ps::drop(unknown, 1)),
            "drop: nobody knows how many records the source has before its end is reached, and "
            "drop() must know: only take() is for such a source."));
  CHECK(has(forbidden(ps::drop(in_order, 1)),
            "drop: the records of the source come in order only, from its first on, and drop() "
            "reads others first: only take() is for such a source."));
  CHECK(has(forbidden(ps::where(unknown, {1})), "where: nobody knows how many records the source"));
  CHECK(has(forbidden(ps::where(in_order, {1})), "where: the records of the source come in order"));
  CHECK(has(forbidden(ps::concat(plain(0, 1), unknown)),
            "concat: nobody knows how many records source number 1 has"));
  CHECK(has(forbidden(ps::concat(in_order, unknown)),
            "concat: the records of source number 0 come in order only"));
  CHECK(has(forbidden(ps::concat(std::vector<ps::AnySource<Plain>>{})),
            "concat: the list of sources is empty"));
}

TEST_CASE("concat refuses records of other lengths or extents, and more than can be counted") {
  const std::vector<std::byte> bytes(60);
  const auto other = unopened(
      ps::concat(ps::memory(bytes, {.record_bytes = 6}), ps::memory(bytes, {.record_bytes = 5})));
  CHECK(has(other, "concat: source number 1 has records of so many bytes: 5, but number 0 has 6"));
  struct OtherExtent : Made<Wide> {
    using Made::Made;
    Numbers extents() const { return {many, more + 1}; }
  };
  const auto extent = unopened(ps::concat(Made<Wide>{{.records = 1}}, OtherExtent{{.records = 1}}));
  CHECK(has(extent, "concat: source number 1 has for a ps::dynamic extent 6, but number 0 has 5"));
  constexpr std::uint64_t half = std::uint64_t{1} << 63;
  CHECK(has(unopened(ps::concat(plain(0, half), plain(0, half - 1))),
            "concat: with source number 1, which has 9223372036854775807 records, these are more "
            "than 64 bits can count"));
}

TEST_CASE("files are counted over all sources, and an error in one says which record it is") {
  const TempDir dir;
  const std::vector<std::uint32_t> numbers(10, 7);
  const auto bytes = std::as_bytes(std::span{numbers});
  std::vector<std::string> paths;
  for (int i = 0; i < 6; ++i) {
    paths.push_back(dir.write("file" + std::to_string(i), bytes));
  }
  const auto files = [&](std::size_t first, std::size_t count) {
    return ps::records<std::uint32_t>(
        std::vector<std::string>{paths.begin() + static_cast<std::ptrdiff_t>(first),
                                 paths.begin() + static_cast<std::ptrdiff_t>(first + count)});
  };
  std::vector<std::uint64_t> told;
  ps::PrepareOptions preparing{.progress =
                                   [&](const ps::Preparation& now) {
                                     CHECK(now.files <= now.files_in_all);
                                     told.push_back(now.files);
                                   },
                               .every = std::chrono::milliseconds{0}};
  auto source = ps::concat(ps::take(files(0, 3), 25), ps::AnySource{files(3, 2)}, files(5, 1));
  source.open(preparing);
  CHECK(source.size() == 25 + 20 + 10);
  CHECK(std::is_sorted(told.begin(), told.end()));
  REQUIRE(!told.empty());
  CHECK(told.back() == 6);

  const std::string cut = dir.write("cut", bytes.first(37));
  const auto failed =
      unopened(ps::concat(files(0, 2), ps::records<std::uint32_t>({paths[2], cut})));
  CHECK(failed.file() == cut);
  CHECK(failed.record() == 20 + 10 + 9);
}

TEST_CASE("zip takes sources over sources, and refuses one that gives for now when it is opened") {
  struct Pair : ps::Columns<ps::Field<"a", std::int32_t>, ps::Field<"b", std::int32_t>> {};
  const std::vector<std::int32_t> numbers{5, 6, 7, 8};
  const auto memory = ps::memory(numbers);
  auto source = ps::zip<Pair>(ps::take(memory, 3), ps::AnySource{ps::drop(memory, 1)});
  std::vector<std::int32_t> got;
  auto pipeline = ps::Reader{source} | ps::Consumer{[&](ps::Batch<const Pair, ps::Pageable> some) {
                    for (std::size_t i = 0; i < some.size(); ++i) {
                      got.push_back(ps::get<"a">(some)[i]);
                      got.push_back(ps::get<"b">(some)[i]);
                    }
                  }};
  pipeline.run();
  CHECK(got == std::vector<std::int32_t>{5, 6, 6, 7, 7, 8});

  const ps::AnySource live = ForNow{std::span{numbers}};
  CHECK(has(unopened(ps::zip<Pair>(memory, live)),
            "zip: source number 1 gives fewer records for now than it is asked for"));
}
