// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels between copies, and the way back, on every device. The including file defines TestDevice,
// for_each_device(f), which calls f with each device to try, ps::for_each(stream, n, functor), and
// delay(stream, time), which keeps a stream busy.

#include "suite/through.hpp"
#include "support/all_pairs.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <iterator>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>

namespace suite {

using namespace std::chrono_literals;
using tests::Came;
using tests::Outcome;
using tests::outcome_of;

/// A device whose next copy to the host may come late, and whose streams may forget to wait.
struct Device : TestDevice {
  using TestDevice::TestDevice;
  void copy_to_host(void* to, const void* from, std::size_t bytes, ps::Stream<TestDevice> stream) {
    if (late.count() != 0) {
      delay(stream, std::exchange(late, 0us));
    }
    TestDevice::copy_to_host(to, from, bytes, stream);
  }
  void wait(ps::Stream<TestDevice> stream, const TestDevice::event_type& event) {
    if (!forgetful) {
      TestDevice::wait(stream, event);
    }
  }
  std::chrono::microseconds late{0};
  bool forgetful = false;
};

using Stream = ps::Stream<Device>;
using In = ps::Batch<const std::byte, ps::Device>;
using Out = ps::Batch<std::byte, ps::Device>;
using Landed = ps::Batch<const std::byte, ps::Pinned>;

// One type for all callables: stages of many lambdas would take long to compile.
using Make = std::function<void(In, Out, Stream)>;
using Change = std::function<void(Out, Stream)>;
using See = std::function<void(Landed)>;

/// Computes byte `at` of a batch's output: that byte of the sum of a group's records, with another
/// summand for each output record of the group.
struct Fold {
  In in;
  Out out;
  std::size_t gives, per;

  PENSTOCK_HD static unsigned char value(const unsigned char* in, std::size_t records,
                                         std::size_t in_bytes, std::size_t out_bytes,
                                         std::size_t gives, std::size_t per, std::size_t at) {
    const std::size_t given = at / out_bytes;
    const std::size_t column = at % out_bytes % in_bytes;
    const std::size_t first = given / gives * per;
    const std::size_t last = per == 0 || first + per > records ? records : first + per;
    std::size_t sum = 1 + given % gives * 29 + at % out_bytes / in_bytes;
    for (std::size_t i = first; i < last; ++i) {
      sum += in[i * in_bytes + column];
    }
    return static_cast<unsigned char>(sum);
  }
  PENSTOCK_HD void operator()(std::size_t at) const {
    out.data()[at] =
        static_cast<std::byte>(value(reinterpret_cast<const unsigned char*>(in.data()), in.size(),
                                     in.record_bytes(), out.record_bytes(), gives, per, at));
  }
};

/// out = in + add, each byte by itself, `step` bytes a call; both begin at a multiple of 8.
struct Add {
  static constexpr std::size_t step = 64;
  const std::byte* in;
  std::byte* out;
  std::size_t bytes;
  unsigned add;
  PENSTOCK_HD void operator()(std::size_t at) const {
    constexpr std::uint64_t ones = 0x0101010101010101, low = 0x7F * ones;
    const std::uint64_t adds = add * ones; // less than 128
    const std::size_t end = (at + 1) * step < bytes ? (at + 1) * step : bytes;
    std::size_t i = at * step;
    for (; i + 8 <= end; i += 8) {
      const std::uint64_t word = *reinterpret_cast<const std::uint64_t*>(in + i);
      *reinterpret_cast<std::uint64_t*>(out + i) = ((word & low) + adds) ^ (word & ~low);
    }
    for (; i < end; ++i) {
      out[i] = static_cast<std::byte>(static_cast<unsigned>(in[i]) + add);
    }
  }
};
inline void add_to(const std::byte* in, const Out& out, unsigned add, Stream stream) {
  ps::for_each(stream, (out.size_bytes() + Add::step - 1) / Add::step,
               Add{in, out.data(), out.size_bytes(), add});
}
inline std::vector<std::byte> added(std::vector<std::byte> bytes, unsigned add) {
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(static_cast<unsigned>(byte) + add);
  }
  return bytes;
}

/// A run: the records it reads, what a Kernel makes of them, and the slots in which they land.
struct Shape {
  std::size_t record = 16; // bytes
  std::size_t records = 1000;
  std::size_t epochs = 1;
  std::size_t slot = 0;
  std::size_t batch = 64;
  std::size_t gives = 1, per = 1;
  std::size_t out = 16; // bytes of a record given
  unsigned streams = 1;
  std::size_t landing = 0;
  bool uneven = false; // the times of batches differ much

