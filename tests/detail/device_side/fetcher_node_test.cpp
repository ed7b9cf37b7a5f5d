// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The way back step by step, without its thread: how slots are filled, closed and handed on, and
// how many copies fill them.

#include "support/catch.hpp"

#include <penstock/detail/device_side/fetch_step.hpp>
#include <penstock/detail/device_side/fetcher_node.hpp>
#include <penstock/detail/engine/run_control.hpp>
#include <penstock/host/device.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ostream>
#include <thread>
#include <vector>

namespace ps = penstock;
using ps::Fill;
using ps::detail::HostLink;
using ps::detail::HostSlot;
using ps::detail::Layout;
using ps::detail::NodeSetup;
using ps::detail::RingMemory;
using ps::detail::SlotFiller;
using DeviceLink = ps::detail::DeviceLink<ps::HostDevice>;
using Fetcher = ps::detail::FetcherNode<ps::HostDevice>;

namespace {

constexpr std::size_t record = 16;

// What a taker gets: a slot's numbers, and how it was filled. Fill::none: there was no slot.
struct Got {
  std::uint64_t index{}, source{};
  std::size_t records{};
  bool ends_epoch{};
  Fill fill{Fill::none};

  bool operator==(const Got&) const = default;
  friend std::ostream& operator<<(std::ostream& os, const Got& got) {
    return os << got.records << " from " << got.index << ", in the source " << got.source
              << (got.ends_epoch ? ", the last" : "")
              << (got.fill == Fill::full ? ", full" : ", partial");
  }
};

// A filler of `slots` times `slot_records`, whose copies are only numbers.
struct Bench {
  Bench(std::size_t slots, std::size_t slot_records)
      : out{slots, RingMemory::in<ps::Pinned>(&device, slots, Layout{slot_records, record}, "test"),
            ps::Side::one, ps::Side::many},
        filler{out} {}

  // Books as many of `records` as fit, by the next copy, and returns how many.
  std::size_t fill(std::size_t records) {
    if (!filler.try_open(0)) {
      return 0;
    }
    const std::size_t fits = filler.make_room(records);
    filler.book(fits, 0, ++serial,
                [this](HostSlot& slot, std::size_t at, std::size_t i, std::size_t) {
                  slot.source.go_on(at, source + i);
                });
    source += fits;
    return fits;
  }
  std::size_t hand_on(std::uint64_t up_to) {
    std::size_t slots = 0;
    filler.hand_on(up_to, [&](const HostSlot&) { ++slots; });
    return slots;
  }
  Got take() {
    const auto taken = out.ring.try_take();
    return taken ? Got{taken.slot().index, taken.slot().source[0], taken.slot().units,
                       taken.slot().ends_epoch, taken.fill()}
                 : Got{};
  }
  std::size_t place() const {
    return static_cast<std::size_t>(filler.at(0) - out.memory.data(0)) / record;
  }

  ps::HostDevice device;
  HostLink out;
  SlotFiller filler;
  std::uint64_t serial{};
  std::uint64_t source{100};
};

} // namespace

TEST_CASE("copies fill slots one after the other, each record behind the one before") {
  Bench b{4, 10};
  REQUIRE(b.filler.try_open(0));
  for (std::size_t at = 0; at < 38; ++at) {
    CHECK(b.place() == at);
    REQUIRE(b.fill(1) == 1);
    CHECK(b.filler.delivered() == at + 1);
    REQUIRE(b.filler.try_open(0));
  }
  CHECK(b.hand_on(38) == 3);
  CHECK(b.take() == Got{0, 100, 10, false, Fill::full});
  CHECK(b.take() == Got{10, 110, 10, false, Fill::full});
  CHECK(b.take() == Got{20, 120, 10, false, Fill::full});
  CHECK(b.take() == Got{});
}

TEST_CASE("a slot is handed on when the last copy into it is there") {
  Bench b{4, 10};
  b.fill(4);  // copy 1
  b.fill(12); // copy 2 fills the slot and goes on in the next
  b.fill(4);  // copy 3
  CHECK(b.hand_on(1) == 0);
  CHECK(b.take() == Got{});
  CHECK(b.hand_on(2) == 1);
  CHECK(b.take() == Got{0, 100, 10, false, Fill::full});
  CHECK(b.hand_on(2) == 0);
  CHECK(b.hand_on(3) == 1);
  CHECK(b.take() == Got{10, 110, 10, false, Fill::full});
}

