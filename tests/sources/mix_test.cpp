// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/made_source.hpp"

#include <penstock/detail/base/splitmix.hpp>
#include <penstock/order/permutation.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/any_source.hpp>
#include <penstock/sources/concat.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/slice.hpp>
#include <penstock/sources/where.hpp>
#include <penstock/sources/zip.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace ps::tests;

namespace {

static_assert(ps::Source<ps::Mix<Plain>> && ps::detail::is_a_mix<ps::Mix<Plain>>);
static_assert(!ps::detail::is_a_mix<ps::AnySource<Plain>>);

struct Part {
  std::uint64_t records;
  std::uint64_t weight;
};
using Parts = std::vector<Part>;

Made<Plain> of(std::uint64_t records) {
  return Made<Plain>{{.records = records}};
}

ps::Mix<Plain> mix_of(const Parts& parts) {
  std::vector<ps::Share<Plain>> shares;
  for (const Part& part : parts) {
    shares.push_back({of(part.records), part.weight});
  }
  auto mixed = ps::mix<Plain>(shares);
  mixed.open();
  return mixed;
}
std::uint64_t group_of(const Parts& parts) {
  std::uint64_t sum = 0;
  for (const Part& part : parts) {
    sum += part.weight;
  }
  return sum;
}
// Returns which part has a record of a mix, and its number there.
std::pair<std::size_t, std::uint64_t> place_of(const Parts& parts, std::uint64_t record) {
  std::size_t part = 0;
  while (record >= parts.at(part).records) {
    record -= parts[part++].records;
  }
  return {part, record};
}

const ps::Seed no_seed;
const std::vector<Parts> kinds{{{100, 7}, {50, 3}},
                               {{12, 3}},
                               {{5, 1}, {4, 1}},
                               {{1, 5}, {1000, 2}, {64, 8}, {7, 1}},
                               {{3, 1000}, {17, 70}}};
const std::vector<ps::Seed> seeds{no_seed, 0, 1337, ~0ULL};

} // namespace

TEST_CASE("a mix has all records of its parts, one part after the other") {
  const ps::AnySource a = Made<Uneven, lengths | read_at>{{.first = 100, .records = 70}};
  const auto b = Made<Uneven>{{.first = 5000, .records = 90}};
  check_reads(ps::mix<Uneven>({{a, 7}, {b, 3}, {ps::take(a, 5)}}),
              one_after_the_other(from_to(100, 170), from_to(5000, 5090), from_to(100, 105)));
  const auto c = Made<Wide>{{.first = 1, .records = 70}};
  check_reads(ps::mix<Wide>({{.source = c, .weight = 2}}), from_to(1, 71));
}

TEST_CASE("what comes of each part, and which record of it, is as a plain loop says") {
  for (const Parts& parts : kinds) {
    for (const ps::Seed seed : seeds) {
      const ps::Mix<Plain> mixed = mix_of(parts);
      const std::uint64_t group = group_of(parts);
      REQUIRE(mixed.group() == group);
      std::vector<std::uint64_t> taken(parts.size());
      for (std::uint64_t turn = 0; turn < 50; ++turn) {
        std::vector<std::uint64_t> wanted;
        std::uint64_t first = 0;
        for (std::size_t p = 0; p < parts.size(); ++p) {
          for (std::uint64_t i = 0; i < parts[p].weight; ++i) {
            const std::uint64_t k = taken[p]++;
            const std::uint64_t n = parts[p].records;
            const std::uint64_t its = ps::detail::splitmix(seed.value(), p + 1);
            wanted.push_back(first + (seed ? ps::Permutation{n, its, k / n}(k % n) : k % n));
          }
          first += parts[p].records;
        }
        std::vector<std::uint64_t> got;
        for (std::uint64_t i = 0; i < group; ++i) {
          got.push_back(mixed.record_of(turn * group + i, seed));
        }
        std::sort(wanted.begin(), wanted.end());
        std::sort(got.begin(), got.end());
        REQUIRE(got == wanted);
      }
    }
  }
}