  std::size_t of(std::size_t n) const { return per == 0 ? gives : (n + per - 1) / per * gives; }
  std::size_t given_an_epoch() const {
    return records / batch * of(batch) + (records % batch != 0 ? of(records % batch) : 0);
  }
  std::size_t lands() const {
    return landing != 0 ? landing : std::min(of(batch), ps::detail::slot_records(out));
  }
  Make make() const {
    return [s = *this](In in, Out made, Stream stream) {
      if (s.uneven) {
        delay(stream, 200us * (in.index() / s.batch * 5 % 4));
      }
      ps::for_each(stream, made.size_bytes(), Fold{in, made, s.gives, s.per});
    };
  }
  /// Returns the output for an epoch of `bytes`, repeated for each epoch.
  std::vector<std::byte> made(const std::vector<std::byte>& bytes) const {
    std::vector<std::byte> all;
    for (std::size_t at = 0; at < records; at += batch) {
      const std::size_t n = std::min(batch, records - at);
      const auto* in = reinterpret_cast<const unsigned char*>(bytes.data() + at * record);
      for (std::size_t i = 0; i < of(n) * out; ++i) {
        all.push_back(static_cast<std::byte>(Fold::value(in, n, record, out, gives, per, i)));
      }
    }
    return repeated(all);
  }
  std::vector<std::byte> repeated(const std::vector<std::byte>& epoch) const {
    std::vector<std::byte> all;
    for (std::size_t i = 0; i < epochs; ++i) {
      all.insert(all.end(), epoch.begin(), epoch.end());
    }
    return all;
  }

  ps::ReaderOptions reading() const {
    return {.workers = 2, .depth = 3, .epochs = epochs, .batch = slot};
  }
  auto to_device(Device& device, const std::vector<std::byte>& bytes) const {
    return ps::Reader{ps::memory(std::span{bytes}, {.record_bytes = record}), ps::to_pinned,
                      reading()} |
           ps::AsyncCopier{device, {.batch = batch}};
  }
  ps::KernelOptions kernel() const {
    return {.streams = streams, .gives = gives, .per = per, .extents = {out}};
  }
  auto home() const { return ps::AsyncCopier{ps::to_host, {.batch = landing}}; }
};

/// What arrived on the host, in order.
struct Arrived {
  struct One {
    std::uint64_t index, source;
    std::size_t size;
  };
  std::vector<One> slots;
  std::vector<std::byte> bytes;
  bool aligned = true;

  void operator()(Landed batch) {
    slots.push_back({batch.index(), batch.source_index(), batch.size()});
    bytes.insert(bytes.end(), batch.data(), batch.data() + batch.size_bytes());
    aligned = aligned && reinterpret_cast<std::uintptr_t>(batch.data()) % batch.alignment() == 0;
  }
  See see() {
    return [this](Landed batch) { (*this)(batch); };
  }
  bool holds(const std::vector<std::byte>& expected) const { return bytes == expected; }

  /// Says what is wrong with the slots' numbers; empty if nothing.
  std::string wrong(const Shape& s) const {
    const std::size_t epoch = s.given_an_epoch();
    std::uint64_t index = 0;
    for (const One& slot : slots) {
      const std::size_t at = epoch == 0 ? 0 : index % epoch;
      const std::size_t whole = s.of(s.batch);
      // A batch with another number of records gives all of them its own number.
      const bool same = s.gives == 1 && s.per == 1;
      const std::uint64_t source = at / whole * s.batch + (same ? at % whole : 0);
      if (slot.index != index || slot.size != std::min(s.lands(), epoch - at) ||
          slot.source != source) {
        return "a slot of " + std::to_string(slot.size) + " from " + std::to_string(slot.index) +
               ", in the source " + std::to_string(slot.source) + ", where " +
               std::to_string(std::min(s.lands(), epoch - at)) + " from " + std::to_string(index) +
               " were due, in the source " + std::to_string(source);
      }
      index += slot.size;
    }
    return index == epoch * s.epochs ? "" : std::to_string(index) + " records in all";
  }
};

// The pipelines, each made in one place, which saves compile time.

[[gnu::noinline]] inline auto by_kernel(const Shape& s, Device& device,
                                        const std::vector<std::byte>& bytes, Make make) {
  return s.to_device(device, bytes) | ps::Kernel<Make>{std::move(make), s.kernel()};
}
[[gnu::noinline]] inline auto home_by_kernel(const Shape& s, Device& device,
                                             const std::vector<std::byte>& bytes, Make make,
                                             See see) {
  return by_kernel(s, device, bytes, std::move(make)) | s.home() |
         ps::Consumer<See>{std::move(see), {.workers = 1}};
}
[[gnu::noinline]] inline auto home_in_place(const Shape& s, Device& device,
                                            const std::vector<std::byte>& bytes, Change change,
                                            See see) {
  return s.to_device(device, bytes) | ps::Kernel<Change>{std::move(change)} | s.home() |
         ps::Consumer<See>{std::move(see), {.workers = 1}};
}
[[gnu::noinline]] inline auto straight_home(const Shape& s, Device& device,
                                            const std::vector<std::byte>& bytes, See see) {
  return s.to_device(device, bytes) | s.home() | ps::Consumer<See>{std::move(see), {.workers = 1}};
}
/// Two Kernels in place, on one stream and on `streams`.
[[gnu::noinline]] inline auto twice_in_place(const Shape& s, Device& device,
                                             const std::vector<std::byte>& bytes, Change first,
                                             Change second, ps::KernelOptions options = {}) {
  return s.to_device(device, bytes) | ps::Kernel<Change>{std::move(first), options} |
         ps::Kernel<Change>{std::move(second), {.streams = 2}};
}
/// Four Kernels: two in place, one out of place, and one in place.
[[gnu::noinline]] inline auto home_by_four(const Shape& s, Device& device,
                                           const std::vector<std::byte>& bytes, Change first,
                                           Change second, Make make, Change last, See see) {
  return s.to_device(device, bytes) | ps::Kernel<Change>{std::move(first), {.streams = s.streams}} |
         ps::Kernel<Change>{std::move(second), {.streams = 3}} |
         ps::Kernel<Make>{std::move(make), s.kernel()} |
         ps::Kernel<Change>{std::move(last), {.streams = s.streams}} | s.home() |
         ps::Consumer<See>{std::move(see), {.workers = 1}};
}