TEST_CASE("a copy goes as far as slots lie side by side and are free") {
  Bench b{4, 10};
  CHECK(b.fill(5) == 5);
  CHECK(b.fill(7) == 7);
  CHECK(b.fill(100) == 28); // to the end of the ring
  CHECK(b.fill(1) == 0);    // all are filled
  b.hand_on(b.serial);
  b.take();
  CHECK(b.fill(100) == 10); // the second is in use
  b.take();
  b.take();
  CHECK(b.fill(15) == 15);
  CHECK(b.place() == 25);
  CHECK(b.fill(100) == 5); // as far as the fourth
}

TEST_CASE("with all slots filled and none handed on, none is lost") {
  for (std::uint64_t before = 0; before < 3; ++before) {
    CAPTURE(before);
    Bench b{3, 10};
    for (std::uint64_t i = 0; i < before; ++i) {
      b.fill(10);
      b.hand_on(b.serial);
      CHECK(b.take().records == 10);
    }
    std::size_t booked = 0;
    while (const std::size_t more = b.fill(7)) {
      booked += more;
    }
    CHECK(booked == 30);
    CHECK_FALSE(b.filler.try_open(0));
    CHECK(b.hand_on(b.serial) == 3);
    CHECK_FALSE(b.filler.try_open(0)); // not before one was taken and given back
    for (std::uint64_t i = before; i < before + 3; ++i) {
      CHECK(b.take() == Got{10 * i, 100 + 10 * i, 10, false, Fill::full});
    }
    CHECK(b.fill(1) == 1);
  }
}

TEST_CASE("what ends an epoch ends its slot, and says so though it is full") {
  Bench b{4, 10};
  b.fill(4);
  b.filler.close(true);
  b.filler.close(true); // says nothing new
  b.fill(10);
  b.filler.close(true);
  b.fill(13);
  b.filler.close(true);
  CHECK(b.hand_on(b.serial) == 4);
  CHECK(b.take() == Got{0, 100, 4, true, Fill::partial});
  CHECK(b.take() == Got{4, 104, 10, true, Fill::partial});
  CHECK(b.take() == Got{14, 114, 10, false, Fill::full});
  CHECK(b.take() == Got{24, 124, 3, true, Fill::partial});
  // A slot that is used again does not end an epoch by itself.
  b.fill(10);
  b.hand_on(b.serial);
  CHECK(b.take() == Got{27, 127, 10, false, Fill::full});
  // A slot that was handed on cannot be marked any more.
  b.filler.close(true);
  CHECK(b.hand_on(b.serial) == 0);
  b.filler.end();
  CHECK(b.out.ring.exhausted());
}

TEST_CASE("a slot's number in the source is its first record's") {
  Bench b{4, 10};
  REQUIRE(b.filler.try_open(0));
  REQUIRE(b.filler.make_room(25) == 25);
  // Batches of 5, each ten further in the source.
  b.filler.book(25, 0, 1, [](HostSlot& slot, std::size_t at, std::size_t i, std::size_t count) {
    for (std::size_t end = i + count; i != end; ++i) {
      slot.source.go_on(at++, i / 5 * 10 + i % 5);
    }
  });
  b.filler.close(true);
  CHECK(b.hand_on(1) == 3);
  CHECK(b.take() == Got{0, 0, 10, false, Fill::full});
  CHECK(b.take() == Got{10, 20, 10, false, Fill::full});
  CHECK(b.take() == Got{20, 40, 5, true, Fill::partial});
}

TEST_CASE("records of another epoch begin a slot of their own") {
  Bench b{4, 10};
  const auto book = [&](std::uint64_t epoch, std::size_t records) {
    REQUIRE(b.filler.try_open(epoch));
    b.filler.book(records, epoch, 1,
                  [](HostSlot& slot, std::size_t at, std::size_t i, std::size_t) {
                    slot.source.go_on(at, i);
                  });
  };
  book(0, 7);
  book(0, 1);
  book(2, 10); // full: the next epoch has another slot anyway
  book(3, 4);
  b.filler.close(true);
  CHECK(b.hand_on(1) == 3);
  CHECK(b.take() == Got{0, 0, 8, true, Fill::partial});
  CHECK(b.take() == Got{8, 0, 10, false, Fill::full});
  CHECK(b.take() == Got{18, 0, 4, true, Fill::partial});
}

