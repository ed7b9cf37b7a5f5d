// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The copier step by step, without its thread: how many copies it makes, and of which slots.

#include "support/catch.hpp"

#include <penstock/detail/device_side/copier.hpp>
#include <penstock/host/device.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace ps = penstock;
using ps::detail::HostLink;
using ps::detail::Layout;
using ps::detail::RingMemory;
using Copier = ps::detail::Copier<ps::HostDevice>;
using DeviceLink = ps::detail::DeviceLink<ps::HostDevice>;

namespace {

constexpr std::size_t record = 16;

// A copier between a host ring of `slots` times `slot_records` and a device ring of `places` times
// `batch`. Each record holds its index, so that what arrives can be checked.
struct Bench {
  Bench(std::size_t slots, std::size_t slot_records, std::size_t places, std::size_t batch,
        std::size_t copy_bytes = std::size_t{1} << 30, ps::HostOptions options = {},
        bool drop_last = false)
      : device{options},
        in{slots, RingMemory::in<ps::Pinned>(&device, slots, Layout{slot_records, record}, "test"),
           ps::Side::one, ps::Side::one},
        out{device, places, Layout{batch, record}},
        copier{device, in, out, copy_bytes, &on_the_way, drop_last}, user{device.stream()} {
    on_the_way.want();
  }

  ~Bench() { open_gate(); }

  // Returns false if no slot is free.
  bool publish(std::size_t records, bool ends_epoch = false) {
    auto claim = in.ring.try_claim();
    if (!claim) {
      return false;
    }
    for (std::size_t i = 0; i < records; ++i) {
      const std::uint64_t index = published + i;
      std::memcpy(in.memory.data(claim.place()) + i * record, &index, sizeof index);
    }
    ps::detail::HostSlot& slot = claim.slot();
    slot.begin(published, published, epoch, records);
    slot.ends_epoch = ends_epoch;
    published += records;
    epoch += ends_epoch ? 1 : 0;
    claim.publish(records == 0                                  ? ps::Fill::none
                  : records == in.layout().units && !ends_epoch ? ps::Fill::full
                                                                : ps::Fill::partial);
    return true;
  }

  // Steps until every copy is back.
  void settle() {
    while (copier.step() || copier.in_flight()) {
      std::this_thread::yield();
    }
  }

  // What the user of a batch saw: its index and size. Each record was checked, and the batch given
  // back at once.
  struct Got {
    std::uint64_t index;
    std::size_t size;
    bool right;
    std::size_t place;
  };
  Got use() {
    auto taken = out.ring.try_take();
    if (!taken) {
      return {0, 0, false, 0};
    }
    auto& place = taken.slot();
    place.ready.wait(user);
    user.sync();
    bool right = true;
    for (std::size_t i = 0; i < place.units; ++i) {
      std::uint64_t index = 0;
      std::memcpy(&index, out.memory.data(taken.place()) + i * record, sizeof index);
      right = right && index == place.index + i;
    }
    place.free = out.consumer.use_up(user, taken.ticket(), place.index);
    return {place.index, place.units, right, taken.place()};
  }

  // Uses a batch; the use ends only when the gate opens.
  void use_until_gate() {
    auto taken = out.ring.try_take();
    taken.slot().ready.wait(user);
    user.enqueue([this] {
      while (!gate.load()) {
        std::this_thread::yield();
      }
    });
    taken.slot().free = out.consumer.use_up(user, taken.ticket(), taken.slot().index);
  }
  void open_gate() { gate = true; }

  std::uint64_t copies() const { return device.counts().copies; }

  ps::HostDevice device;
  ps::detail::OnTheWay on_the_way;
  HostLink in;
  DeviceLink out;
  Copier copier;
  std::atomic<bool> gate{false};
  ps::HostStream user;
  std::uint64_t published{};
  std::uint64_t epoch{};
};

} // namespace

TEST_CASE("one ready slot is copied without waiting for more") {
  Bench b{8, 4, 8, 4};
  b.publish(4);
  REQUIRE(b.copier.step());
  CHECK(b.copies() == 1);
  b.settle();
  const auto got = b.use();
  CHECK((got.index == 0 && got.size == 4 && got.right));
}

TEST_CASE("k adjacent ready slots are one copy") {
  for (std::size_t k = 1; k <= 8; ++k) {
    Bench b{8, 4, 8, 4};
    for (std::size_t i = 0; i < k; ++i) {
      b.publish(4);
    }
    b.settle();
    CHECK(b.copies() == 1);
    CHECK(b.device.counts().copied_bytes == k * 4 * record);
    for (std::size_t i = 0; i < k; ++i) {
      const auto got = b.use();
      CHECK((got.index == i * 4 && got.size == 4 && got.right));
    }
    CHECK(b.use().size == 0);
  }
}