inline Change adder(unsigned add, std::chrono::microseconds pause = 0us) {
  return [=](Out batch, Stream stream) {
    delay(stream, pause * (batch.index() / 64 % 3));
    add_to(batch.data(), batch, add, stream);
  };
}

/// Which user is slow with the first batch, and thereby with all, so that places come round while
/// they are in use.
enum class Slow { nobody, kernel, consumer, second_stream };

inline Make slow_add(Slow slow, unsigned add) {
  return [=](In in, Out made, Stream stream) {
    if (slow == Slow::kernel && in.index() == 0) {
      delay(stream, 100ms);
    }
    add_to(in.data(), made, add, stream);
  };
}

/// Ten batches, the last of them short.
inline constexpr Shape ten{.record = 1, .records = 998'766, .batch = 100'000, .out = 1};
inline const std::vector<std::byte>& ten_batches() {
  static const auto bytes = some_bytes(ten.records);
  return bytes;
}
/// More than the device holds at once, which is nine batches of this size.
inline constexpr Shape much{
    .record = 1, .records = 12 * 4'500'000 + 1, .batch = 4'500'000, .out = 1};
inline const std::vector<std::byte>& more_than_fits() {
  static const auto bytes = some_bytes(much.records);
  return bytes;
}

TEST_CASE("what kernels make of every record comes home in order, for all pairs of settings") {
  const std::array<std::size_t, 3> record_sizes{1, 16, 4097};
  const std::array<std::size_t, 3> batches{7, 64, 300};
  const std::array<std::pair<std::size_t, std::size_t>, 5> recounts{
      {{1, 1}, {3, 1}, {1, 16}, {2, 5}, {1, 0}}};
  const auto rows = tests::all_pairs<9>({3, 3, 7, 2, 2, 5, 2, 3, 5});
  std::printf("all pairs: %zu combinations\n", rows.size());
  tests::Watchdog watchdog{"all pairs"};
  for (const auto& row : rows) {
    watchdog.progress(static_cast<std::uint64_t>(&row - rows.data()));
    Shape s{.record = record_sizes[row[0]], .batch = batches[row[1]]};
    s.records = std::array{std::size_t{0}, std::size_t{1}, s.batch - 1,     s.batch,
                           s.batch + 1,    3 * s.batch,    11 * s.batch + 5}[row[2]];
    s.epochs = row[3] == 0 ? 1 : 3;
    s.slot = row[4] == 0 ? 0 : 50;
    std::tie(s.gives, s.per) = recounts[row[5]];
    s.out = row[6] == 0 ? s.record : 8;
    s.streams = static_cast<unsigned>(row[7] + 1);
    const std::size_t whole = s.of(s.batch);
    s.landing =
        std::array{std::size_t{0}, whole / 2 + 1, whole, whole + whole / 2 + 1, 4 * whole}[row[8]];
    CAPTURE(s.record, s.batch, s.records, s.epochs, s.slot, s.gives, s.per, s.out, s.streams,
            s.landing);
    const auto bytes = some_bytes(s.records * s.record);
    const auto expected = s.made(bytes);
    for_each_device<Device>([&](Device& device) {
      Arrived got;
      auto pipeline = home_by_kernel(s, device, bytes, s.make(), got.see());
      const ps::Report& report = pipeline.run();
      CHECK(got.wrong(s) == "");
      CHECK(got.holds(expected));
      CHECK(got.aligned);
      CHECK(report.records == s.given_an_epoch() * s.epochs);
      CHECK(report.dropped == 0);
    });
  }
}

TEST_CASE("batches come straight home, in slots of any size, run after run") {
  for (const std::size_t records : {0, 1, 63, 64, 65, 640, 1000}) {
    for (const std::size_t landing : {0, 1, 10, 64, 100, 256}) {
      Shape s{.records = records, .epochs = 3, .landing = landing};
      CAPTURE(records, landing);
      const auto bytes = some_bytes(s.records * s.record);
      for_each_device<Device>([&](Device& device) {
        Arrived got;
        auto pipeline = straight_home(s, device, bytes, got.see());
        for (int run = 0; run < (records == 1000 ? 3 : 1); ++run) {
          got = {};
          pipeline.run();
          CHECK(got.wrong(s) == "");
          CHECK(got.holds(s.repeated(bytes)));
        }
      });
    }
  }
}

TEST_CASE("records that travel in pieces come home whole") {
  constexpr std::size_t mib = std::size_t{1} << 20;
  Shape s{.record = 3 * mib, .records = 3, .epochs = 2, .out = 3 * mib};
  const auto bytes = some_bytes(s.records * s.record);
  const auto expected = s.repeated(added(bytes, 3));
  for (const auto& [batch, landing] : {std::pair{1, 0}, {2, 3}}) {
    s.batch = static_cast<std::size_t>(batch);
    s.landing = static_cast<std::size_t>(landing);
    CAPTURE(batch, landing);
    for_each_device<Device>([&](Device& device) {
      Arrived got;
      const auto check = [&](auto& pipeline, const std::vector<std::byte>& all) {
        got = {};
        pipeline.run();
        CHECK(got.wrong(s) == "");
        CHECK(got.holds(all));
      };
      auto straight = straight_home(s, device, bytes, got.see());
      check(straight, s.repeated(bytes));
      auto in_place = home_in_place(s, device, bytes, adder(3), got.see());
      check(in_place, expected);
      auto apart = home_by_kernel(s, device, bytes, slow_add(Slow::nobody, 3), got.see());
      check(apart, expected);
    });
  }
}