TEST_CASE("each part gives each of its records once in each of its own epochs") {
  // The weights divide the numbers of records, so that epochs end with groups.
  const Parts parts{{12, 3}, {10, 2}, {7, 1}};
  const ps::Mix<Plain> mixed = mix_of(parts);
  std::map<std::size_t, std::vector<std::uint64_t>> given;
  for (std::uint64_t visit = 0; visit < 6 * 140; ++visit) {
    const auto [part, record] = place_of(parts, mixed.record_of(visit, 99));
    given[part].push_back(record);
  }
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::size_t n = parts[p].records;
    std::set<std::vector<std::uint64_t>> orders;
    REQUIRE(given[p].size() == 140 * parts[p].weight);
    for (std::size_t epoch = 0; epoch < given[p].size() / n; ++epoch) {
      const auto begin = given[p].begin() + static_cast<std::ptrdiff_t>(epoch * n);
      std::vector<std::uint64_t> records{begin, begin + static_cast<std::ptrdiff_t>(n)};
      orders.insert(records);
      std::sort(records.begin(), records.end());
      REQUIRE(records == from_to(0, n));
    }
    REQUIRE(orders.size() == given[p].size() / n); // no two epochs alike
  }
}

TEST_CASE("parts of one size do not have one order") {
  const Parts parts{{100, 1}, {100, 1}};
  const ps::Mix<Plain> mixed = mix_of(parts);
  std::vector<std::uint64_t> given[2];
  for (std::uint64_t visit = 0; visit < 200; ++visit) {
    const auto [part, record] = place_of(parts, mixed.record_of(visit, 4));
    given[part].push_back(record);
  }
  std::size_t same = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    same += given[0][i] == given[1][i] ? 1 : 0;
  }
  REQUIRE(same < 10);
}

TEST_CASE("groups are mixed up each in its own way, and all ways come equally often") {
  const Parts parts{{100, 7}, {50, 3}};
  for (const ps::Seed seed : {no_seed, ps::Seed{7}}) {
    const ps::Mix<Plain> mixed = mix_of(parts);
    std::map<std::string, int> ways;
    for (std::uint64_t turn = 0; turn < 12'000; ++turn) {
      std::string way;
      for (std::uint64_t i = 0; i < 10; ++i) {
        way += place_of(parts, mixed.record_of(10 * turn + i, seed)).first == 0 ? 'a' : 'b';
      }
      REQUIRE(std::count(way.begin(), way.end(), 'b') == 3);
      ++ways[way];
    }
    // Chi-square of 120 ways, of which a hundred are expected of each: 119, with a standard
    // deviation of 15.4.
    REQUIRE(ways.size() == 120);
    double square = 0;
    for (const auto& [way, times] : ways) {
      square += (times - 100.0) * (times - 100.0) / 100;
    }
    REQUIRE(square > 119 - 4 * 15.4);
    REQUIRE(square < 119 + 4 * 15.4);
  }
}

TEST_CASE("ranks that take visits in turn get the shares that chance allows") {
  for (const Parts& parts : kinds) {
    const ps::Mix<Plain> mixed = mix_of(parts);
    const auto group = static_cast<double>(group_of(parts));
    for (const ps::Seed seed : {no_seed, ps::Seed{7}}) {
      std::vector<std::size_t> part_of_visit;
      for (std::uint64_t visit = 0; visit < 40'000; ++visit) {
        part_of_visit.push_back(place_of(parts, mixed.record_of(visit, seed)).first);
      }
      for (std::size_t world = 1; world <= 8; ++world) {
        for (std::size_t rank = 0; rank < world; ++rank) {
          std::vector<double> got(parts.size());
          double visits = 0;
          for (std::size_t visit = rank; visit < part_of_visit.size(); visit += world) {
            ++got[part_of_visit[visit]];
            ++visits;
          }
          for (std::size_t p = 0; p < parts.size(); ++p) {
            CAPTURE(world, rank, p, got[p], visits);
            const double share = static_cast<double>(parts[p].weight) / group;
            const double deviation = std::sqrt(visits * share * (1 - share));
            // The last group may be cut.
            REQUIRE(std::abs(got[p] - visits * share) <= 5 * deviation + group * (1 - share));
          }
        }
      }
    }
  }
}

