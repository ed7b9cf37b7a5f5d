// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Steps dealt out to ranks: each once, equally many, and the same from wherever ranks go on.

#include "support/catch.hpp"

#include <penstock/order/detail/dealing.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace {

namespace ps = penstock;
using ps::detail::Dealing;
using Steps = std::vector<std::uint64_t>;

constexpr ps::Uneven all_uneven[] = {ps::Uneven::drop, ps::Uneven::repeat, ps::Uneven::keep};

Dealing dealing(std::uint64_t begin, std::uint64_t end, std::uint64_t block, unsigned rank,
                unsigned world, ps::Uneven uneven) {
  return {begin, end, block, {.rank = rank, .world = world}, uneven};
}
Steps steps_of(const Dealing& dealt, std::uint64_t first = 0) {
  Steps steps;
  for (std::uint64_t i = first; i < dealt.count(); ++i) {
    steps.push_back(dealt.step(i));
  }
  return steps;
}

/// Calls f(begin, end, block, world) for many small dealings.
template <class F> void each_dealing(F f) {
  for (std::uint64_t end = 0; end <= 26; ++end) {
    for (const std::uint64_t begin : {std::uint64_t{0}, end / 3, end}) {
      for (const std::uint64_t block : {1, 2, 3, 5, 40}) {
        for (unsigned world = 1; world <= 5; ++world) {
          f(begin, end, block, world);
        }
      }
    }
  }
}

TEST_CASE("Kept, each step comes to one rank, and ranks have as many but for one") {
  each_dealing([](std::uint64_t begin, std::uint64_t end, std::uint64_t block, unsigned world) {
    std::multiset<std::uint64_t> all;
    std::set<std::uint64_t> counts;
    std::uint64_t most = 0;
    for (unsigned rank = 0; rank < world; ++rank) {
      const Dealing dealt = dealing(begin, end, block, rank, world, ps::Uneven::keep);
      for (const std::uint64_t step : steps_of(dealt)) {
        all.insert(step);
      }
      counts.insert(dealt.count());
      most = dealt.most();
    }
    CAPTURE(begin, end, block, world);
    std::multiset<std::uint64_t> wanted;
    for (std::uint64_t step = begin; step < end; ++step) {
      wanted.insert(step);
    }
    REQUIRE(all == wanted);
    REQUIRE(*counts.rbegin() - *counts.begin() <= 1);
    REQUIRE(most == *counts.rbegin());
  });
}

TEST_CASE("Dropped, less than one a rank is left out; repeated, none is, and all have as many") {
  each_dealing([](std::uint64_t begin, std::uint64_t end, std::uint64_t block, unsigned world) {
    for (const ps::Uneven uneven : {ps::Uneven::drop, ps::Uneven::repeat}) {
      std::map<std::uint64_t, int> times;
      std::set<std::uint64_t> counts;
      for (unsigned rank = 0; rank < world; ++rank) {
        const Dealing dealt = dealing(begin, end, block, rank, world, uneven);
        for (const std::uint64_t step : steps_of(dealt)) {
          ++times[step];
        }
        counts.insert(dealt.count());
        counts.insert(dealt.most());
      }
      CAPTURE(begin, end, block, world, static_cast<int>(uneven));
      REQUIRE(counts.size() == 1);
      const std::uint64_t in_all = *counts.begin() * world;
      if (uneven == ps::Uneven::drop) {
        REQUIRE(in_all == (end - begin) / world * world);
        REQUIRE(std::all_of(times.begin(), times.end(), [&](const auto& step) {
          return step.second == 1 && step.first >= begin && step.first < end;
        }));
      } else {
        REQUIRE(in_all == (end - begin + world - 1) / world * world);
        for (std::uint64_t step = begin; step < end; ++step) {
          REQUIRE(times[step] >= 1);
        }
        REQUIRE(std::all_of(times.begin(), times.end(),
                            [&](const auto& step) { return step.first < end; }));
      }
    }
  });
}