TEST_CASE("kernels follow each other, in place and out of it, run after run") {
  // The third one gives two records of 24 bytes for each of 16.
  Shape s{.records = 1003, .epochs = 2, .slot = 100, .gives = 2, .out = 24, .landing = 100};
  const auto bytes = some_bytes(s.records * s.record);
  const auto expected = added(s.made(added(bytes, 3)), 4);
  for_each_device<Device>([&](Device& device) {
    for (const unsigned streams : {1U, 2U}) {
      CAPTURE(streams);
      s.streams = streams;
      std::atomic<bool> numbered{true};
      Arrived got;
      auto pipeline = home_by_four(
          s, device, bytes, adder(1, 100us),
          [&, plus = adder(2, 100us)](Out batch, Stream stream) {
            numbered = numbered && batch.source_index() == batch.index() % s.records;
            plus(batch, stream);
          },
          [&, fold = s.make()](In in, Out made, Stream stream) {
            numbered = numbered && in.source_index() == made.source_index() &&
                       made.index() == 2 * in.index() && made.size() == 2 * in.size();
            fold(in, made, stream);
          },
          adder(4, 100us), got.see());
      for (int run = 0; run < 3; ++run) {
        got = {};
        const ps::Report& report = pipeline.run();
        CHECK(got.wrong(s) == "");
        CHECK(got.holds(expected));
        CHECK(report.records == 2 * 1003 * 2);
        CHECK(report.dropped == 0);
      }
      CHECK(numbered);
    }
  });
}

TEST_CASE("batches that take times of their own keep their order, on one stream and on several") {
  for (const unsigned streams : {1U, 2U, 3U}) {
    for (const std::size_t landing : {1, 64, 200}) {
      Shape s{.records = 1990, .streams = streams, .landing = landing, .uneven = true};
      CAPTURE(streams, landing);
      const auto bytes = some_bytes(s.records * s.record);
      const auto expected = s.made(bytes);
      for_each_device<Device>([&](Device& device) {
        Arrived got;
        auto pipeline = home_by_kernel(s, device, bytes, s.make(), got.see());
        for (int run = 0; run < 2; ++run) {
          got = {};
          pipeline.run();
          CHECK(got.wrong(s) == "");
          CHECK(got.holds(expected));
        }
        auto on_device = by_kernel(s, device, bytes, s.make());
        Collector<Device> seen{device, expected.size()};
        auto stream = device.stream();
        for (auto batch : on_device.on(stream)) {
          seen(batch, stream);
        }
        CHECK(seen.in_order);
        CHECK(seen.aligned);
        CHECK(seen.holds(expected));
      });
    }
  }
}

TEST_CASE("eight bytes a batch come home, many at once, through slots that come round again") {
  // More slots than a landing ring may have of this size.
  const std::size_t records = 3000 * 16 + 1;
  for (const std::size_t landing : {0, 1, 5}) {
    Shape s{.record = 4, .records = records, .batch = 16, .per = 0, .out = 8, .landing = landing};
    CAPTURE(landing);
    const auto bytes = some_bytes(s.records * s.record);
    const auto expected = s.made(bytes);
    for_each_device<Device>([&](Device& device) {
      Arrived got;
      auto pipeline = home_by_kernel(s, device, bytes, s.make(), got.see());
      const ps::Report& report = pipeline.run();
      CHECK(got.wrong(s) == "");
      CHECK(got.holds(expected));
      CHECK(report.records == 3001);
      CHECK(report.stages.back().bytes == 3001 * 8);
    });
  }
}

template <class P> bool loop_sees_right(P& pipeline, Device& device, Slow slow,
                                        const std::vector<std::byte>& expected) {
  Collector<Device> got{device, expected.size()};
  auto stream = device.stream();
  auto other = device.stream();
  auto ready = device.event();
  for (auto batch : pipeline.on(stream)) {
    if (slow != Slow::second_stream) {
      if (slow == Slow::consumer && batch.index() == 0) {
        delay(stream, 100ms);
      }
      got(batch, stream);
      continue;
    }
    device.record(ready, stream);
    device.TestDevice::wait(other, ready); // the application's own wait always counts
    if (batch.index() == 0) {
      delay(other, 100ms);
    }
    got(batch, other);
    batch.used_on(other);
  }
  device.sync(other);
  return got.in_order && got.holds(expected);
}
TEST_CASE("places that come round wait for whoever is slow") {
  const auto expected = added(more_than_fits(), 3);
  Device device;
  for (const Slow slow : {Slow::kernel, Slow::consumer, Slow::second_stream}) {
    CAPTURE(static_cast<int>(slow));
    Shape s = much;
    s.streams = 2;
    auto apart = by_kernel(s, device, more_than_fits(), slow_add(slow, 3));
    CHECK(loop_sees_right(apart, device, slow, expected));
    const auto add = [slow](unsigned by) {
      return [make = slow_add(slow, by)](Out batch, Stream stream) { make(batch, batch, stream); };
    };
    auto in_place = twice_in_place(s, device, more_than_fits(), add(1), add(2));
    CHECK(loop_sees_right(in_place, device, slow, expected));
  }
}

