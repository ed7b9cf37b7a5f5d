// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves the ring's hand-over: each slot goes from one claimer to one taker and back, with all that
// was written to it, in order, and nobody sleeps for ever. Run without arguments, or with parts of
// models' names.

#include "scenario.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace penstock::model {
namespace {

struct Payload {
  rl::var<int> value{0};
};

using Asleep = RelacyParking<0>; // woken by nothing but a wake-up
using Napping = RelacyParking<0, Naps::end>;
using NapLater = RelacyParking<1, Naps::end>;
template <class Waiting = Napping, class Orders = RelacyAtomics>
using ModelRing = Ring<Payload, ModelPolicy<Waiting, Orders>>;
using Sequential = RelacySequential;

void write(Payload& slot, int value) {
  slot.value(at()) = value;
}
int read(Payload& slot) {
  return slot.value(at());
}

template <class R> void put(R& ring, int value, Fill fill = Fill::full) {
  auto claim = ring.claim();
  RL_ASSERT(claim);
  write(claim.slot(), value);
  claim.publish(fill);
}

// Slots carry their tickets' numbers, unless a scenario says otherwise.
template <class Claim> void put_ticket(Claim claim) {
  write(claim.slot(), static_cast<int>(claim.ticket()));
  claim.publish();
}

// Counts what was taken. Scenarios' plain members are outside the model: its threads are fibers.
struct Taken {
  int times[8] = {};

  template <class Take> void note(Take take) {
    for (std::size_t i = 0; i < take.size(); ++i) {
      RL_ASSERT(read(take.slot(i)) == static_cast<int>(take.ticket() + i));
      ++times[take.ticket() + i];
    }
  }
  void require_first(int count) const {
    for (int i = 0; i < 8; ++i) {
      RL_ASSERT(times[i] == (i < count));
    }
  }
};

// If the end is known from the start, nothing wakes a taker after the last slot.
template <class Waiting, int Items, class Orders = RelacyAtomics, bool Known = false>
struct OneToOne : Scenario {
  ModelRing<Waiting, Orders> ring{2, Side::one, Side::one};

  OneToOne() {
    if (Known) {
      ring.end_at(Items);
    }
  }

  void thread(unsigned id) override {
    if (id == 0) {
      for (int i = 0; i < Items; ++i) {
        put(ring, i);
      }
      if (!Known) {
        ring.end();
      }
    } else {
      int next = 0;
      while (auto take = ring.take()) {
        RL_ASSERT(read(take.slot()) == next++);
      }
      RL_ASSERT(next == Items && ring.state() == Flow::ended && ring.exhausted());
    }
  }
};

// The end is known before the first claim.
template <class Waiting, class Orders = RelacyAtomics> struct ManyToOne : Scenario {
  ModelRing<Waiting, Orders> ring{2, Side::many, Side::one};

  ManyToOne() { ring.end_at(3); }
  void thread(unsigned id) override {
    if (id < 2) {
      while (auto claim = ring.claim()) {
        put_ticket(std::move(claim));
      }
    } else {
      int next = 0;
      while (auto take = ring.take()) {
        RL_ASSERT(read(take.slot()) == next++);
      }
      RL_ASSERT(next == 3);
    }
    RL_ASSERT(ring.state() == Flow::ended);
  }
};

// The end is found when there are no more slots, while takers may sleep.
template <class Waiting, class Orders = RelacyAtomics> struct OneToMany : Scenario {
  ModelRing<Waiting, Orders> ring{2, Side::one, Side::many};
  Taken taken;

  void thread(unsigned id) override {
    if (id == 0) {
      for (int i = 0; i < 3; ++i) {
        put(ring, i);
      }
      ring.end();
    } else {
      while (auto take = ring.take()) {
        taken.note(std::move(take));
      }
      RL_ASSERT(ring.state() == Flow::ended);
    }
  }
  void after() override { taken.require_first(3); }
};

// Both workers find the end, in any order: the first end counts, and dropped slots are passed over.
struct ManyToMany : Scenario {
  ModelRing<> ring{2};
  Taken taken;