TEST_CASE("a copy takes no more than it may, in whole slots") {
  Bench b{8, 4, 8, 4, 3 * 4 * record};
  for (int i = 0; i < 8; ++i) {
    b.publish(4);
  }
  b.settle();
  CHECK(b.copies() == 3); // 3, 3 and 2 slots
}

TEST_CASE("a slot larger than a copy is copied in parts") {
  Bench b{4, 10, 4, 10, 4 * record};
  b.publish(10);
  b.publish(10);
  b.settle();
  CHECK(b.copies() == 5); // four records each, across the slots
  CHECK((b.use().right && b.use().right));
}

TEST_CASE("slots that waited for a place gather and are one copy") {
  Bench b{8, 4, 4, 4};
  for (int i = 0; i < 5; ++i) {
    b.publish(4);
  }
  b.settle();
  REQUIRE(b.copies() == 1); // four places; the fifth slot is at hand
  b.publish(4);
  b.publish(4);
  REQUIRE((b.use().right && b.use().right && b.use().right));
  b.settle();
  CHECK(b.copies() == 2);
}

TEST_CASE("with two copies in flight, ready slots gather and are one copy after") {
  // The copier's stream stands still behind the last use of the first place.
  Bench b{16, 4, 2, 4};
  b.publish(4);
  b.publish(4);
  b.settle();
  REQUIRE(b.copies() == 1);
  b.use_until_gate();
  b.use_until_gate();
  b.publish(4);
  REQUIRE(b.copier.step()); // waits, in the stream, for the first place
  CHECK(b.copies() == 2);
  b.publish(4);
  REQUIRE(b.copier.step()); // and for the second
  CHECK(b.copies() == 3);
  CHECK(b.copier.doing() == ps::detail::Activity::blocked);
  b.publish(4);
  b.publish(4);
  CHECK_FALSE(b.copier.step());
  CHECK(b.copies() == 3);
  b.open_gate();
  b.settle();
  CHECK(b.copies() == 3); // both places are full: nobody has used them
  CHECK(b.use().right);
  CHECK(b.use().right);
  b.settle();
  CHECK(b.copies() == 4); // the slots that gathered
  CHECK((b.use().index == 16 && b.use().index == 20));
}

TEST_CASE("many batches come out of one copy") {
  Bench b{4, 64, 64, 4};
  b.publish(64);
  b.publish(64);
  b.settle();
  CHECK(b.copies() == 1);
  for (std::uint64_t i = 0; i < 32; ++i) {
    const auto got = b.use();
    CHECK((got.index == i * 4 && got.size == 4 && got.right));
  }
}

TEST_CASE("many copies go into one batch") {
  Bench b{4, 4, 2, 24};
  for (int i = 0; i < 6; ++i) {
    b.publish(4);
    b.settle();
  }
  CHECK(b.copies() == 6);
  const auto got = b.use();
  CHECK((got.index == 0 && got.size == 24 && got.right));
}

TEST_CASE("batches and slots that do not divide each other keep every record in order") {
  for (const std::size_t batch : {1, 3, 5, 7, 11, 30}) {
    Bench b{5, 7, 6, batch};
    std::uint64_t next = 0;
    const auto drain = [&] {
      for (auto got = b.use(); got.size != 0; got = b.use()) {
        CHECK((got.index == next && got.size == batch && got.right));
        next += got.size;
      }
    };
    for (int i = 0; i < 60; ++i) {
      while (!b.publish(7)) {
        b.settle();
        drain();
      }
    }
    do {
      b.settle();
      drain();
    } while (b.copier.step());
    CHECK(next == 60 * 7 / batch * batch);
  }
}

TEST_CASE("a copy ends where the host ring wraps") {
  Bench b{4, 4, 16, 4};
  b.publish(4);
  b.publish(4);
  b.settle();
  REQUIRE(b.copies() == 1);
  for (int i = 0; i < 4; ++i) {
    b.publish(4);
  }
  b.settle();
  CHECK(b.copies() == 3); // places 2, 3 and then 0, 1
}

TEST_CASE("a copy ends where the device ring wraps") {
  Bench b{16, 4, 3, 4};
  b.publish(4);
  b.settle();
  REQUIRE(b.use().right);
  for (int i = 0; i < 3; ++i) {
    b.publish(4);
  }
  b.settle();
  CHECK(b.copies() == 3); // places 1, 2 and then 0
  for (std::uint64_t i = 1; i < 4; ++i) {
    const auto got = b.use();
    CHECK((got.index == i * 4 && got.right && got.place == i % 3));
  }
}