TEST_CASE("places that come round wait for copies home that are slow") {
  const auto expected = added(more_than_fits(), 3);
  Device device;
  Arrived got;
  got.bytes.reserve(expected.size());
  const auto check = [&](auto pipeline, const std::vector<std::byte>& all) {
    device.late = 100ms;
    got.slots.clear();
    got.bytes.clear();
    pipeline.run();
    CHECK(got.wrong(much) == "");
    CHECK(got.holds(all));
  };
  check(straight_home(much, device, more_than_fits(), got.see()), more_than_fits());
  check(home_by_kernel(much, device, more_than_fits(), slow_add(Slow::nobody, 3), got.see()),
        expected);
  check(home_in_place(much, device, more_than_fits(), adder(3), got.see()), expected);
}

TEST_CASE("without the waits for fences, wrong bytes come home", "[race]") {
  // The planted fault: a race, which ThreadSanitizer would report by itself.
  bool caught = false;
  for (int attempt = 0; attempt < (tests::under_tsan ? 1 : 20) && !caught; ++attempt) {
    for_each_device<Device>([&](Device& device) {
      device.forgetful = !tests::under_tsan;
      Shape s{.records = 1990, .streams = 2, .uneven = true};
      const auto bytes = some_bytes(s.records * s.record);
      Arrived got;
      auto pipeline = home_by_kernel(s, device, bytes, s.make(), got.see());
      pipeline.run();
      caught = caught || !got.holds(s.made(bytes));
    });
  }
  CHECK(caught == !tests::under_tsan);
}

TEST_CASE("what is given back after the loop is waited for by the next run, behind kernels too") {
  for_each_device<Device>([&](Device& device) {
    const auto check = [&](auto open) {
      auto bytes = ten_batches();
      auto pipeline = open(bytes);
      auto a = device.stream();
      auto b = device.stream();
      auto ready = device.event();
      Collector<Device> late{device, bytes.size()};
      for (const bool second : {false, true, false}) {
        CAPTURE(second);
        const auto before = added(bytes, 3);
        late.clear();
        ps::Lease<In> kept;
        for (auto batch : pipeline.on(a)) {
          kept = std::move(batch);
          break;
        }
        Stream user = second ? b : a;
        device.record(ready, a);
        device.wait(b, ready);
        delay(user, 20ms);
        late(kept, user);
        if (second) {
          kept.used_on(b);
        }
        kept.release();
        std::reverse(bytes.begin(), bytes.end()); // other bytes for the same place
        auto next = device.stream();
        Collector<Device> got{device, bytes.size()};
        for (auto batch : pipeline.on(next)) {
          got(batch, next);
        }
        CHECK(got.in_order);
        CHECK(got.holds(added(bytes, 3)));
        device.sync(a);
        device.sync(b);
        CHECK(std::memcmp(late.bytes().data(), before.data(), ten.batch) == 0);
      }
    };
    check([&](const std::vector<std::byte>& bytes) {
      return by_kernel(ten, device, bytes, slow_add(Slow::nobody, 3));
    });
    check([&](const std::vector<std::byte>& bytes) {
      return twice_in_place(ten, device, bytes, adder(1), adder(2));
    });
  });
}

TEST_CASE("a loop takes what came home, may be left early, and its leases outlive the pipeline") {
  const auto expected = added(ten_batches(), 3);
  const Shape s = [] {
    Shape landing = ten;
    landing.landing = ten.batch;
    return landing;
  }();
  for_each_device<Device>([&](Device& device) {
    std::vector<ps::Lease<Landed>> held;
    {
      auto pipeline = by_kernel(s, device, ten_batches(), slow_add(Slow::nobody, 3)) | s.home();
      for (int run = 0; run < 3; ++run) {
        Arrived got;
        for (auto batch : pipeline.batches()) {
          got(batch);
        }
        CHECK(got.wrong(s) == "");
        CHECK(got.holds(expected));
        for (auto batch : pipeline.batches()) {
          if (batch.index() == s.batch) {
            break;
          }
        }
        CHECK(pipeline.report().stopped);
      }
      for (auto batch : pipeline.batches()) {
        held.push_back(std::move(batch));
        if (held.size() == 2) {
          break;
        }
      }
    }
    REQUIRE(held.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(held[i].index() == i * s.batch);
      CHECK(std::memcmp(held[i].data(), expected.data() + i * s.batch, s.batch) == 0);
    }
  });
}

