// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/counted_new.hpp"
#include "support/spin_only.hpp"

#include <penstock/ring/ring.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace ps = penstock;
using ps::Empties;
using ps::Fill;
using ps::Flow;
using ps::Side;

namespace {

struct Slot {
  std::uint64_t value{};
};

struct NarrowLaps : ps::RingPolicy {
  static constexpr unsigned lap_bits = 2;
};
struct Spinning : ps::RingPolicy {
  using Parking = ps::tests::SpinOnly;
};
// Waiting for tests with more threads than cores.
struct Giving : ps::tests::SpinOnly {
  static void pause() noexcept { std::this_thread::yield(); }
};
struct Yielding : NarrowLaps {
  using Parking = Giving;
};
struct AsleepAtOnce : ps::SpinThenFutex {
  static constexpr int spins = 0;
};
struct Sleeping : NarrowLaps {
  using Parking = AsleepAtOnce;
};

using Ring = ps::Ring<Slot>;
using Claim = Ring::Claim;
using Take = Ring::Take;

template <class T>
constexpr bool move_only =
    std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
    !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(move_only<Claim> && move_only<Take>);
static_assert(std::is_nothrow_destructible_v<Claim> && std::is_nothrow_destructible_v<Take>);
static_assert(std::is_nothrow_default_constructible_v<Claim>);
static_assert(std::is_nothrow_default_constructible_v<Take>);
static_assert(!std::is_move_constructible_v<Ring> && !std::is_move_assignable_v<Ring>);
static_assert(!std::is_convertible_v<std::size_t, Ring>, "a number is not a ring");
static_assert(noexcept(std::declval<Claim&>().publish()) &&
              noexcept(std::declval<Take&>().release()));
static_assert(noexcept(std::declval<Take&>().extend(2)) &&
              noexcept(std::declval<Take&>().split(1)));
static_assert(noexcept(std::declval<Ring&>().end()) && noexcept(std::declval<Ring&>().end_at(0)));
static_assert(noexcept(std::declval<Ring&>().stop()) && noexcept(std::declval<Ring&>().fail()));
static_assert(noexcept(std::declval<Ring&>().reset()) && noexcept(std::declval<Ring&>().state()));
static_assert(alignof(Ring) == 128, "what the two sides write is kept apart");

template <class R> void put(R& ring, std::uint64_t value, Fill fill = Fill::full) {
  auto claim = ring.claim();
  REQUIRE(claim);
  claim.slot().value = value;
  claim.publish(fill);
}

std::string error_of(std::size_t slots) {
  try {
    const Ring ring{slots};
  } catch (const ps::OptionError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// The sides as a ring is told of them. As types too, since sections cannot stand in a loop.
struct Sides {
  Side claimers;
  Side takers;
};
template <Side Claimers, Side Takers> struct For {
  static constexpr Sides sides{Claimers, Takers};
};
using OneToOne = For<Side::one, Side::one>;
using OneToMany = For<Side::one, Side::many>;
using ManyToOne = For<Side::many, Side::one>;
using ManyToMany = For<Side::many, Side::many>;
constexpr Sides all_sides[] = {OneToOne::sides, OneToMany::sides, ManyToOne::sides,
                               ManyToMany::sides};

constexpr std::chrono::milliseconds moment{5};

} // namespace

TEST_CASE("a ring needs two slots, and says so") {
  for (const std::size_t slots : {0, 1}) {
    const std::string text = error_of(slots);
    CAPTURE(text);
    CHECK(text.find("penstock: a ring of " + std::to_string(slots) + " slots") == 0);
    CHECK(text.find("depth of at least 2") != std::string::npos);
  }
  CHECK(Ring{2}.slots() == 2);
}

TEMPLATE_TEST_CASE("slots pass through a ring of any depth in order, over many laps", "",
                   ps::RingPolicy, NarrowLaps, Spinning) {
  for (std::size_t slots = 2; slots <= 65; ++slots) {
    for (const auto [claimers, takers] : all_sides) {
      CAPTURE(slots, claimers, takers);
      ps::Ring<Slot, TestType> ring{slots, claimers, takers};
      std::uint64_t put_so_far = 0;
      std::uint64_t taken = 0;
      for (std::size_t lap = 0; lap < 11; ++lap) {
        // Each lap has another fill level, so that each place comes first in a run once.
        const std::size_t level = 1 + (lap * 7) % slots;
        for (std::size_t i = 0; i < level; ++i, ++put_so_far) {
          auto claim = ring.claim();
          REQUIRE(claim.ticket() == put_so_far);
          REQUIRE(claim.place() == put_so_far % slots);
          claim.slot().value = put_so_far;
          claim.publish();
          REQUIRE(!claim);
        }
        for (std::size_t i = 0; i < level; ++i, ++taken) {
          auto take = ring.take();
          REQUIRE(take.ticket() == taken);
          REQUIRE(take.place() == taken % slots);
          REQUIRE(take.size() == 1);
          REQUIRE(take.fill() == Fill::full);
          REQUIRE(take.slot().value == taken);
        }
      }
      REQUIRE(ring.was_claimed() == put_so_far);
      REQUIRE(ring.was_taken() == taken);
    }
  }
}

TEST_CASE("trying never blocks and loses no ticket") {
  for (const auto [claimers, takers] : all_sides) {
    CAPTURE(claimers, takers);
    Ring ring{3, claimers, takers};
    CHECK(!ring.try_take());
    CHECK(ring.was_taken() == 0);
    std::vector<Claim> claims;
    for (std::uint64_t t = 0; t < 3; ++t) {
      claims.push_back(ring.try_claim());
      REQUIRE(claims.back());
      CHECK(claims.back().ticket() == t);
    }
    CHECK(!ring.try_claim());
    CHECK(ring.was_claimed() == 3);
    // Published out of order: takers get nothing until the first is there.
    claims[2].publish();
    claims[1].publish();
    CHECK(!ring.try_take(3));
    claims[0].publish();
    Take take = ring.try_take(9);
    REQUIRE(take.size() == 3);
    CHECK(!ring.try_claim());
    take.release();
    CHECK(ring.try_claim().ticket() == 3);
  }
}

TEMPLATE_TEST_CASE("a run is of adjacent slots, full but the last, and does not wrap", "", OneToOne,
                   OneToMany, ManyToOne, ManyToMany) {
  Ring ring{4, TestType::sides.claimers, TestType::sides.takers};
  SECTION("as many as were asked for, as many as there are") {
    put(ring, 0);
    put(ring, 1);
    put(ring, 2);
    Take two = ring.try_take(2);
    REQUIRE(two.size() == 2);
    CHECK(two.slot(1).value == 1);
    CHECK(ring.try_take(4).size() == 1);
    CHECK(!ring.try_take(4));
  }
  SECTION("a wrap ends it") {
    for (std::uint64_t i = 0; i < 4; ++i) {
      put(ring, i);
    }
    ring.try_take(2).release();
    put(ring, 4);
    put(ring, 5);
    Take before = ring.try_take(4);
    REQUIRE(before.size() == 2);
    CHECK(before.place() == 2);
    CHECK(!before.extend(4));
    Take after = ring.try_take(4);
    REQUIRE(after.size() == 2);
    CHECK(after.ticket() == 4);
    CHECK(after.place() == 0);
  }
  SECTION("a partial slot ends it") {
    put(ring, 0);
    put(ring, 1, Fill::partial);
    put(ring, 2);
    Take take = ring.try_take(4);
    REQUIRE(take.size() == 2);
    CHECK(take.fill(0) == Fill::full);
    CHECK(take.fill(1) == Fill::partial);
    CHECK(!take.extend(4));
    CHECK(ring.try_take(4).ticket() == 2);
  }
  SECTION("an empty slot ends it, and is passed over by the next") {
    put(ring, 0);
    {
      const Claim dropped = ring.claim();
    }
    put(ring, 2);
    CHECK(ring.try_take(4).size() == 1);
    Take take = ring.try_take(4);
    REQUIRE(take.size() == 1);
    CHECK(take.ticket() == 2);
  }
  SECTION("it is extended by what has become ready") {
    put(ring, 0);
    Take take = ring.try_take(4);
    CHECK(!take.extend(4));
    put(ring, 1);
    put(ring, 2);
    CHECK(!take.extend(1));
    CHECK(take.extend(2));
    CHECK(take.size() == 2);
    CHECK(take.extend(4));
    REQUIRE(take.size() == 3);
    CHECK(take.slot(2).value == 2);
    take.release();
    CHECK(!take.extend(4));
  }
  SECTION("the end ends it, whatever was published after") {
    put(ring, 0);
    put(ring, 1);
    ring.end_at(1);
    CHECK(ring.try_take(4).size() == 1);
  }
  SECTION("a stop ends it") {
    put(ring, 0);
    put(ring, 1);
    Take take = ring.try_take(1);
    ring.stop();
    CHECK(!take.extend(4));
    CHECK(take.size() == 1);
  }
}

TEST_CASE("no lease is extended by a slot that another lease holds") {
  for (const auto [claimers, takers] : all_sides) {
    CAPTURE(claimers, takers);
    Ring ring{4, claimers, takers};
    for (std::uint64_t i = 0; i < 4; ++i) {
      put(ring, i);
    }
    Take first = ring.take();
    Take second = ring.take();
    CHECK(!first.extend(4));
    CHECK(second.extend(3));
    CHECK(second.size() == 3);
    Take front = second.split(1);
    CHECK(!front.extend(3));
    CHECK(ring.was_taken() == 4);
  }
}

TEMPLATE_TEST_CASE("a lease is split, moved, assigned and released in parts", "", OneToOne,
                   OneToMany, ManyToOne, ManyToMany) {
  Ring ring{4, TestType::sides.claimers, TestType::sides.takers};
  for (std::uint64_t i = 0; i < 4; ++i) {
    put(ring, i);
  }
  Take all = ring.try_take(4);
  Take front = all.split(1);
  REQUIRE(front.size() == 1);
  REQUIRE(all.size() == 3);
  CHECK(front.ticket() == 0);
  CHECK(all.ticket() == 1);
  CHECK(all.slot().value == 1);
  Take none = all.split(0);
  CHECK(!none);

  Take moved{std::move(front)};
  CHECK(!front); // NOLINT: the moved-from lease is the thing tested
  CHECK(moved.slot().value == 0);
  CHECK(!ring.try_claim());
  // Assigning to a lease gives back the slots that it held.
  moved = all.split(2);
  CHECK(moved.ticket() == 1);
  CHECK(ring.try_claim().ticket() == 4);
  CHECK(!ring.try_claim());
  moved.release();
  CHECK(ring.try_claim().ticket() == 5);
  CHECK(ring.try_claim().ticket() == 6);
  all = Take{};
  CHECK(ring.try_claim().ticket() == 7);
}

TEMPLATE_TEST_CASE("a claim is moved and assigned, and published once", "", OneToOne, OneToMany,
                   ManyToOne, ManyToMany) {
  Ring ring{3, TestType::sides.claimers, TestType::sides.takers};
  Claim first = ring.claim();
  first.slot().value = 7;
  Claim moved{std::move(first)};
  CHECK(!first); // NOLINT: the moved-from lease is the thing tested
  first.publish();
  CHECK(!ring.try_take());
  moved.publish();
  moved.publish(Fill::none);
  CHECK(ring.try_take().slot().value == 7);
  // Assigning to a claim publishes its own slot empty.
  Claim held = ring.claim();
  held = ring.claim();
  CHECK(held.ticket() == 2);
  Take empty = ring.try_take(1, Empties::give);
  REQUIRE(empty);
  CHECK(empty.ticket() == 1);
  CHECK(empty.fill() == Fill::none);
}

TEMPLATE_TEST_CASE("a dropped claim is an empty slot: passed over, or given to who asks", "",
                   OneToOne, OneToMany, ManyToOne, ManyToMany) {
  Ring ring{3, TestType::sides.claimers, TestType::sides.takers};
  {
    const Claim dropped = ring.claim();
  }
  {
    const Claim dropped = ring.claim();
  }
  put(ring, 2);
  SECTION("passed over") {
    Take take = ring.take();
    CHECK(take.ticket() == 2);
    CHECK(take.fill() == Fill::full);
    CHECK(ring.try_claim().ticket() == 3); // the slots before it are free again
  }
  SECTION("given") {
    Take first = ring.take(Empties::give);
    CHECK(first.ticket() == 0);
    CHECK(first.fill() == Fill::none);
    Take second = ring.try_take(3, Empties::give);
    CHECK(second.ticket() == 1);
    CHECK(second.size() == 1);
    CHECK(second.fill() == Fill::none);
    CHECK(ring.take(Empties::give).fill() == Fill::full);
  }
  SECTION("only empty ones before the end") {
    ring.take().release();
    {
      const Claim dropped = ring.claim();
    }
    ring.end();
    CHECK(!ring.take());
    CHECK(ring.exhausted());
  }
}

TEMPLATE_TEST_CASE("the end comes after what was claimed before it", "", OneToOne, OneToMany,
                   ManyToOne, ManyToMany) {
  Ring ring{3, TestType::sides.claimers, TestType::sides.takers};
  CHECK(ring.state() == Flow::open);
  SECTION("found when all is claimed") {
    put(ring, 0);
    put(ring, 1);
    ring.end();
    CHECK(ring.state() == Flow::ended);
    CHECK(ring.end_ticket() == 2);
    CHECK(!ring.claim());
    CHECK(!ring.try_claim());
    CHECK(!ring.exhausted());
    CHECK(ring.take().slot().value == 0);
    CHECK(ring.try_take(3).slot().value == 1);
    CHECK(ring.exhausted());
    CHECK(!ring.take());
    CHECK(!ring.try_take());
  }
  SECTION("known before the first claim") {
    ring.end_at(2);
    put(ring, 0);
    put(ring, 1);
    CHECK(!ring.claim());
    CHECK(!ring.try_claim());
    CHECK(ring.take());
    CHECK(ring.take());
    CHECK(!ring.take());
  }
  SECTION("at once") {
    ring.end();
    CHECK(!ring.claim());
    CHECK(!ring.take());
    CHECK(ring.exhausted());
  }
  SECTION("the first counts") {
    ring.end_at(1);
    ring.end_at(3);
    ring.end_at(0);
    CHECK(ring.end_ticket() == 1);
    put(ring, 0);
    CHECK(!ring.claim());
    CHECK(ring.take());
    CHECK(!ring.take());
  }
}

TEST_CASE("a stop or an error is seen on both sides, and leases stay good") {
  for (const auto [claimers, takers] : all_sides) {
    for (const auto& [flow, ended] : {std::pair{Flow::stopped, false},
                                      {Flow::stopped, true},
                                      {Flow::failed, false},
                                      {Flow::failed, true}}) {
      CAPTURE(claimers, takers, flow, ended);
      Ring ring{4, claimers, takers};
      const auto halt = [&](Flow how) { how == Flow::stopped ? ring.stop() : ring.fail(); };
      put(ring, 0);
      put(ring, 1);
      Claim claim = ring.claim();
      Take take = ring.take();
      if (ended) {
        ring.end();
      }
      halt(flow);
      CHECK(ring.state() == flow);
      CHECK(!ring.claim());
      CHECK(!ring.try_claim());
      CHECK(!ring.claim_at(3));
      CHECK(!ring.take());
      CHECK(!ring.try_take());
      CHECK(!ring.exhausted());
      // Neither a second stop nor a late end changes it.
      halt(flow == Flow::stopped ? Flow::failed : Flow::stopped);
      ring.end();
      CHECK(ring.state() == flow);
      CHECK(take.slot().value == 0);
      claim.slot().value = 2;
      claim.publish();
      take.release();
    }
  }
}

TEMPLATE_TEST_CASE("a ring that was reset is as new", "", OneToOne, OneToMany, ManyToOne,
                   ManyToMany) {
  for (const bool ended : {true, false}) {
    CAPTURE(ended);
    Ring ring{3, TestType::sides.claimers, TestType::sides.takers};
    for (std::uint64_t i = 0; i < 5; ++i) {
      put(ring, i);
      ring.take().release();
    }
    // Slots out of turn, with the first missing: none of this may be left.
    {
      Claim first = ring.claim();
      put(ring, 6, Fill::partial);
      first.publish(Fill::partial);
      Take held = ring.take();
      ring.take().release();
    }
    ended ? ring.end() : ring.fail();
    ring.reset();
    CHECK(ring.state() == Flow::open);
    CHECK(ring.was_claimed() == 0);
    CHECK(ring.was_taken() == 0);
    CHECK(!ring.try_take());
    for (std::uint64_t i = 0; i < 3; ++i) {
      put(ring, 10 + i);
    }
    CHECK(!ring.try_claim());
    Take take = ring.try_take(3);
    CHECK(take.ticket() == 0);
    CHECK(take.size() == 3);
    CHECK(take.slot().value == 10);
    ring.end();
    CHECK(ring.state() == Flow::ended);
  }
}

TEST_CASE("a ring that was reset has forgotten what came out of turn") {
  for (const auto [claimers, takers] : all_sides) {
    CAPTURE(claimers, takers);
    Ring ring{4, claimers, takers};
    ring.claim_at(0).publish();
    ring.claim_at(2).publish();
    ring.reset();
    Claim claims[] = {ring.claim(), ring.claim(), ring.claim(), ring.claim()};
    claims[3].publish();
    claims[0].publish();
    claims[1].publish();
    CHECK(ring.try_take(4).size() == 2);
  }
}

TEMPLATE_TEST_CASE("slot t of one ring goes into slot t of another", "", OneToOne, OneToMany,
                   ManyToOne, ManyToMany) {
  constexpr Sides sides = TestType::sides;
  Ring in{2, sides.claimers, sides.takers};
  ps::Ring<Slot, NarrowLaps> out{3, sides.claimers, sides.takers};
  for (std::uint64_t i = 0; i < 20; ++i) {
    put(in, i);
    Take take = in.take();
    auto claim = out.claim_at(take.ticket());
    REQUIRE(claim.ticket() == i);
    REQUIRE(claim.place() == i % 3);
    claim.slot().value = take.slot().value;
    claim.publish();
    REQUIRE(out.take().slot().value == i);
  }
  CHECK(out.was_claimed() == 20);
  out.end_at(20);
  CHECK(!out.claim_at(20));
}

TEMPLATE_TEST_CASE("is_free and is_filled say whether a wait for a ticket would block", "",
                   OneToMany, ManyToOne, ManyToMany) {
  Ring ring{2, TestType::sides.claimers, TestType::sides.takers};
  for (std::uint64_t ticket = 0; ticket != 6; ++ticket) {
    CHECK(ring.is_free(ticket));
    CHECK_FALSE(ring.is_filled(ticket));
    put(ring, ticket);
    CHECK_FALSE(ring.is_free(ticket + 2)); // the same place, a lap later
    REQUIRE(ring.is_filled(ticket));
    CHECK(ring.await_filled(ticket)->value == ticket);
    ring.take_at(ticket).release();
    CHECK(ring.is_free(ticket + 2));
  }
  ring.end_at(6);
  CHECK_FALSE(ring.is_free(6));
  CHECK_FALSE(ring.is_filled(6));
}

TEMPLATE_TEST_CASE("a slot shows what its last use has left before it is claimed again", "",
                   OneToOne, OneToMany, ManyToOne, ManyToMany) {
  Ring ring{2, TestType::sides.claimers, TestType::sides.takers};
  for (std::uint64_t ticket = 0; ticket != 6; ++ticket) {
    CHECK(ring.look_free(ticket) != nullptr);
    put(ring, ticket);
    CHECK(ring.look_free(ticket + 2) == nullptr);
    Take take = ring.take();
    take.slot().value += 100;
    CHECK(ring.look_free(ticket + 2) == nullptr);
    take.release();
    REQUIRE(ring.look_free(ticket + 2) != nullptr);
    CHECK(ring.look_free(ticket + 2)->value == ticket + 100);
  }
  ring.end();
  CHECK(ring.look_free(7) != nullptr); // whatever the state is
}

TEMPLATE_TEST_CASE("what is published out of turn is taken when its turn comes", "", OneToOne,
                   OneToMany, ManyToOne, ManyToMany) {
  Ring ring{5, TestType::sides.claimers, TestType::sides.takers};
  std::uint64_t taken = 0;
  for (std::size_t count = 2; count <= 5; ++count) {
    CAPTURE(count);
    std::vector<Claim> claims;
    for (std::size_t i = 0; i < count; ++i) {
      claims.push_back(ring.claim());
      claims.back().slot().value = claims.back().ticket();
    }
    // All but the first slot, from the last on.
    for (std::size_t i = count - 1; i > 0; --i) {
      claims[i].publish();
      CHECK(!ring.try_take());
    }
    claims[0].publish();
    for (std::size_t i = 0; i < count; ++i, ++taken) {
      Take take = ring.try_take();
      REQUIRE(take.ticket() == taken);
      CHECK(take.slot().value == taken);
    }
    CHECK(!ring.try_take());
  }
  SECTION("up to the next that is missing") {
    Claim claims[] = {ring.claim(), ring.claim(), ring.claim(), ring.claim()};
    claims[1].publish();
    claims[3].publish();
    claims[0].publish();
    ring.take().release();
    ring.take().release();
    CHECK(!ring.try_take());
    claims[2].publish();
    ring.take().release();
    CHECK(ring.take().ticket() == taken + 3);
  }
}

TEMPLATE_TEST_CASE("what is released out of turn is claimed when its turn comes", "", OneToOne,
                   OneToMany, ManyToOne, ManyToMany) {
  Ring ring{5, TestType::sides.claimers, TestType::sides.takers};
  for (std::uint64_t begin = 0; begin < 35; begin += 5) {
    CAPTURE(begin);
    std::vector<Take> takes;
    for (std::uint64_t i = 0; i < 5; ++i) {
      put(ring, begin + i);
      takes.push_back(ring.take());
    }
    takes[4].release();
    takes[1].release();
    CHECK(!ring.try_claim());
    takes[0].release();
    // Two slots are free: the ring comes round, to where the next lap begins.
    put(ring, begin + 5);
    put(ring, begin + 6);
    CHECK(!ring.try_claim());
    takes[2].release();
    takes[3].release();
    put(ring, begin + 7);
    put(ring, begin + 8);
    put(ring, begin + 9);
    CHECK(!ring.try_claim());
    begin += 5;
    for (std::uint64_t i = 0; i < 5; ++i) {
      Take take = ring.take();
      REQUIRE(take.ticket() == begin + i);
      REQUIRE(take.slot().value == begin + i);
    }
  }
}

TEMPLATE_TEST_CASE("bells ring when slots change hands and when the ring's state does", "",
                   OneToOne, OneToMany, ManyToOne, ManyToMany) {
  Ring ring{2, TestType::sides.claimers, TestType::sides.takers};
  Ring::Doorbell published;
  Ring::Doorbell released;
  ring.on_publish(&published);
  ring.on_release(&released);
  std::uint32_t publishes = published.count();
  std::uint32_t releases = released.count();
  const auto rung = [](const Ring::Doorbell& bell, std::uint32_t& before) {
    const std::uint32_t now = bell.count();
    return std::exchange(before, now) != now;
  };
  Claim claim = ring.claim();
  CHECK(!rung(published, publishes));
  claim.publish();
  CHECK(rung(published, publishes));
  Take take = ring.take();
  CHECK(!rung(released, releases));
  take.release();
  CHECK(rung(released, releases));
  CHECK(!rung(published, publishes));
  SECTION("end") {
    ring.end();
    CHECK(rung(published, publishes));
    CHECK(rung(released, releases));
    ring.end();
    CHECK(!rung(published, publishes));
  }
  SECTION("stop") {
    ring.stop();
    CHECK(rung(published, publishes));
    CHECK(rung(released, releases));
    ring.fail();
    CHECK(!rung(released, releases));
  }
  SECTION("error") {
    ring.fail();
    CHECK(rung(published, publishes));
    CHECK(rung(released, releases));
  }
}

TEMPLATE_TEST_CASE("who waits for a slot is woken by the end, a stop or an error", "",
                   ps::RingPolicy, Sleeping, Spinning) {
  for (const Flow flow : {Flow::ended, Flow::stopped, Flow::failed}) {
    for (const auto& [full, side] : {std::pair{true, Side::one},
                                     {true, Side::many},
                                     {false, Side::one},
                                     {false, Side::many}}) {
      CAPTURE(flow, full, side);
      // The other side is one thread, so the slots waited for are counted.
      ps::Ring<Slot, TestType> ring{2, full ? side : Side::one, full ? Side::one : side};
      const int waiters = side == Side::one ? 1 : 3;
      if (full) {
        put(ring, 0);
        put(ring, 1);
      }
      bool got[3] = {true, true, true};
      Flow seen[3] = {};
      std::vector<std::thread> waiting;
      for (int i = 0; i < waiters; ++i) {
        waiting.emplace_back([&, i, claims = full] {
          got[i] = claims ? bool{ring.claim()} : bool{ring.take()};
          seen[i] = ring.state();
        });
      }
      std::this_thread::sleep_for(moment);
      if (flow == Flow::ended) {
        ring.end_at(full ? 2 : 0);
      } else if (flow == Flow::stopped) {
        ring.stop();
      } else {
        ring.fail();
      }
      for (std::thread& thread : waiting) {
        thread.join();
      }
      for (int i = 0; i < waiters; ++i) {
        CHECK(!got[i]);
        CHECK(seen[i] == flow);
      }
    }
  }
}

namespace {

/// What threads of a stress run do besides passing slots: seldom, so that rings are both full and
/// empty.
struct Habits {
  std::minstd_rand random;

  explicit Habits(unsigned seed) : random{seed} {}
  bool seldom() { return random() % 64 == 0; }
  void dawdle() {
    if (seldom()) {
      std::this_thread::yield();
    }
    if (random() % 1024 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  }
};

/// A claimer drops every 13th ticket and fills every 17th in part.
Fill fill_of(std::uint64_t ticket) {
  return ticket % 13 == 5 ? Fill::none : ticket % 17 == 3 ? Fill::partial : Fill::full;
}

struct Load {
  int claimers;
  int takers;
  std::size_t slots;
  std::uint64_t tickets;
  Sides alone;     // what a ring is told of a side with one thread
  bool end_early;  // told before the first claim; else a worker finds it
  std::size_t run; // 0: take(); else try_take(run)
};

/// Passes all tickets through the ring, and returns those that each taker got, in its order.
template <class Policy> std::vector<std::vector<std::uint64_t>> pass(const Load& load) {
  ps::Ring<Slot, Policy> ring{load.slots, load.claimers == 1 ? load.alone.claimers : Side::many,
                              load.takers == 1 ? load.alone.takers : Side::many};
  std::vector<std::vector<std::uint64_t>> got(load.takers);
  std::vector<std::thread> threads;
  if (load.end_early) {
    ring.end_at(load.tickets);
  }
  for (int c = 0; c < load.claimers; ++c) {
    threads.emplace_back([&, habits = Habits(c + 1)]() mutable {
      for (;;) {
        auto claim = habits.seldom() ? ring.try_claim() : ring.claim();
        if (!claim) {
          claim = ring.claim(); // the try may have failed only because the ring is full
        }
        if (!claim) {
          return;
        }
        habits.dawdle();
        if (claim.ticket() >= load.tickets) {
          ring.end_at(load.tickets);
          return;
        }
        claim.slot().value = claim.ticket();
        if (const Fill fill = fill_of(claim.ticket()); fill != Fill::none) {
          claim.publish(fill);
        }
      }
    });
  }
  for (int t = 0; t < load.takers; ++t) {
    got[t].reserve(load.tickets);
    threads.emplace_back([&, t, habits = Habits(100 + t)]() mutable {
      const auto note = [&](auto take) {
        habits.dawdle();
        for (std::size_t i = 0; i < take.size(); ++i) {
          const bool good = take.slot(i).value == take.ticket() + i &&
                            take.place() + i == (take.ticket() + i) % load.slots &&
                            take.fill(i) == fill_of(take.ticket() + i) &&
                            (i + 1 == take.size() || take.fill(i) == Fill::full);
          got[t].push_back(good ? take.slot(i).value : std::numeric_limits<std::uint64_t>::max());
        }
      };
      if (load.run == 0) {
        while (auto take = ring.take()) {
          note(std::move(take));
        }
      }
      while (load.run != 0 && !ring.exhausted()) {
        if (auto take = ring.try_take(load.run)) {
          note(std::move(take));
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return got;
}

template <class Policy> void check_pass(const Load& load) {
  CAPTURE(load.claimers, load.takers, load.slots, load.alone.claimers, load.alone.takers,
          load.end_early, load.run);
  std::vector<std::uint64_t> expected;
  for (std::uint64_t t = 0; t < load.tickets; ++t) {
    if (fill_of(t) != Fill::none) {
      expected.push_back(t);
    }
  }
  const auto got = pass<Policy>(load);
  std::vector<std::uint64_t> all;
  for (const auto& one : got) {
    CHECK(std::is_sorted(one.begin(), one.end()));
    all.insert(all.end(), one.begin(), one.end());
  }
  std::sort(all.begin(), all.end());
  CHECK(all == expected);
}

} // namespace

TEMPLATE_TEST_CASE("every value arrives once and in order, whatever the number of threads", "",
                   ps::RingPolicy, Sleeping, Yielding) {
  struct Threads {
    int claimers;
    int takers;
  };
  // Narrow laps tell four laps apart: with two slots, that allows no more threads a side than
  // these.
  for (const Threads threads : {Threads{1, 1}, {3, 1}, {1, 3}, {3, 2}}) {
    for (const std::size_t slots : {2, 3, 7, 64}) {
      for (const Sides alone : all_sides) {
        for (const bool end_early : {false, true}) {
          check_pass<TestType>({threads.claimers, threads.takers, slots, 500, alone, end_early, 0});
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("every value arrives once and in order in runs", "", ps::RingPolicy, Sleeping) {
  for (const auto& [claimers, takers] : {std::pair{1, 1}, {1, 2}, {2, 1}, {2, 2}}) {
    for (const std::size_t slots : {2, 7, 64}) {
      for (const std::size_t run : {1, 3, 64}) {
        check_pass<TestType>({claimers, takers, slots, 1000, OneToOne::sides, false, run});
      }
    }
  }
}

namespace {

/// Holds up to `most` leases, and gives back one at a time, any of them.
template <class Lease> class Hands {
 public:
  Hands(unsigned seed, std::size_t most) : random_{seed}, most_{most} {}
  bool full() const { return held_.size() == most_; }
  bool empty() const { return held_.empty(); }
  void hold(Lease lease) { held_.push_back(std::move(lease)); }
  template <class F> void let_go(F f) {
    std::swap(held_[random_() % held_.size()], held_.back());
    f(held_.back());
    held_.pop_back();
  }

 private:
  std::minstd_rand random_;
  std::size_t most_;
  std::vector<Lease> held_;
};

} // namespace

TEMPLATE_TEST_CASE("leases may go back in any order while the other side works", "", ps::RingPolicy,
                   Sleeping, Yielding) {
  constexpr std::uint64_t tickets = 3000;
  for (const Sides sides : all_sides) {
    for (const std::size_t slots : {2, 5, 64}) {
      CAPTURE(sides.claimers, sides.takers, slots);
      using R = ps::Ring<Slot, TestType>;
      R ring{slots, sides.claimers, sides.takers};
      // Together fewer than the ring's slots: otherwise each side could wait for slots that the
      // other holds.
      const std::size_t most = slots == 2 ? 1 : slots / 2;
      std::thread claimer{[&] {
        Hands<typename R::Claim> hands{1, most};
        Habits habits{2};
        for (std::uint64_t t = 0; t < tickets || !hands.empty();) {
          if (t < tickets && !hands.full()) {
            // A thread that holds slots must not wait for threads that wait for those.
            if (auto claim = hands.empty() ? ring.claim() : ring.try_claim()) {
              hands.hold(std::move(claim));
              ++t;
              continue;
            }
          }
          habits.dawdle();
          hands.let_go([](auto& claim) {
            claim.slot().value = claim.ticket();
            claim.publish();
          });
        }
        ring.end();
      }};
      std::uint64_t wrong = 0;
      std::uint64_t taken = 0;
      Hands<typename R::Take> hands{3, most};
      Habits habits{4};
      for (;;) {
        auto take = hands.empty()  ? ring.take()
                    : hands.full() ? typename R::Take{}
                                   : ring.try_take();
        if (take) {
          wrong += take.ticket() != taken || take.slot().value != taken ? 1 : 0;
          ++taken;
          hands.hold(std::move(take));
        } else if (hands.empty()) {
          break;
        } else {
          habits.dawdle();
          hands.let_go([](auto& lease) { lease.release(); });
        }
      }
      claimer.join();
      CHECK(wrong == 0);
      CHECK(taken == tickets);
    }
  }
}

TEMPLATE_TEST_CASE("who naps is found by what comes long after", "", OneToOne, OneToMany, ManyToOne,
                   ManyToMany) {
  using R = ps::Ring<Slot, Sleeping>;
  R ring{2, TestType::sides.claimers, TestType::sides.takers};
  std::uint64_t taken = 0;
  std::thread taker{[&] {
    while (auto take = ring.take()) {
      taken += take.slot().value == taken ? 1 : 0;
      if (taken % 8 == 0) {
        std::this_thread::sleep_for(moment); // the claimer fills the ring and naps meanwhile
      }
    }
  }};
  for (std::uint64_t i = 0; i < 32; ++i) {
    if (i % 8 == 4) {
      std::this_thread::sleep_for(moment);
    }
    put(ring, i);
  }
  ring.end();
  taker.join();
  CHECK(taken == 32);
}

TEMPLATE_TEST_CASE("nothing is allocated once a ring is made", "", OneToOne, OneToMany, ManyToOne,
                   ManyToMany) {
  Ring ring{7, TestType::sides.claimers, TestType::sides.takers};
  Ring::Doorbell bell;
  ring.on_publish(&bell);
  std::uint64_t taken = 0;
  std::uint64_t allocated = 0;
  {
    std::thread taker{[&] {
      while (auto take = ring.take()) {
        taken += take.size();
      }
    }};
    const std::uint64_t before = penstock::tests::memory::allocations;
    for (std::uint64_t i = 0; i < 10'000; ++i) {
      Claim claim = ring.claim();
      claim.slot().value = i;
      claim.publish();
      if (i % 100 == 0) {
        std::this_thread::yield();
      }
    }
    ring.end();
    taker.join();
    allocated = penstock::tests::memory::allocations - before;
  }
  CHECK(taken == 10'000);
  CHECK(allocated == 0);
}