  void thread(unsigned id) override {
    if (id < 2) {
      while (auto claim = ring.claim()) {
        if (claim.ticket() >= 2) {
          ring.end_at(claim.ticket());
          return;
        }
        put_ticket(std::move(claim));
      }
    } else {
      while (auto take = ring.take()) {
        taken.note(std::move(take));
      }
      RL_ASSERT(ring.state() == Flow::ended);
    }
  }
  void after() override { taken.require_first(2); }
};

// Each thread fills a slot and then takes one, so that a slot's writer becomes its reader.
struct RoleSwap : Scenario {
  ModelRing<> ring{2};
  Taken taken;

  void thread(unsigned) override {
    for (int i = 0; i < 2; ++i) {
      put_ticket(ring.claim());
      taken.note(ring.take());
    }
  }
  void after() override { taken.require_first(4); }
};

// Two threads try to claim, one takes.
struct TryClaims : Scenario {
  ModelRing<> ring{2, Side::many, Side::one};
  Taken taken;

  TryClaims() { ring.end_at(3); }
  void thread(unsigned id) override {
    if (id < 2) {
      while (ring.was_claimed() < 3) {
        if (auto claim = ring.try_claim()) {
          put_ticket(std::move(claim));
        } else {
          rl::yield(1, at());
        }
      }
    } else {
      while (auto take = ring.take()) {
        taken.note(std::move(take));
      }
    }
  }
  void after() override { taken.require_first(3); }
};

// Two threads try to take, runs of two slots at a time, and one of them extends what it holds.
template <Side Takers> struct TryTakes : Scenario {
  ModelRing<> ring{2, Side::one, Takers};
  Taken taken;

  void thread(unsigned id) override {
    if (id == 0) {
      for (int i = 0; i < 3; ++i) {
        put(ring, i);
      }
      ring.end();
    } else {
      while (!ring.exhausted()) {
        auto take = ring.try_take(id);
        take.extend(2);
        taken.note(std::move(take));
        rl::yield(1, at());
      }
    }
  }
  void after() override { taken.require_first(3); }
};

// Three slots are published in one turn, the last first: a taker that sees the first sees all.
template <Side Takers, class Waiting = Napping, class Orders = RelacyAtomics>
struct Bunch : Scenario {
  ModelRing<Waiting, Orders> ring{3, Side::one, Takers};
  Taken taken;

  Bunch() { ring.end_at(3); } // so that nothing else wakes a sleeper
  void thread(unsigned id) override {
    if (id == 0) {
      auto first = ring.claim();
      auto second = ring.claim();
      put_ticket(ring.claim());
      put_ticket(std::move(second));
      put_ticket(std::move(first));
    } else {
      while (auto take = ring.take()) {
        RL_ASSERT(Takers == Side::many || take.ticket() != 0 || take.size() == 3 || take.extend(3));
        taken.note(std::move(take));
      }
    }
  }
  void after() override { taken.require_first(3); }
};

// One thread holds two leases: extending the first must not run into the second.
template <Side Claimers> struct TwoLeases : Scenario {
  ModelRing<> ring{2, Claimers, Side::one};
  Taken taken;

  void thread(unsigned id) override {
    if (id == 0) {
      for (int i = 0; i < 4; ++i) {
        put(ring, i);
      }
    } else {
      for (int i = 0; i < 2; ++i) {
        auto first = ring.take();
        auto second = ring.take();
        RL_ASSERT(!first.extend(2));
        taken.note(std::move(second));
        taken.note(std::move(first));
      }
    }
  }
  void after() override { taken.require_first(4); }
};

// Leases go back out of turn in one lap, and in another wrong order in the next.
struct OutOfTurn : Scenario {
  ModelRing<> ring{3, Side::one, Side::one};
  Taken taken;