TEST_CASE("from disk to disk: what the Writer writes is what the kernel made of the file") {
  const tests::TempDir dir;
  Shape s{.record = 1000, .records = 7003, .epochs = 2, .batch = 500, .streams = 2};
  s.out = s.record;
  const auto bytes = some_bytes(s.records * s.record);
  const std::string from = dir.write("in", std::span<const std::byte>{bytes});
  const auto expected = s.repeated(added(bytes, 3));
  for_each_device<Device>([&](Device& device) {
    auto pipeline = ps::Reader{ps::records<std::byte>(from, {.record_bytes = s.record}),
                               ps::to_pinned, s.reading()} |
                    ps::AsyncCopier{device, {.batch = s.batch}} |
                    ps::Kernel<Make>{slow_add(Slow::nobody, 3), s.kernel()} |
                    ps::AsyncCopier{ps::to_host} | ps::Writer{dir / "out", {.workers = 3}};
    for (int run = 0; run < 2; ++run) {
      const ps::Report& report = pipeline.run();
      CHECK(report.records == s.records * s.epochs);
      const std::string written = tests::content_of(dir / "out");
      REQUIRE(written.size() == expected.size());
      CHECK(std::memcmp(written.data(), expected.data(), expected.size()) == 0);
    }
  });
}

TEST_CASE("what came home is decoded, goes to the device again, and comes home again") {
  Shape s{.records = 1500, .epochs = 2, .slot = 100, .landing = 40};
  const auto bytes = some_bytes(s.records * s.record);
  const auto expected = s.repeated(added(bytes, 7));
  for_each_device<Device>([&](Device& device) {
    Arrived got;
    std::atomic<bool> numbered{true};
    auto pipeline =
        by_kernel(s, device, bytes, slow_add(Slow::nobody, 1)) | s.home() |
        ps::Decoder{[&](Landed in, ps::Batch<std::byte, ps::Pinned> out) {
                      numbered = numbered && in.source_index() == in.index() % s.records;
                      for (std::size_t i = 0; i < in.size_bytes(); ++i) {
                        out.data()[i] =
                            static_cast<std::byte>(static_cast<unsigned>(in.data()[i]) + 2);
                      }
                    },
                    {.workers = 2, .extents = {s.out}}} |
        ps::AsyncCopier{device, {.batch = 77}} |
        ps::Kernel<Make>{slow_add(Slow::nobody, 4), s.kernel()} | s.home() |
        ps::Consumer<See>{got.see(), {.workers = 1}};
    for (int run = 0; run < 3; ++run) {
      got = {};
      const ps::Report& report = pipeline.run();
      CHECK(got.wrong(s) == "");
      CHECK(got.holds(expected));
      std::string names;
      for (const ps::StageReport& stage : report.stages) {
        names += stage.name + ", ";
        CHECK(stage.records == s.records * s.epochs);
        CHECK(stage.bytes == expected.size());
      }
      CHECK(names == "Reader, AsyncCopier, Kernel, AsyncCopier 2, Decoder, AsyncCopier 3, "
                     "Kernel 2, AsyncCopier 4, Consumer, ");
    }
    CHECK(numbered);
  });
}

struct Sample
    : ps::Columns<ps::Field<"image", std::uint8_t, 3, 5>, ps::Field<"label", std::int32_t>> {};
struct Words
    : ps::Columns<ps::Field<"tokens", std::uint16_t, ps::dynamic>, ps::Field<"label", std::int64_t>,
                  ps::Field<"mask", std::uint8_t, 2, ps::dynamic>> {};

/// Samples whose values tell where they belong.
struct Samples {
  using schema = Sample;
  std::uint64_t records;
  PENSTOCK_HD static std::uint8_t pixel(std::uint64_t record, std::size_t i) {
    return static_cast<std::uint8_t>(record * 31 + i * 7);
  }
  std::uint64_t size() const { return records; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Sample, Where> into) const {
    const auto image = ps::get<"image">(into);
    const auto label = ps::get<"label">(into);
    for (std::size_t i = 0; i < into.size(); ++i) {
      const std::uint64_t record = into.source_index() + i;
      label[i] = static_cast<std::int32_t>(record);
      for (std::size_t k = 0; k < image.elements(); ++k) {
        image.data()[i * image.elements() + k] = pixel(record, k);
      }
    }
    return into.size();
  }
};
/// Each sample as words: pixels in order, three times each; and the pixels that are odd.
struct Spell {
  ps::Batch<const Sample, ps::Device> in;
  ps::Batch<Words, ps::Device> out;
  PENSTOCK_HD void operator()(std::size_t i) const {
    const auto image = ps::get<"image">(in);
    const auto tokens = ps::get<"tokens">(out);
    const auto mask = ps::get<"mask">(out);
    ps::get<"label">(out)[i] = 2 * ps::get<"label">(in)[i];
    const std::uint8_t* pixels = image.data() + i * image.elements();
    for (std::size_t k = 0; k < tokens.elements(); ++k) {
      tokens.data()[i * tokens.elements() + k] =
          static_cast<std::uint16_t>(3 * pixels[k % image.elements()]);
    }
    for (std::size_t k = 0; k < mask.elements(); ++k) {
      mask.data()[i * mask.elements() + k] = pixels[k % image.elements()] % 2;
    }
  }
};
struct Renumber {
  ps::Batch<Words, ps::Device> batch;
  PENSTOCK_HD void operator()(std::size_t i) const { ps::get<"label">(batch)[i] += 1; }
};