TEST_CASE("what was broken off starts again with the first slot, and all are free") {
  Bench b{3, 10};
  b.fill(25);
  b.hand_on(b.serial);
  b.filler.reset();
  b.out.ring.reset();
  CHECK(b.fill(100) == 30);
  CHECK(b.hand_on(b.serial) == 3);
  CHECK(b.take() == Got{0, 125, 10, false, Fill::full});
}

namespace {

// A device ring of `places` times `batch`, and a fetcher into `slots` times `slot`. Each record
// holds its index, so that what arrives can be checked.
struct Way {
  Way(std::size_t places, std::size_t batch, std::size_t slots, std::size_t slot)
      : in{ps::detail::new_shared<DeviceLink>(device, places, Layout{batch, record})},
        out{ps::detail::new_shared<HostLink>(
            slots, RingMemory::in<ps::Pinned>(&device, slots, Layout{slot, record}, "a test"),
            ps::Side::one, ps::Side::many)},
        fetcher{std::make_unique<Fetcher>(NodeSetup{"AsyncCopier", 1, control}, device, in, out,
                                          true, nullptr, ps::detail::Flush{})},
        user{device.stream()}, line{device, 64} {
    out->bell = in->bell;
    out->ring.on_release(out->bell.get());
    REQUIRE(fetcher->make_ready());
    fetcher->begin();
  }
  ~Way() { gate = true; }

  // Fills a place; if `gated`, its records are there only when the gate opens.
  void publish(std::size_t records, bool gated = false) {
    auto claim = in->ring.try_claim();
    REQUIRE(claim);
    claim.slot().free.wait(user);
    std::byte* const at = in->memory.data(claim.place());
    user.enqueue([this, at, records, gated, first = published] {
      while (gated && !gate) {
        std::this_thread::yield();
      }
      for (std::size_t i = 0; i < records; ++i) {
        const std::uint64_t index = first + i;
        std::memcpy(at + i * record, &index, sizeof index);
      }
    });
    ps::detail::DeviceSlot<ps::HostDevice>& place = claim.slot();
    place.index = place.source = published;
    place.units = records;
    place.bytes = records * record;
    place.ready = {&line, line.record(user)};
    if (!gated) {
      line.sync();
    }
    published += records;
    claim.publish(records == in->layout().units ? Fill::full : Fill::partial);
  }
  // Steps until every copy is back.
  void settle() {
    while (fetcher->take_turn() || fetcher->has_open_fence()) {
      std::this_thread::yield();
    }
  }
  // Returns how many records the next slot has; 0 if there is no slot, -1 if they are not the next
  // ones.
  int take() {
    const auto taken = out->ring.try_take();
    if (!taken) {
      return 0;
    }
    bool right = taken.slot().index == seen;
    for (std::size_t i = 0; i < taken.slot().units; ++i) {
      std::uint64_t index = 0;
      std::memcpy(&index, out->memory.data(taken.place()) + i * record, sizeof index);
      right = right && index == seen + i;
    }
    seen += taken.slot().units;
    return right ? static_cast<int>(taken.slot().units) : -1;
  }
  std::uint64_t copies() const { return device.counts().copies; }

  ps::HostDevice device;
  ps::detail::RunControl control;
  ps::detail::Shared<DeviceLink> in;
  ps::detail::Shared<HostLink> out;
  std::unique_ptr<Fetcher> fetcher;
  std::atomic<bool> gate{false};
  ps::HostStream user;
  ps::Timeline<ps::HostDevice> line;
  std::uint64_t published{};
  std::uint64_t seen{};
};

} // namespace

TEST_CASE("batches that are there come home in one copy, in slots of any size") {
  for (const std::size_t slot : {1, 3, 4, 7, 16, 40}) {
    CAPTURE(slot);
    Way w{8, 4, 64, slot};
    for (int i = 0; i < 7; ++i) {
      w.publish(4);
    }
    w.publish(2); // ends an epoch
    w.settle();
    CHECK(w.copies() == 1);
    CHECK(w.device.counts().copied_bytes == 30 * record);
    for (std::size_t left = 30; left != 0; left -= std::min(left, slot)) {
      CHECK(w.take() == static_cast<int>(std::min(left, slot)));
    }
    CHECK(w.take() == 0);
  }
}