  void thread(unsigned id) override {
    if (id == 0) {
      for (int i = 0; i < 8; ++i) {
        put(ring, i);
      }
    } else {
      for (const bool middle_first : {true, false}) {
        auto first = ring.take();
        auto second = ring.take();
        auto third = ring.take();
        taken.note(std::move(middle_first ? second : third));
        taken.note(std::move(first));
        taken.note(std::move(middle_first ? third : second));
      }
      taken.note(ring.take());
      taken.note(ring.take());
    }
  }
  void after() override { taken.require_first(8); }
};

enum class Change { end, stop, fail };

template <class R> void change_to(R& ring, Change change, std::uint64_t end) {
  if (change == Change::end) {
    ring.end_at(end);
  } else if (change == Change::stop) {
    ring.stop();
  } else {
    ring.fail();
  }
}
template <class R> void require(const R& ring, Change change) {
  RL_ASSERT(ring.state() == (change == Change::end    ? Flow::ended
                             : change == Change::stop ? Flow::stopped
                                                      : Flow::failed));
}

// Claimers that sleep on a full ring see the change, and can still publish what they hold.
template <Change How, int Claimers, Side Takers = Side::many> struct FullRing : Scenario {
  ModelRing<Asleep> ring{2, Claimers == 1 ? Side::one : Side::many, Takers};

  FullRing() { put_ticket(ring.claim()); }
  void thread(unsigned id) override {
    if (id == Claimers) {
      change_to(ring, How, 2);
    } else {
      while (auto claim = ring.claim()) {
        put_ticket(std::move(claim));
      }
      require(ring, How);
    }
  }
};

// Takers that sleep on an empty ring see the change.
template <Change How, int Takers, Side Claimers = Side::many> struct EmptyRing : Scenario {
  ModelRing<Asleep> ring{2, Claimers, Takers == 1 ? Side::one : Side::many};

  void thread(unsigned id) override {
    if (id == Takers) {
      change_to(ring, How, 0);
    } else {
      RL_ASSERT(!ring.take());
      require(ring, How);
    }
  }
};

// A stop in the middle of a hand-over: both sides return, whichever of them slept.
template <Change How, class Waiting> struct Halted : Scenario {
  ModelRing<Waiting> ring{2, Side::one, Side::one};

  void thread(unsigned id) override {
    if (id == 0) {
      int next = 0;
      while (auto claim = ring.claim()) {
        write(claim.slot(), next++);
        claim.publish();
        if (next == 2) {
          change_to(ring, How, 0);
        }
      }
    } else {
      int next = 0;
      while (auto take = ring.take()) {
        RL_ASSERT(read(take.slot()) == next++);
      }
    }
    require(ring, How);
  }
};

// A slot that a side knows to be there is not handed out once the ring is closed.
struct StopBetween : Scenario {
  ModelRing<> ring{3, Side::one, Side::one};

  void thread(unsigned id) override {
    if (id == 0) {
      put(ring, 0);
      ring.stop();
      RL_ASSERT(!ring.claim());
    } else {
      while (auto take = ring.take()) {
        RL_ASSERT(read(take.slot()) == 0);
      }
    }
  }
};

// Two threads close the ring at the same time, one of them with the end, and one sleeps.
template <Side Both> struct EndAndStop : Scenario {
  ModelRing<Asleep> ring{2, Both, Both};

  void thread(unsigned id) override {
    if (id == 0) {
      ring.end_at(1);
    } else if (id == 1) {
      ring.stop();
      RL_ASSERT(ring.state() == Flow::stopped);
    } else {
      RL_ASSERT(!ring.take());
      RL_ASSERT(ring.state() == Flow::stopped);
    }
  }
};

// Two threads find an end: the first counts, and both see the same.
struct TwoEnds : Scenario {
  ModelRing<> ring{2};
  std::uint64_t seen[2] = {};

  void thread(unsigned id) override {
    ring.end_at(id);
    seen[id] = ring.end_ticket();
    RL_ASSERT(ring.state() == Flow::ended);
  }
  void after() override { RL_ASSERT(seen[0] == seen[1] && seen[0] < 2); }
};

// Claimers that find out only behind a claim that there is no more: they end the ring and drop the
// claim. No taker gets such a slot, although its word says that it is filled.
template <Side Both, bool Tries> struct BeyondTheEnd : Scenario {
  static constexpr unsigned claimers = Both == Side::one ? 1 : 2;
  ModelRing<> ring{3, Both, Both};
  std::uint64_t taken = 0; // one more than the last ticket

  void thread(unsigned id) override {
    if (id < claimers) {
      while (auto claim = ring.claim()) {
        if (claim.ticket() != 0) {
          ring.end_at(claim.ticket());
        } else {
          put_ticket(std::move(claim));
        }
      }
    } else {
      while (auto take = take_one()) {
        taken = std::max(taken, take.ticket() + 1);
      }
    }
  }
  void after() override { RL_ASSERT(taken == ring.end_ticket()); }

 private:
  ModelRing<>::Take take_one() {
    if (!Tries) {
      return ring.take(Empties::give);
    }
    for (;;) {
      auto take = ring.try_take(1, Empties::give);
      if (take || ring.exhausted()) {
        return take;
      }
      rl::yield(1, at());
    }
  }
};

// Two claimers close the ring, at the same time, before each drops its claim: nobody sees a slot of
// which the word says that it is filled, whoever was first.
struct BehindTwoHalts : Scenario {
  ModelRing<> ring{3};