TEST_CASE("a copy ends at a partial slot") {
  Bench b{8, 4, 8, 4};
  b.publish(4);
  b.publish(3);
  b.publish(4);
  b.settle();
  CHECK(b.copies() == 2);
  CHECK((b.use().index == 0 && b.use().index == 4)); // batches are full all the same
}

TEST_CASE("a copy ends before a place that is still in use by its taker") {
  Bench b{8, 4, 4, 4};
  for (int i = 0; i < 4; ++i) {
    b.publish(4);
  }
  b.settle();
  REQUIRE(b.use().right);
  REQUIRE(b.use().right);
  for (int i = 0; i < 4; ++i) {
    b.publish(4);
  }
  b.settle();
  CHECK(b.device.counts().copied_bytes == 6 * 4 * record);
  CHECK(b.copies() == 2);
  CHECK(b.copier.doing() == ps::detail::Activity::blocked);
}

TEST_CASE("a copy ends before a place whose last use is open, and the next begins there") {
  Bench b{8, 4, 4, 4};
  for (int i = 0; i < 4; ++i) {
    b.publish(4);
  }
  b.settle();
  REQUIRE(b.use().right);
  REQUIRE(b.use().right);
  REQUIRE(b.device.counts().copies == 1);
  b.use_until_gate();
  for (int i = 0; i < 3; ++i) {
    b.publish(4);
  }
  REQUIRE(b.copier.step());
  // The two free places take one copy. The third place takes a copy of its own, which waits in the
  // stream.
  CHECK(b.copies() == 3);
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
  std::uint64_t in_use = 0;
  std::memcpy(&in_use, b.out.memory.data(2), sizeof in_use);
  CHECK(in_use == 8); // not overwritten
  b.open_gate();
  b.settle();
  CHECK(b.use().index == 12);
  CHECK((b.use().right && b.use().right && b.use().right));
}

TEST_CASE("an epoch's last batch is short and the next epoch begins a new place") {
  Bench b{8, 4, 8, 6};
  b.publish(4);
  b.publish(4, true);
  b.publish(4);
  b.publish(2, true);
  b.settle();
  const auto a = b.use();
  const auto c = b.use();
  const auto d = b.use();
  CHECK((a.index == 0 && a.size == 6 && a.right && a.place == 0));
  CHECK((c.index == 6 && c.size == 2 && c.right && c.place == 1));
  CHECK((d.index == 8 && d.size == 6 && d.right && d.place == 2));
  CHECK(b.use().size == 0);
}

TEST_CASE("the end of the host ring hands on what is in the last place") {
  Bench b{4, 4, 4, 6};
  b.publish(4);
  b.publish(4);
  b.in.ring.end();
  b.settle();
  CHECK(b.copier.done());
  CHECK((b.use().size == 6 && b.use().size == 2));
  CHECK(b.out.ring.state() == ps::Flow::ended);
  CHECK_FALSE(b.out.ring.take());
}

TEST_CASE("a slot goes back to its filler only when its copy is done") {
  Bench b{2, 4, 2, 4};
  b.publish(4);
  b.publish(4);
  b.settle();
  b.use_until_gate();
  b.use_until_gate();
  b.publish(4);
  REQUIRE(b.copier.step());
  b.publish(4);
  b.copier.step();
  CHECK_FALSE(b.in.ring.try_claim()); // both are being copied
  b.open_gate();
  b.settle();
  CHECK(b.in.ring.try_claim());
}

TEST_CASE("a copier that was broken off starts again from nothing") {
  Bench b{4, 4, 4, 6, std::size_t{1} << 30, {.copy_ns_per_kib = 100'000'000}};
  b.publish(4);
  b.publish(4);
  b.publish(4);
  b.copier.step();
  b.in.ring.fail();
  b.out.ring.fail();
  REQUIRE(b.copies() == 1);
  REQUIRE(b.copier.in_flight());
  b.copier.abandon();
  // The copy has landed, so nothing touches the slots any more.
  CHECK(std::memcmp(b.out.memory.data(0), b.in.memory.data(0), 4 * record) == 0);
  b.in.ring.reset();
  b.out.ring.reset();
  b.published = 0;
  b.publish(4);
  b.publish(2);
  b.settle();
  const auto got = b.use();
  CHECK((got.index == 0 && got.size == 6 && got.right));
}