TEST_CASE("ranks that take groups in turn get the shares exactly") {
  const Parts parts{{100, 7}, {50, 3}, {9, 2}};
  const ps::Mix<Plain> mixed = mix_of(parts);
  for (std::uint64_t world = 1; world <= 8; ++world) {
    for (std::uint64_t rank = 0; rank < world; ++rank) {
      std::vector<std::uint64_t> got(parts.size());
      for (std::uint64_t turn = rank; turn < 100 * world; turn += world) {
        for (std::uint64_t i = 0; i < 12; ++i) {
          ++got[place_of(parts, mixed.record_of(12 * turn + i, 5)).first];
        }
      }
      REQUIRE(got == std::vector<std::uint64_t>{700, 300, 200});
    }
  }
}

TEST_CASE("which record comes is a function of visit and seed alone") {
  const Parts parts{{100, 7}, {50, 3}};
  const ps::Mix<Plain> mixed = mix_of(parts);
  std::vector<std::uint64_t> in_order;
  for (std::uint64_t visit = 0; visit < 1000; ++visit) {
    in_order.push_back(mixed.record_of(visit, 8));
  }
  const ps::Mix<Plain> other = mix_of(parts);
  std::mt19937_64 random{1};
  std::size_t same = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t visit = random() % 1000;
    REQUIRE(other.record_of(visit, 8) == in_order[visit]);
    same += other.record_of(visit, 9) == in_order[visit] ? 1 : 0;
  }
  REQUIRE(same < 300);
  // Far away it is as near, and the greatest weights are as good as others.
  const std::uint64_t far = std::uint64_t{1} << 60;
  REQUIRE(mixed.record_of(far, 8) < 150);
  const Parts great{{100, (std::uint64_t{1} << 32) - 1}, {50, 1}};
  const ps::Mix<Plain> greatest = mix_of(great);
  REQUIRE(greatest.group() == std::uint64_t{1} << 32);
  for (const std::uint64_t visit : {std::uint64_t{0}, far, ~std::uint64_t{0}}) {
    REQUIRE(greatest.record_of(visit, no_seed) < 150);
  }
}

TEST_CASE("a part that is a mix keeps the shares of its own parts") {
  const ps::Mix<Plain> inner = ps::mix<Plain>({{of(10), 2}, {of(30), 1}});
  auto outer = ps::mix<Plain>({{of(5), 1}, {inner, 3}});
  outer.open();
  REQUIRE(outer.size() == 45);
  REQUIRE(outer.group() == 4);
  const Parts all{{5, 1}, {10, 2}, {30, 1}};
  for (const ps::Seed seed : {no_seed, ps::Seed{3}}) {
    std::map<std::uint64_t, int> times;
    for (std::uint64_t turn = 0; turn < 30; ++turn) {
      std::vector<std::uint64_t> got(3);
      for (std::uint64_t i = 0; i < 4; ++i) {
        const std::uint64_t record = outer.record_of(4 * turn + i, seed);
        ++got[place_of(all, record).first];
        ++times[record];
      }
      REQUIRE(got == std::vector<std::uint64_t>{1, 2, 1});
    }
    REQUIRE(times.size() == 45);
    for (const auto& [record, count] : times) {
      CAPTURE(record);
      REQUIRE(count == (record < 15 ? 6 : 1));
    }
  }
}