TEST_CASE("columns become other columns, with extents of their own, are changed, and come home") {
  constexpr std::size_t records = 1003, epochs = 2, tokens = 19, mask = 4;
  for_each_device<Device>([&](Device& device) {
    for (const std::size_t landing : {0, 64, 100}) {
      CAPTURE(landing);
      auto pipeline =
          ps::Reader{
              Samples{records}, ps::to_pinned, {.workers = 2, .epochs = epochs, .batch = 97}} |
          ps::AsyncCopier{device, {.batch = 64}} |
          ps::Kernel{[](ps::Batch<const Sample, ps::Device> in, ps::Batch<Words, ps::Device> out,
                        Stream stream) { ps::for_each(stream, in.size(), Spell{in, out}); },
                     {.streams = 2, .extents = {tokens, mask}}} |
          ps::Kernel{[](ps::Batch<Words, ps::Device> batch, Stream stream) {
            ps::for_each(stream, batch.size(), Renumber{batch});
          }} |
          ps::AsyncCopier{ps::to_host, {.batch = landing}};
      for (int run = 0; run < 2; ++run) {
        std::uint64_t index = 0;
        std::size_t wrong = 0;
        bool numbered = true;
        for (auto batch : pipeline.batches()) {
          numbered = numbered && batch.index() == index &&
                     batch.source_index() == index % records &&
                     batch.size() == std::min<std::size_t>(landing == 0 ? 64 : landing,
                                                           records - index % records);
          const auto words = ps::get<"tokens">(batch);
          const auto odd = ps::get<"mask">(batch);
          REQUIRE(words.elements() == tokens);
          REQUIRE(odd.elements() == 2 * mask);
          for (std::size_t i = 0; i < batch.size(); ++i) {
            const std::uint64_t record = batch.source_index() + i;
            wrong +=
                ps::get<"label">(batch)[i] == static_cast<std::int64_t>(2 * record + 1) ? 0 : 1;
            for (std::size_t k = 0; k < tokens; ++k) {
              wrong += words[i].data()[k] == 3 * Samples::pixel(record, k % 15) ? 0 : 1;
            }
            for (std::size_t k = 0; k < 2 * mask; ++k) {
              wrong += odd[i].data()[k] == Samples::pixel(record, k % 15) % 2 ? 0 : 1;
            }
          }
          index += batch.size();
        }
        CHECK(wrong == 0);
        CHECK(numbered);
        CHECK(index == records * epochs);
      }
    }
  });
}

/// Counts the bytes that it sees; each sum in its own place.
struct CountBytes {
  const std::byte* in;
  std::size_t bytes;
  std::uint64_t* sums;
  PENSTOCK_HD void operator()(std::size_t part) const {
    for (std::size_t i = part; i < bytes; i += 64) {
      sums[part] += static_cast<std::uint64_t>(in[i]) + 1;
    }
  }
};

TEST_CASE("a replayed consumer waits for all streams of the kernel before it") {
  Shape s{.records = 64 * 200, .streams = 3, .uneven = true};
  const auto bytes = some_bytes(s.records * s.record);
  std::uint64_t expected = 0;
  for (const std::byte byte : s.made(bytes)) {
    expected += std::to_integer<std::uint64_t>(byte) + 1;
  }
  for_each_device<Device>([&](Device& device) {
    auto* const sums = static_cast<std::uint64_t*>(device.allocate(4096));
    auto* const read = static_cast<std::uint64_t*>(device.allocate_pinned(4096));
    auto stream = device.stream();
    std::fill_n(read, 64, std::uint64_t{0});
    device.copy_to_device(sums, read, 64 * sizeof(std::uint64_t), stream);
    device.sync(stream);
    {
      auto pipeline =
          by_kernel(s, device, bytes, s.make()) |
          ps::Consumer{ps::replayed([sums](ps::FrozenBatch<const std::byte> in, Stream of) {
            ps::for_each(of, 64, CountBytes{in.data(), in.size_bytes(), sums});
          })};
      for (std::uint64_t run = 1; run <= 3; ++run) {
        CHECK(pipeline.run().records == s.records);
        device.copy_to_host(read, sums, 64 * sizeof(std::uint64_t), stream);
        device.sync(stream);
        std::uint64_t sum = 0;
        for (int i = 0; i < 64; ++i) {
          sum += read[i];
        }
        CHECK(sum == run * expected);
      }
    }
    device.deallocate(sums, 4096);
    device.deallocate_pinned(read, 4096);
  });
}

TEST_CASE("a callable that throws is named, with its record, and the next run is whole") {
  struct Boom : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  Shape s{.records = 600, .slot = 64, .gives = 2, .out = 16, .landing = 128};
  const auto bytes = some_bytes(s.records * s.record);
  const auto expected = s.made(bytes);
  for_each_device<Device>([&](Device& device) {
    constexpr int nobody = -1;
    int who = nobody;
    std::uint64_t bad = 0;
    const auto look = [&](int me, std::uint64_t index) {
      if (me == who && index == bad) {
        throw Boom{"boom"};
      }
    };
    const auto watch = [&](int me) {
      return [&look, me](Out batch, Stream) { look(me, batch.index()); };
    };
    Arrived got;
    auto pipeline = home_by_four(
        s, device, bytes, watch(0), watch(1),
        [&, fold = s.make()](In in, Out made, Stream stream) {
          look(2, in.index());
          fold(in, made, stream);
        },
        watch(3),
        [&](Landed batch) {
          look(4, batch.index());
          got(batch);
        });
    const char* const names[]{"Kernel", "Kernel 2", "Kernel 3", "Kernel 4", "Consumer"};
    for (int each = 0; each < 5; ++each) {
      for (const std::uint64_t batch : {0, 4, 9}) {
        who = each;
        bad = batch * (each < 3 ? 64 : 128);
        CAPTURE(names[each], bad);
        const Outcome out = outcome_of([&] { pipeline.run(); });
        CAPTURE(out);
        CHECK(out.came == Came::stage_error);
        CHECK(out.stage == names[each]);
        CHECK(out.record == bad);
        CHECK(out.says("boom"));
        REQUIRE(out.nested);
        CHECK_THROWS_AS(std::rethrow_exception(out.nested), Boom);
        CHECK(pipeline.report().records <= (each < 3 ? 2 * bad : bad));
        who = nobody;
        got = {};
        CHECK(pipeline.run().records == 1200);
        CHECK(got.wrong(s) == "");
        CHECK(got.holds(expected));
      }
    }
  });
}