TEST_CASE("A rank takes blocks in turn") {
  CHECK(steps_of(dealing(0, 12, 2, 0, 2, ps::Uneven::drop)) == Steps{0, 1, 4, 5, 8, 9});
  CHECK(steps_of(dealing(0, 12, 2, 1, 2, ps::Uneven::drop)) == Steps{2, 3, 6, 7, 10, 11});
  CHECK(steps_of(dealing(0, 7, 2, 0, 2, ps::Uneven::keep)) == Steps{0, 1, 4, 6});
  CHECK(steps_of(dealing(0, 7, 2, 1, 2, ps::Uneven::keep)) == Steps{2, 3, 5});
  CHECK(steps_of(dealing(0, 7, 2, 1, 2, ps::Uneven::repeat)) == Steps{2, 3, 5, 0});
  CHECK(steps_of(dealing(5, 11, 1, 2, 3, ps::Uneven::drop)) == Steps{7, 10});
}

TEST_CASE("Ranks go on from a place with what each would have had") {
  each_dealing([](std::uint64_t begin, std::uint64_t end, std::uint64_t block, unsigned world) {
    for (const ps::Uneven uneven : all_uneven) {
      for (unsigned rank = 0; rank < world; ++rank) {
        const Dealing whole = dealing(begin, end, block, rank, world, uneven);
        for (std::uint64_t i = 0; i < whole.most(); ++i) {
          const Dealing::Dealt place = whole.place(i);
          const Dealing rest = dealing(place.step, end, block, rank, world, uneven);
          CAPTURE(begin, end, block, world, rank, i, static_cast<int>(uneven));
          REQUIRE(steps_of(rest, place.inside) == steps_of(whole, i));
          REQUIRE((block != 1 || place.inside == 0));
        }
      }
    }
  });
}

TEST_CASE("Ranks that go on inside a block may make something else of the uneven ones") {
  each_dealing([](std::uint64_t begin, std::uint64_t end, std::uint64_t block, unsigned world) {
    const std::uint64_t most = dealing(begin, end, block, 0, world, ps::Uneven::drop).most();
    for (std::uint64_t i = 0; i < most; ++i) {
      std::multiset<std::uint64_t> all;
      for (unsigned rank = 0; rank < world; ++rank) {
        const Dealing before = dealing(begin, end, block, rank, world, ps::Uneven::drop);
        for (std::uint64_t k = 0; k < i; ++k) {
          all.insert(before.step(k));
        }
        const Dealing::Dealt place = before.place(i);
        for (const std::uint64_t step : steps_of(
                 dealing(place.step, end, block, rank, world, ps::Uneven::keep), place.inside)) {
          all.insert(step);
        }
      }
      CAPTURE(begin, end, block, world, i);
      REQUIRE(all.size() == end - begin);
      REQUIRE(std::set<std::uint64_t>{all.begin(), all.end()}.size() == end - begin);
    }
  });
}

TEST_CASE("Between blocks another world goes on: each step once") {
  each_dealing([](std::uint64_t begin, std::uint64_t end, std::uint64_t block, unsigned world) {
    const std::uint64_t most = dealing(begin, end, block, 0, world, ps::Uneven::keep).most();
    for (std::uint64_t i = 0; i < most; ++i) {
      const auto place = dealing(begin, end, block, 0, world, ps::Uneven::keep).place(i);
      if (place.inside != 0) {
        continue;
      }
      std::multiset<std::uint64_t> all;
      for (unsigned rank = 0; rank < world; ++rank) {
        const Dealing before = dealing(begin, end, block, rank, world, ps::Uneven::keep);
        for (std::uint64_t k = 0; k < std::min(i, before.count()); ++k) {
          all.insert(before.step(k));
        }
      }
      for (unsigned rank = 0; rank < world + 2; ++rank) {
        for (const std::uint64_t step :
             steps_of(dealing(place.step, end, block, rank, world + 2, ps::Uneven::keep))) {
          all.insert(step);
        }
      }
      CAPTURE(begin, end, block, world, i);
      REQUIRE(all.size() == end - begin);
      REQUIRE(std::set<std::uint64_t>{all.begin(), all.end()}.size() == end - begin);
    }
  });
}

TEST_CASE("Epochs as long as numbers go are dealt out without a wrap") {
  constexpr std::uint64_t large = ~std::uint64_t{0};
  const Dealing alone = dealing(0, large, 1, 0, 1, ps::Uneven::drop);
  CHECK(alone.count() == large);
  CHECK(alone.step(large - 1) == large - 1);
  const Dealing last = dealing(0, large, large, 6, 7, ps::Uneven::drop);
  CHECK(last.count() == large / 7);
  CHECK(last.step(last.count() - 1) == large / 7 * 7 - 1);
}

} // namespace