TEST_CASE("behind an AnySource a mix is one, and only its parts can be cut and joined") {
  const ps::Mix<Plain> mixed = mix_of({{9, 2}, {9, 1}});
  ps::AnySource any = mixed;
  any.open();
  CHECK(any.abilities().says_order);
  CHECK(any.group() == 3);
  for (std::uint64_t visit = 0; visit < 100; ++visit) {
    REQUIRE(any.record_of(visit, 3) == mixed.record_of(visit, 3));
  }
  const auto forbidden = [](auto source) {
    return caught<ps::OptionError>([&] { source.open(); });
  };
  CHECK(has(forbidden(ps::take(any, 1)),
            "take: the source is a mix, which has an order of its own, and no first or last "
            "records: call take() of its parts, and mix what comes of that."));
  CHECK(has(forbidden(ps::drop(any, 1)), "drop: the source is a mix"));
  CHECK(has(forbidden(ps::where(any, {1})), "where: the source is a mix"));
  CHECK(has(forbidden(ps::concat(of(1), any)), "concat: source number 1 is a mix"));

  struct Pair : ps::Columns<ps::Field<"a", Plain>, ps::Field<"b", Plain>> {};
  CHECK(has(forbidden(ps::zip<Pair>(of(18), any)), "zip: source number 1 is a mix"));
}

TEST_CASE("weights and parts that cannot be are refused") {
  const auto forbidden = [](std::vector<ps::Share<Plain>> parts) {
    auto mixed = ps::mix<Plain>(std::move(parts));
    return caught<ps::OptionError>([&] { mixed.open(); });
  };
  const auto refused = [](std::vector<ps::Share<Plain>> parts) {
    auto mixed = ps::mix<Plain>(std::move(parts));
    return caught<ps::SourceError>([&] { mixed.open(); });
  };
  constexpr std::uint64_t most = std::uint64_t{1} << 32;
  CHECK(has(forbidden({{of(1), 1}, {of(1), 0}}),
            "mix: the weight of source number 1 is 0: it must be at least 1, and all together at "
            "most 4294967296: leave out what is not to come."));
  CHECK(has(forbidden({{of(1), most}, {of(1), 1}}), "the weight of source number 1 is 1:"));
  CHECK(has(forbidden({{of(1), 1}, {of(1), ~std::uint64_t{0}}}),
            "the weight of source number 1 is 18446744073709551615:"));
  CHECK(has(forbidden({}), "mix: the list of sources is empty: give it at least one."));
  const Made<Plain> unknown{{.records = 9, .known = false}};
  const Made<Plain> in_order{{.records = 9, .in_order = true}};
  CHECK(has(forbidden({{of(1), 1}, {in_order, 1}}),
            "mix: the records of source number 1 come in order only"));
  CHECK(has(forbidden({{unknown, 1}}), "mix: nobody knows how many records source number 0 has"));
  CHECK(has(refused({{of(1), 1}, {of(0), 1}}),
            "mix: source number 1 has 0 records, and a part of a mix has from 1 to "
            "9223372036854775808: leave it out, or give it others."));
  CHECK(has(refused({{of((std::uint64_t{1} << 63) + 1), 1}}), "has 9223372036854775809 records"));
}

namespace {

// An order of one's own that fails for its visit 300.
struct Fails {
  using schema = std::uint64_t;
  std::uint64_t size() const { return 1000; }
  std::uint64_t record_of(std::uint64_t visit, ps::Seed) const {
    if (visit == 300) {
      throw std::runtime_error{"no such visit"};
    }
    return visit;
  }
  std::uint64_t group() const { return 1; }
  template <class Where> std::uint64_t read(ps::Batch<schema, Where> into) const {
    std::iota(into.data(), into.data() + into.size(), into.index());
    return into.size();
  }
};

} // namespace

TEST_CASE("a record_of() that throws is an error of the Reader") {
  auto pipeline = ps::Reader{Fails{}, {.order = {.records = 1000}, .batch = 64}} |
                  ps::Consumer{[](ps::Batch<const std::uint64_t, ps::Pageable>) {}};
  CHECK(has(caught<ps::StageError>([&] { pipeline.run(); }), "no such visit"));
}