namespace {

// What a batch's user sees of a copier that leaves records out: the batch's index and size, and the
// numbers of its first record and of its last, which the copier keeps besides.
struct Dropping : Bench {
  Dropping(std::size_t slot_records, std::size_t batch)
      : Bench{8, slot_records, 4, batch, std::size_t{1} << 30, {}, true} {}

  std::vector<std::uint64_t> next() {
    settle();
    auto taken = out.ring.try_take();
    if (!taken) {
      return {};
    }
    const auto& place = taken.slot();
    place.ready.wait(user);
    user.sync();
    std::vector<std::uint64_t> seen{place.index, place.units, place.epoch, place.source};
    for (const std::size_t i : {std::size_t{0}, place.units - 1}) {
      std::uint64_t number = 0;
      std::memcpy(&number, out.memory.data(taken.place()) + i * record, sizeof number);
      CHECK(number == on_the_way.numbers[place.index + i]);
      seen.push_back(number);
    }
    return seen;
  }
  using Seen = std::vector<std::uint64_t>;
};

} // namespace

TEST_CASE("an epoch's short last batch is left out, and the next epoch begins in its place") {
  Dropping b{4, 6};
  b.publish(4);
  b.publish(4);
  b.settle();
  CHECK(b.copier.records() == 8); // as far as anybody knows
  b.publish(1, true);             // 9 records: one batch, and 3 that are left out
  b.publish(4);
  b.publish(4);
  b.publish(4, true); // two full ones
  CHECK(b.next() == Dropping::Seen{0, 6, 0, 0, 0, 5});
  CHECK(b.next() == Dropping::Seen{6, 6, 1, 9, 9, 14});
  CHECK(b.next() == Dropping::Seen{12, 6, 1, 15, 15, 20});
  b.publish(3, true); // an epoch of no batch
  b.publish(4);
  b.settle();
  b.publish(3);
  CHECK(b.next() == Dropping::Seen{18, 6, 3, 24, 24, 29});
  b.in.ring.end();
  CHECK(b.next().empty());
  CHECK(b.copier.done());
  CHECK(b.copier.records() == 24);
  CHECK(b.copier.bytes() == 24 * record);
  CHECK(b.out.ring.exhausted());
}

TEST_CASE("what is left out may have come slot by slot, and its end without a record") {
  Dropping b{2, 6};
  for (int epoch = 0; epoch < 20; ++epoch) {
    CAPTURE(epoch);
    const std::uint64_t first = b.published;
    for (int slot = 0; slot < 4; ++slot) {
      b.publish(2);
      if (epoch % 2 == 0) {
        b.settle();
      }
    }
    b.publish(0, true); // all of the last slot was skipped
    const std::uint64_t index = 6 * static_cast<std::uint64_t>(epoch);
    CHECK(b.next() == Dropping::Seen{index, 6, index / 6, first, first, first + 5});
    CHECK(b.next().empty());
    CHECK(b.copier.records() == index + 6);
  }
}

TEST_CASE("an epoch ends where the next one's slots begin, though no slot says so") {
  for (const bool drop_last : {true, false}) {
    CAPTURE(drop_last);
    Bench b{16, 4, 8, 6, std::size_t{1} << 30, {}, drop_last};
    for (const std::uint64_t epoch : {0, 1, 2}) {
      b.epoch = epoch;
      b.publish(4);
      b.publish(4);
    }
    b.in.ring.end();
    b.settle();
    std::vector<std::size_t> sizes;
    for (auto got = b.use(); got.size != 0; got = b.use()) {
      sizes.push_back(got.size);
    }
    CHECK(sizes == (drop_last ? std::vector<std::size_t>{6, 6, 6}
                              : std::vector<std::size_t>{6, 2, 6, 2, 6, 2}));
  }
}

TEST_CASE("the oldest use that is open is known where uses of two laps are") {
  ps::HostDevice device;
  constexpr std::size_t places = 4;
  DeviceLink link{device, places, Layout{1, record}};
  std::atomic<std::uint64_t> allowed{0};
  {
    auto user = device.stream();
    link.consumer.begin();
    for (std::uint64_t use = 0; use < 2 * places; ++use) {
      user.enqueue([&allowed, use] {
        while (allowed.load() <= use) {
          std::this_thread::yield();
        }
      });
      link.consumer.use_up(user, use, 100 + use);
    }
    for (std::uint64_t use = 0; use < 2 * places; ++use) {
      CHECK(link.look());
      CHECK(link.consumer.open_record() == 100 + use);
      allowed.store(use + 1);
      // Each look finds out about one use that is over.
      while (link.look() && link.consumer.open_record() == 100 + use) {
        std::this_thread::yield();
      }
    }
    CHECK_FALSE(link.look());
    allowed.store(2 * places);
  }
}