TEST_CASE("one batch that is there is sent at once, and its place is free when its copy is done") {
  Way w{2, 4, 4, 4};
  w.publish(4, true);
  w.publish(4, true);
  REQUIRE(w.fetcher->take_turn());
  CHECK(w.copies() == 2); // both wait, in the stream, for their batch
  CHECK(w.fetcher->has_open_fence());
  {
    auto claim = w.in->ring.try_claim();
    REQUIRE(claim); // given back already, but not to be written before the copy
    CHECK_FALSE(claim.slot().free.reached());
    CHECK(w.take() == 0);
    w.gate = true;
    w.settle();
    CHECK(claim.slot().free.reached());
  }
  CHECK(w.take() == 4);
  CHECK(w.take() == 4);
}

TEST_CASE("with two copies in flight batches gather, and are one copy after") {
  Way w{8, 4, 8, 4};
  w.publish(4, true);
  w.publish(4, true);
  w.fetcher->take_turn();
  REQUIRE(w.copies() == 2);
  for (int i = 0; i < 4; ++i) {
    w.publish(4, true);
    CHECK_FALSE(w.fetcher->take_turn());
  }
  CHECK(w.copies() == 2);
  w.gate = true;
  w.line.sync();
  w.settle();
  CHECK(w.copies() == 3);
  for (int i = 0; i < 6; ++i) {
    CHECK(w.take() == 4);
  }
}

TEST_CASE("a copy ends before a batch that is not there yet") {
  Way w{8, 4, 8, 4};
  w.publish(4);
  w.publish(4);
  w.publish(4, true);
  w.fetcher->take_turn();
  CHECK(w.copies() == 2); // two batches, and the third in a copy of its own
  while (w.take() != 4) {
    w.fetcher->take_turn();
  }
  CHECK(w.take() == 4);
  CHECK(w.take() == 0);
  w.gate = true;
  w.settle();
  CHECK(w.take() == 4);
}

TEST_CASE("a copy ends where either ring wraps, and where no slot is free") {
  Way device{4, 4, 64, 4};
  device.publish(4);
  device.settle();
  for (int i = 0; i < 4; ++i) {
    device.publish(4);
  }
  device.settle();
  CHECK(device.copies() == 3); // places 1 to 3, and 0

  Way host{16, 4, 3, 4};
  host.publish(4);
  host.settle();
  CHECK(host.take() == 4);
  for (int i = 0; i < 4; ++i) {
    host.publish(4);
  }
  host.settle();
  CHECK(host.copies() == 3); // slots 1, 2, and 0
  CHECK(host.take() == 4);
  host.settle();
  CHECK(host.copies() == 4); // the one that was taken
  CHECK(host.take() == 4);
  CHECK(host.take() == 4);
  CHECK(host.take() == 4);
}

TEST_CASE("a batch larger than the slots that are free comes home in parts") {
  Way w{2, 10, 3, 4};
  w.publish(10);
  w.publish(10);
  std::vector<int> sizes;
  for (int i = 0; i < 5; ++i) {
    w.settle();
    sizes.push_back(w.take());
  }
  CHECK(sizes == std::vector<int>{4, 4, 4, 4, 4});
  CHECK(w.in->ring.try_claim());
}

TEST_CASE("a short batch ends its slot, and what comes after begins another") {
  Way w{8, 4, 8, 10};
  w.publish(4);
  w.publish(3);
  w.publish(4);
  w.settle();
  CHECK(w.take() == 7);
  CHECK(w.take() == 0); // not full, and not at an end
  w.in->ring.end_at(3);
  w.settle();
  CHECK(w.fetcher->done());
  CHECK(w.take() == 4);
  CHECK(w.out->ring.state() == ps::Flow::ended);
  CHECK(w.out->ring.exhausted());
}

TEST_CASE("what is broken off waits for its copies, and starts again from nothing") {
  Way w{4, 4, 4, 6};
  w.publish(4);
  w.publish(4, true);
  w.fetcher->take_turn();
  w.in->ring.fail();
  w.out->ring.fail();
  std::thread opens{[&] { w.gate = true; }};
  w.fetcher->give_up();
  opens.join();
  CHECK_FALSE(w.fetcher->has_open_fence());
  CHECK(w.line.reached(2)); // so nothing reads the places any more
  w.in->ring.reset();
  REQUIRE(w.fetcher->make_ready());
  w.published = w.seen = 0;
  w.publish(4);
  w.publish(2);
  w.settle();
  CHECK(w.take() == 6);
}