  void thread(unsigned id) override {
    if (id == 2) {
      RL_ASSERT(!ring.take(Empties::give));
      return;
    }
    const auto claim = ring.claim();
    id == 0 ? ring.stop() : ring.fail();
  }
};

// A slot that one claimer drops is passed over, and holds nobody back.
struct Dropped : Scenario {
  ModelRing<> ring{2, Side::many, Side::one};
  int given = 0;

  Dropped() { ring.end_at(3); }
  void thread(unsigned id) override {
    if (id == 0) {
      while (auto claim = ring.claim()) {
      }
    } else if (id == 1) {
      while (auto claim = ring.claim()) {
        ++given;
        put_ticket(std::move(claim));
      }
    } else {
      int taken = 0;
      while (auto take = ring.take()) {
        RL_ASSERT(read(take.slot()) == static_cast<int>(take.ticket()));
        ++taken;
      }
      RL_ASSERT(taken <= 3 && ring.exhausted());
      found = taken;
    }
  }
  void after() override { RL_ASSERT(found == given); }
  int found = 0;
};

// Slot t in, slot t out, through `Workers` threads; rings of different depths.
template <int Workers> struct Chain : Scenario {
  ModelRing<> in{2};
  ModelRing<> out{3};
  Taken taken;

  void thread(unsigned id) override {
    if (id == 0) {
      for (int i = 0; i < 3; ++i) {
        auto claim = in.claim();
        if (i != 1) {
          put_ticket(std::move(claim));
        }
      }
      in.end_at(3);
      out.end_at(3);
    } else if (id <= Workers) {
      while (auto take = in.take(Empties::give)) {
        auto claim = out.claim_at(take.ticket());
        if (take.fill() != Fill::none) {
          write(claim.slot(), read(take.slot()));
          claim.publish();
        }
      }
    } else {
      while (auto take = out.take()) {
        taken.note(std::move(take));
      }
    }
  }
  void after() override {
    ++taken.times[1];
    taken.require_first(3);
  }
};

// The bell by itself: a thread that waits for two changes sees both, and what came with them.
struct BellAlone : Scenario {
  detail::Doorbell<ModelPolicy<>> bell;
  RelacyAtomic<std::uint32_t> changed[2] = {0, 0};
  rl::var<int> payload[2] = {0, 0};

  void thread(unsigned id) override {
    if (id < 2) {
      payload[id](at()) = 1;
      changed[id].store(1, rl::mo_relaxed);
      bell.ring();
      return;
    }
    for (;;) {
      const std::uint32_t count = bell.count();
      if (changed[0].load(rl::mo_relaxed) + changed[1].load(rl::mo_relaxed) == 2) {
        return;
      }
      bell.wait(count, std::chrono::nanoseconds{-1});
    }
  }
};

// One thread rings twice: the thread that woke from the first ring must hear the second.
struct BellTwice : Scenario {
  detail::Doorbell<ModelPolicy<>> bell;
  RelacyAtomic<std::uint32_t> changes{0};