TEST_CASE("stops at random times end a run both ways, and the next is whole") {
  tests::Watchdog watchdog{"stops both ways"};
  Shape s{.records = 12'800, .streams = 2, .landing = 100, .uneven = true};
  const auto bytes = some_bytes(s.records * s.record);
  const auto expected = s.made(bytes);
  for_each_device<Device>([&](Device& device) {
    Arrived got;
    auto pipeline = home_by_kernel(s, device, bytes, s.make(), got.see());
    pipeline.prepare();
    std::mt19937 random{17};
    std::uint64_t stopped = 0;
    for (std::uint64_t round = 0; round < 12; ++round) {
      watchdog.progress(round);
      got = {};
      std::thread stopper{[&, after = std::chrono::microseconds{random() % 20'000}] {
        std::this_thread::sleep_for(after);
        pipeline.stop();
      }};
      const ps::Report& report = pipeline.run();
      stopper.join();
      stopped += report.stopped ? 1 : 0;
      CHECK(report.records == got.bytes.size() / s.out);
      CHECK(std::equal(got.bytes.begin(), got.bytes.end(), expected.begin()));
      CHECK(report.dropped == report.stages[0].records - report.records);
    }
    CHECK(stopped > 0);
    got = {};
    pipeline.run();
    CHECK(got.wrong(s) == "");
    CHECK(got.holds(expected));
  });
}

TEST_CASE("the Report tells of kernels what they took, and what they gave of bytes") {
  for (const auto& [gives, per] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {3, 1}, {1, 16}, {2, 0}}) {
    CAPTURE(gives, per);
    Shape s{.records = 1000, .epochs = 2, .gives = gives, .per = per, .out = 24};
    const auto bytes = some_bytes(s.records * s.record);
    const std::uint64_t read = s.records * s.epochs, given = s.given_an_epoch() * s.epochs;
    for_each_device<Device>([&](Device& device) {
      Arrived got;
      auto pipeline = home_by_kernel(s, device, bytes, s.make(), got.see());
      const ps::Report& report = pipeline.run();
      const std::array<const char*, 5> names{"Reader", "AsyncCopier", "Kernel", "AsyncCopier 2",
                                             "Consumer"};
      REQUIRE(report.stages.size() == names.size());
      for (std::size_t i = 0; i < names.size(); ++i) {
        CAPTURE(names[i]);
        const ps::StageReport& stage = report.stages[i];
        CHECK(stage.name == names[i]);
        CHECK(stage.workers == (i == 0 ? 2 : 1));
        CHECK(stage.records == (i < 3 ? read : given));
        CHECK(stage.bytes == (i < 2 ? read * s.record : given * s.out));
        CHECK((stage.depth >= 2) == (i != 4));
        CHECK(stage.skipped == 0);
      }
      CHECK(report.records == given);
      CHECK(report.records_in_all == read);
      CHECK(report.dropped == 0);
      CHECK_FALSE(report.stopped);
    });
  }
}

TEST_CASE("what a Kernel is told and cannot do is refused by prepare, with its name") {
  const auto bytes = some_bytes(1600);
  for_each_device<Device>([&](Device& device) {
    const Shape s{.records = 100};
    const auto refused = [&](ps::KernelOptions options, const char* why) {
      auto pipeline = s.to_device(device, bytes) | ps::Kernel<Make>{s.make(), std::move(options)};
      const Outcome out = outcome_of([&] { pipeline.prepare(); });
      CAPTURE(out);
      CHECK(out.came == Came::error);
      CHECK(out.says("Kernel: "));
      CHECK(out.says(why));
    };
    refused({.streams = 0, .extents = {16}}, "streams is 0");
    refused({.streams = 65, .extents = {16}}, "streams is 65");
    refused({.depth = 1, .extents = {16}}, "depth is 1");
    refused({.gives = 0, .extents = {16}}, "gives is 0");
    refused({.gives = ~std::size_t{0}, .extents = {16}}, "Kernel");
    const auto refused_in_place = [&](ps::KernelOptions options) {
      auto pipeline = twice_in_place(s, device, bytes, adder(1), adder(2), std::move(options));
      const Outcome out = outcome_of([&] { pipeline.prepare(); });
      CAPTURE(out);
      CHECK(out.says("in place keeps its records"));
    };
    refused_in_place({.gives = 2});
    refused_in_place({.per = 16});
  });
}

} // namespace suite
