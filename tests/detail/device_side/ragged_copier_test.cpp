// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The copier step by step, on slots with a Ragged column: how many copies it makes, and of which.

#include "support/catch.hpp"

#include <penstock/data/schema.hpp>
#include <penstock/detail/device_side/copier.hpp>
#include <penstock/host/device.hpp>

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

constexpr std::size_t KiB = 1024;
constexpr std::size_t units = 4; // in a slot

struct Text : ps::Columns<ps::Field<"text", ps::Ragged<std::uint8_t>>> {};

// A copier between two rings of equal places, each with room for so many bytes of values.
struct Bench {
  Bench(std::size_t slots, std::size_t places, std::size_t room,
        std::size_t copy_bytes = std::size_t{1} << 30)
      : in{slots,
           RingMemory::in<ps::Pinned>(&device, slots,
                                      ps::detail::layout_of<Text>(units, {}, room, "test"), "test"),
           ps::Side::one, ps::Side::one},
        out{device, places, in.layout()}, copier{device, in, out, copy_bytes},
        user{device.stream()} {}

  // Fills a slot with `records` records of equal length, `bytes` in all, whose first byte is the
  // slot's number.
  void publish(std::size_t bytes, std::size_t records = units, bool ends_epoch = false) {
    auto claim = in.ring.try_claim();
    REQUIRE(claim);
    std::int64_t* const offsets = ps::detail::offsets_of(in.memory, claim.place(), 0);
    for (std::size_t i = 0; i <= records; ++i) {
      offsets[i] = static_cast<std::int64_t>(bytes / records * i);
    }
    std::memset(in.memory.data(claim.place(), 1), static_cast<int>(slots_filled + 1), bytes);
    claim.slot().begin(published, published, epoch, records);
    claim.slot().ends_epoch = ends_epoch;
    published += records;
    epoch += ends_epoch ? 1 : 0;
    ++slots_filled;
    claim.publish(records == units && !ends_epoch ? ps::Fill::full : ps::Fill::partial);
  }
  // Steps until every copy is back.
  void settle() {
    while (copier.step() || copier.in_flight()) {
      std::this_thread::yield();
    }
  }
  // Returns the number of copies: each has offsets and values.
  std::uint64_t copies() const { return device.counts().copies / 2; }

  // Whether the next batch is slot number `slot`, with that many records of `bytes` in all.
  bool comes(std::size_t slot, std::size_t bytes, std::size_t records = units) {
    auto taken = out.ring.try_take();
    if (!taken) {
      return false;
    }
    auto& place = taken.slot();
    place.ready.wait(user);
    user.sync();
    std::int64_t end = 0;
    std::memcpy(&end, out.memory.data(taken.place()) + records * sizeof end, sizeof end);
    const auto* const values =
        reinterpret_cast<const std::uint8_t*>(out.memory.data(taken.place(), 1));
    bool right = place.units == records && place.index == units * slot &&
                 end == static_cast<std::int64_t>(bytes / records * records) &&
                 place.bytes == (records + 1) * sizeof end + static_cast<std::size_t>(end);
    for (std::size_t i = 0; i != bytes / records * records; ++i) {
      right = right && values[i] == slot + 1;
    }
    place.free = out.consumer.use_up(user, taken.ticket(), place.index);
    return right;
  }

  ps::HostDevice device;
  HostLink in;
  DeviceLink out;
  Copier copier;
  ps::HostStream user;
  std::uint64_t published{};
  std::uint64_t epoch{};
  std::size_t slots_filled{};
};

} // namespace

TEST_CASE("slots that are nearly full are one copy, and a batch each") {
  Bench b{8, 8, 200 * KiB};
  for (std::size_t i = 0; i != 6; ++i) {
    b.publish((i % 2 == 0 ? 200 : 150) * KiB);
  }
  b.settle();
  CHECK(b.copies() == 1);
  CHECK(b.copier.records() == 24);
  CHECK(b.copier.bytes() == 1050 * KiB + 6 * 5 * sizeof(std::int64_t));
  for (std::size_t i = 0; i != 6; ++i) {
    CHECK(b.comes(i, (i % 2 == 0 ? 200 : 150) * KiB));
  }
}

TEST_CASE("a slot with a large gap behind its values ends a copy") {
  Bench b{8, 8, 200 * KiB};
  for (const std::size_t bytes : {200, 100, 200, 200}) { // the second one's gap costs more
    b.publish(bytes * KiB);
  }
  b.settle();
  CHECK(b.copies() == 2);
  CHECK((b.comes(0, 200 * KiB) && b.comes(1, 100 * KiB)));
  CHECK((b.comes(2, 200 * KiB) && b.comes(3, 200 * KiB)));
}

TEST_CASE("a copy of Ragged slots takes no more than it may") {
  Bench b{8, 8, 200 * KiB, 500 * KiB}; // two slots
  for (std::size_t i = 0; i != 5; ++i) {
    b.publish(200 * KiB);
  }
  b.settle();
  CHECK(b.copies() == 3);
  for (std::size_t i = 0; i != 5; ++i) {
    CHECK(b.comes(i, 200 * KiB));
  }
}

TEST_CASE("a copy of Ragged slots ends where a ring wraps, at a short slot and at an epoch's end") {
  Bench b{6, 4, 200 * KiB};
  for (std::size_t i = 0; i != 4; ++i) {
    b.publish(200 * KiB);
  }
  b.settle();
  CHECK(b.copies() == 1);
  for (std::size_t i = 0; i != 4; ++i) {
    CHECK(b.comes(i, 200 * KiB));
  }
  b.publish(200 * KiB); // in the last places of the host's ring
  b.publish(200 * KiB, units, true);
  b.publish(200 * KiB);
  b.publish(3, 3, true);
  b.settle();
  CHECK(b.copies() == 3);
  CHECK((b.comes(4, 200 * KiB) && b.comes(5, 200 * KiB)));
  CHECK((b.comes(6, 200 * KiB) && b.comes(7, 3, 3)));
}

TEST_CASE("a copy of Ragged slots ends before a place that is in use") {
  Bench b{8, 3, 200 * KiB};
  for (std::size_t i = 0; i != 5; ++i) {
    b.publish(200 * KiB);
  }
  b.settle();
  CHECK(b.copies() == 1);
  CHECK((b.comes(0, 200 * KiB) && b.comes(1, 200 * KiB) && b.comes(2, 200 * KiB)));
  b.settle();
  CHECK(b.copies() == 2);
  CHECK((b.comes(3, 200 * KiB) && b.comes(4, 200 * KiB)));
}