  void thread(unsigned id) override {
    if (id == 0) {
      for (int i = 0; i < 3; ++i) {
        changes.fetch_add(1, rl::mo_relaxed);
        bell.ring();
      }
      return;
    }
    for (;;) {
      const std::uint32_t count = bell.count();
      if (changes.load(rl::mo_relaxed) == 3) {
        return;
      }
      bell.wait(count, std::chrono::nanoseconds{-1});
    }
  }
};

// A thread that only tries, and sleeps on a bell when it gets nothing. If the end is known from the
// start, nothing rings after the last slot.
template <Change How, bool Known = false> struct BellTaker : Scenario {
  ModelRing<> ring{2, Side::one, Side::one};
  ModelRing<>::Doorbell bell;
  Taken taken;

  BellTaker() {
    ring.on_publish(&bell);
    if (Known) {
      ring.end_at(3);
    }
  }
  void thread(unsigned id) override {
    if (id == 0) {
      for (int i = 0; i < 3; ++i) {
        if (auto claim = ring.claim()) {
          put_ticket(std::move(claim));
        }
      }
      if (!Known) {
        change_to(ring, How, 3);
      }
      return;
    }
    for (;;) {
      const std::uint32_t count = bell.count();
      bool moved = false;
      while (auto take = ring.try_take(2)) {
        taken.note(std::move(take));
        moved = true;
      }
      if (ring.exhausted() || ring.state() > Flow::ended) {
        break;
      }
      if (!moved) {
        bell.wait(count, std::chrono::nanoseconds{-1});
      }
    }
    require(ring, How);
  }
  void after() override {
    if (How == Change::end) {
      taken.require_first(3);
    }
  }
};

// A thread between two rings that only tries, and sleeps on a bell when it gets nothing: a slot
// published or released wakes it.
struct BellBetween : Scenario {
  ModelRing<> in{2, Side::one, Side::one};
  ModelRing<> out{2, Side::one, Side::one};
  ModelRing<>::Doorbell bell;

  BellBetween() {
    in.on_publish(&bell);
    out.on_release(&bell);
  }
  void thread(unsigned id) override {
    if (id == 0) {
      for (int i = 0; i < 3; ++i) {
        put(in, i);
      }
      in.end();
    } else if (id == 1) {
      ModelRing<>::Take held;
      for (;;) {
        const std::uint32_t count = bell.count();
        if (!held) {
          if (in.exhausted()) {
            break;
          }
          held = in.try_take();
        }
        auto claim = held ? out.try_claim() : ModelRing<>::Claim{};
        if (claim) {
          write(claim.slot(), read(held.slot()));
          claim.publish();
          held.release();
        } else {
          bell.wait(count, std::chrono::nanoseconds{-1});
        }
      }
      out.end();
    } else {
      int next = 0;
      while (auto take = out.take()) {
        RL_ASSERT(read(take.slot()) == next++);
      }
      RL_ASSERT(next == 3);
    }
  }
};

// Compiling takes long: mutate.py has only those models compiled whose names contain this.
#if !defined(PENSTOCK_MODELS)
#define PENSTOCK_MODELS ""
#endif

// A model's name.
template <std::size_t Size> struct Called {
  consteval Called(const char (&from)[Size]) { std::copy_n(from, Size, text); }
  char text[Size];
};

template <Called Name, class S> Model model(unsigned threads, std::vector<Search> searches) {
  if constexpr (std::string_view{Name.text}.find(PENSTOCK_MODELS) != std::string_view::npos) {
    return {Name.text, threads, [] { return std::unique_ptr<Scenario>{std::make_unique<S>()}; },
            std::move(searches)};
  } else {
    return {Name.text, threads, nullptr, {}};
  }
}

} // namespace
} // namespace penstock::model

int main(int count, char** arguments) {
  using namespace penstock::model;
  using penstock::Side;
  using enum Change;
  const auto full = Search::full();
  const auto one = Search::switches(1), two = Search::switches(2), three = Search::switches(3),
             four = Search::switches(4);
  const auto random = Search::random(30'000);
  const char* const asked = std::getenv("PENSTOCK_THOROUGH");
  const bool thorough = asked != nullptr && *asked != '\0' && *asked != '0';
  return run(
      {
          model<"one to one, napping at once", OneToOne<Napping, 3>>(2, {one, random}),
          model<"one to one, one look first", OneToOne<NapLater, 3>>(2, {one, random}),
          model<"one to one, spinning", OneToOne<RelacySpinning, 3>>(2, {two, random}),
          model<"one to one, no nap ends", OneToOne<Asleep, 3, Sequential, true>>(2, {two, random}),
          model<"one to one, laps wrap", OneToOne<Napping, 10>>(2, {random}),
          model<"many to one", ManyToOne<Napping>>(3, {one, random}),
          model<"many to one, spinning", ManyToOne<RelacySpinning>>(3, {one, random}),
          model<"many to one, no nap ends", ManyToOne<Asleep, Sequential>>(3, {one, random}),
          model<"one to many", OneToMany<Napping>>(3, {random}),
          model<"one to many, no nap ends", OneToMany<Asleep, Sequential>>(3, {one, random}),
          model<"bunch to one", Bunch<Side::one>>(2, {two, random}),
          model<"bunch to one, no nap ends", Bunch<Side::one, Asleep, Sequential>>(2,
                                                                                   {two, random}),
          model<"bunch to many", Bunch<Side::many>>(3, {one, random}),
          model<"bunch to many, no nap ends", Bunch<Side::many, Asleep, Sequential>>(3, {random}),
          model<"many to many", ManyToMany>(4, {random}),
          model<"roles swap", RoleSwap>(2, {three, random}),
          model<"claims by trying", TryClaims>(3, {one, random}),
          model<"takes by trying", TryTakes<Side::many>>(3, {one, random}),
          model<"runs by one taker", TryTakes<Side::one>>(2, {two, random}),
          model<"two leases", TwoLeases<Side::one>>(2, {one, random}),
          model<"two leases, many claimers", TwoLeases<Side::many>>(2, {one, random}),
          model<"leases out of turn", OutOfTurn>(2, {random}),
          model<"full ring, end", FullRing<end, 1>>(2, {thorough ? full : four}),
          model<"full ring, stop", FullRing<stop, 1>>(2, {thorough ? full : four}),
          model<"full ring, counted, end", FullRing<end, 1, Side::one>>(2, {full}),
          model<"full ring, counted, stop", FullRing<stop, 1, Side::one>>(2, {full}),
          model<"full ring, two claimers, counted, stop", FullRing<stop, 2, Side::one>>(
              3, {two, random}),
          model<"full ring, two claimers, stop", FullRing<stop, 2>>(3, {three, random}),
          model<"empty ring, end", EmptyRing<end, 1>>(2, {full}),
          model<"empty ring, fail", EmptyRing<fail, 1>>(2, {full}),
          model<"empty ring, counted, end", EmptyRing<end, 1, Side::one>>(2, {full}),
          model<"empty ring, counted, fail", EmptyRing<fail, 1, Side::one>>(2, {full}),
          model<"empty ring, two takers, counted, end", EmptyRing<end, 2, Side::one>>(
              3, {two, random}),
          model<"empty ring, two takers, end", EmptyRing<end, 2>>(3, {three, random}),
          model<"empty ring, two takers, stop", EmptyRing<stop, 2>>(3, {three, random}),
          model<"stop midway", Halted<stop, Napping>>(2, {two, random}),
          model<"stop between claims", StopBetween>(2, {two, random}),
          model<"fail midway, spinning", Halted<fail, RelacySpinning>>(2, {three, random}),
          model<"end and stop at once", EndAndStop<Side::many>>(3, {two, random}),
          model<"end and stop at once, counted", EndAndStop<Side::one>>(3, {two, random}),
          model<"two ends", TwoEnds>(2, {full}),
          model<"beyond the end", BeyondTheEnd<Side::many, false>>(3, {two, random}),
          model<"behind two halts", BehindTwoHalts>(3, {two, random}),
          model<"beyond the end, two takers", BeyondTheEnd<Side::many, false>>(4, {random}),
          model<"beyond the end, by trying", BeyondTheEnd<Side::many, true>>(3, {two, random}),
          model<"beyond the end, one to one", BeyondTheEnd<Side::one, false>>(2, {two, random}),
          model<"beyond the end, one to one, by trying", BeyondTheEnd<Side::one, true>>(
              2, {two, random}),
          model<"dropped claims", Dropped>(3, {one, random}),
          model<"two rings", Chain<1>>(3, {random}),
          model<"two rings, two workers", Chain<2>>(4, {random}),
          model<"bell, two ring", BellAlone>(3, {three, random}),
          model<"bell, rung thrice", BellTwice>(2, {four, random}),
          model<"bell, taker, end", BellTaker<end>>(2, {one, random}),
          model<"bell, taker, known end", BellTaker<end, true>>(2, {one, random}),
          model<"bell, taker, stop", BellTaker<stop>>(2, {one, random}),
          model<"bell between rings", BellBetween>(3, {random}),
      },
      count, arguments);
}
