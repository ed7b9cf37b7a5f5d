// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The application's own loop on every device: which batches it gets, how it ends, and what may
// outlive it. The including file defines TestDevice, for_each_device(f), which calls f with each
// device to try, delay(stream, time), which keeps a stream busy, and all_given_back(device), which
// tells whether all memory of the device was given back.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/sanitizer.hpp"
#include "support/test_devices.hpp"
#include "support/watchdog.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace suite {

using D = TestDevice;
using Bytes = ps::Batch<const std::byte, ps::Device>;
using HostBytes = ps::Batch<const std::byte, ps::Pageable>;
using PinnedBytes = ps::Batch<const std::byte, ps::Pinned>;
using ps::Lease;
using tests::Came;
using tests::Outcome;
using tests::outcome_of;
using namespace std::chrono_literals;

/// Ten batches, the last of them short.
inline constexpr std::size_t batch_size = 100'000;
inline constexpr std::size_t batch_count = 10;
inline const std::vector<std::byte>& ten_batches() {
  static const auto bytes = some_bytes(batch_count * batch_size - 1234);
  return bytes;
}
/// More than the device holds at once, which is nine batches of this size.
inline constexpr std::size_t large_batch = 4'500'000;
inline const std::vector<std::byte>& more_than_fits() {
  static const auto bytes = some_bytes(12 * large_batch + 1);
  return bytes;
}

/// An open pipeline that ends on the device.
template <class Device>
auto to_device(Device& device, const std::vector<std::byte>& bytes, ps::CopierOptions copying,
               std::uint64_t epochs = 1) {
  return ps::Reader{ps::memory(std::span{bytes}), ps::to_pinned, {.workers = 2, .epochs = epochs}} |
         ps::AsyncCopier{device, copying};
}
template <class Device> auto to_device(Device& device) {
  return to_device(device, ten_batches(), {.batch = batch_size});
}
/// An open pipeline that ends on the host: ten slots through three places.
inline auto to_host() {
  return ps::Pipeline{std::tuple{ps::Reader{ps::memory(std::span{ten_batches()}),
                                            {.workers = 2, .depth = 3, .batch = batch_size}}}};
}
inline auto to_host_by_decoder() {
  return to_host() | ps::Decoder{[](HostBytes in, ps::Batch<std::byte, ps::Pageable> out) {
                                   std::memcpy(out.data(), in.data(), in.size());
                                 },
                                 {.workers = 2, .depth = 3}};
}

/// Returns whether a batch in host memory has the bytes that belong there.
template <class Where>
bool is_right(const ps::Batch<const std::byte, Where>& batch, std::span<const std::byte> expected) {
  return batch.index() + batch.size() <= expected.size() &&
         std::memcmp(batch.data(), expected.data() + batch.index(), batch.size()) == 0;
}

/// Runs the loop once; returns whether all batches came.
template <class P, class Device>
bool delivers_all(P& pipeline, Device& device, const std::vector<std::byte>& bytes) {
  Collector<Device> got{device, bytes.size()};
  auto stream = device.stream();
  for (auto batch : pipeline.on(stream)) {
    got(batch, stream);
  }
  return got.in_order && got.holds(bytes) && pipeline.report().records == bytes.size() &&
         !pipeline.report().stopped;
}
template <class P> bool delivers_all(P& pipeline) {
  std::uint64_t records = 0;
  bool right = true;
  for (auto batch : pipeline.batches()) {
    right = right && batch.index() == records && is_right(batch, ten_batches());
    records += batch.size();
  }
  return right && records == ten_batches().size();
}

/// Makes a stream so late with the first batch, and thereby with all, that the copies of later
/// batches wait for its place.
template <class S> void delay_first(const Bytes& batch, S&& stream) {
  if (batch.index() == 0) {
    delay(stream, 30ms);
  }
}

/// Refers to a stream, as cuda::stream_ref does.
template <class Device> struct StreamRef {
  ps::Stream<Device> stream;
  ps::Stream<Device> get() const { return stream; }
};

TEST_CASE("a loop is given every record once and in order, run after run, on any stream") {
  const auto expected = [] {
    std::vector<std::byte> all;
    for (int epoch = 0; epoch < 3; ++epoch) {
      all.insert(all.end(), ten_batches().begin(), ten_batches().end());
    }
    return all;
  }();
  for_each_device([&](D& device) {
    Collector<D> got{device, expected.size()};
    auto pipeline = to_device(device, ten_batches(), {.batch = batch_size, .depth = 2}, 3);
    auto a = device.stream();
    auto b = device.stream();
    for (int run = 0; run < 4; ++run) {
      got.clear();
      ps::Stream<D> stream = run % 2 == 0 ? a : b;
      std::size_t batches = 0;
      const auto walk = [&](auto given) {
        for (auto batch : given) {
          CHECK(batch.source_index() == batches % batch_count * batch_size);
          got(batch, stream);
          ++batches;
        }
      };
      run < 2 ? walk(pipeline.on(stream)) : walk(pipeline.on(StreamRef<D>{stream}));
      CHECK(batches == 3 * batch_count);
      CHECK(got.in_order);
      CHECK(got.aligned);
      CHECK(got.holds(expected));
      const ps::Report report = pipeline.report();
      CHECK(report.records == expected.size());
      CHECK(report.dropped == 0);
      CHECK_FALSE(report.stopped);
      CHECK(report.stages.back().name == "loop");
    }
  });
}

TEST_CASE("leases go back in any order, while places are used again") {
  const auto& bytes = more_than_fits();
  for_each_device([&](D& device) {
    for (const bool reversed : {true, false}) {
      CAPTURE(reversed);
      Collector<D> got{device, bytes.size()};
      auto pipeline = to_device(device, bytes, {.batch = large_batch, .depth = 3});
      auto stream = device.stream();
      std::vector<Lease<Bytes>> held;
      std::mt19937 random{3};
      for (auto batch : pipeline.on(stream)) {
        delay_first(batch, stream);
        got(batch, stream);
        held.push_back(std::move(batch));
        if (held.size() == 3) {
          reversed ? std::reverse(held.begin(), held.end())
                   : std::shuffle(held.begin(), held.end(), random);
          for (Lease<Bytes>& lease : held) {
            lease.release();
            CHECK_FALSE(lease);
          }
          held.clear();
        }
      }
      CHECK(got.in_order);
      CHECK(got.holds(bytes));
      CHECK(held.size() == 13 % 3);
    }
  });
}

TEST_CASE("leases outlive the loop and the pipeline, and then give all back") {
  for_each_device([&](D& device) {
    for (const std::size_t first : {std::size_t{0}, (batch_count - 2) * batch_size}) {
      CAPTURE(first); // left early, the loop ends
      auto stream = device.stream();
      Collector<D> got{device, ten_batches().size()};
      std::vector<Lease<Bytes>> held;
      {
        auto pipeline = to_device(device);
        for (auto batch : pipeline.on(stream)) {
          if (batch.index() == first || batch.index() == first + batch_size) {
            held.push_back(std::move(batch));
          } else if (!held.empty()) {
            break;
          }
        }
      }
      REQUIRE(held.size() == 2);
      for (Lease<Bytes>& lease : held) {
        REQUIRE(lease);
        got(lease, stream);
        lease.release();
      }
      device.sync(stream);
      CHECK(got.records == std::min(2 * batch_size, ten_batches().size() - first));
      CHECK(std::memcmp(got.bytes().data() + first, ten_batches().data() + first, got.records) ==
            0);
    }
    CHECK(all_given_back(device));
  });
  std::vector<Lease<HostBytes>> held;
  {
    auto pipeline = to_host();
    for (auto batch : pipeline.batches()) {
      if (held.size() < 2) {
        held.push_back(std::move(batch));
        continue;
      }
      break;
    }
  }
  REQUIRE(held.size() == 2);
  CHECK(is_right(held[0], ten_batches()));
  CHECK(is_right(held[1], ten_batches()));
}

TEST_CASE("a run while leases are held is refused with the cure, and runs when they are back") {
  const auto refused = [](const Outcome& out) {
    CAPTURE(out);
    CHECK(out.came == Came::stage_error);
    CHECK(out.stage == "loop");
    CHECK(out.says("still held, 1 in all"));
    CHECK(out.says("release"));
  };
  for_each_device([&](D& device) {
    auto pipeline = to_device(device);
    auto stream = device.stream();
    Lease<Bytes> kept;
    for (auto batch : pipeline.on(stream)) {
      kept = std::move(batch);
      break;
    }
    for (int tries = 0; tries < 2; ++tries) {
      refused(outcome_of([&] {
        for (auto batch : pipeline.on(stream)) {
          FAIL("there was a run, with batch " << batch.index());
        }
      }));
    }
    kept.release();
    CHECK(delivers_all(pipeline, device, ten_batches()));
  });
  auto pipeline = to_host();
  Lease<HostBytes> kept;
  for (auto batch : pipeline.batches()) {
    kept = std::move(batch);
    break;
  }
  refused(outcome_of([&] {
    for (auto batch : pipeline.batches()) {
      FAIL("there was a run, with batch " << batch.index());
    }
  }));
  CHECK(is_right(kept, ten_batches()));
  kept = {};
  CHECK(delivers_all(pipeline));
}

TEST_CASE("what is given back after the loop is waited for by the next run, on another stream") {
  for_each_device([&](D& device) {
    auto bytes = ten_batches();
    auto pipeline = to_device(device, bytes, {.batch = batch_size});
    auto a = device.stream();
    Collector<D> late{device, bytes.size()};
    for (int run = 0; run < 3; ++run) {
      const auto before = bytes;
      late.clear();
      Lease<Bytes> kept;
      for (auto batch : pipeline.on(a)) {
        kept = std::move(batch);
        break;
      }
      delay(a, 20ms);
      late(kept, a);
      kept.release();
      std::reverse(bytes.begin(), bytes.end()); // other bytes for the same place
      CHECK(delivers_all(pipeline, device, bytes));
      device.sync(a);
      CHECK(std::memcmp(late.bytes().data(), before.data(), batch_size) == 0);
    }
  });
}

/// Runs a loop whose batches a slow second stream uses; returns whether that stream saw the right
/// bytes.
template <class Device> bool second_stream_sees_right(Device& device, bool said) {
  const auto& bytes = more_than_fits();
  Collector<Device> got{device, bytes.size()};
  auto pipeline = to_device(device, bytes, {.batch = large_batch, .depth = 2});
  auto stream = device.stream();
  auto other = device.stream();
  auto ready = device.event();
  for (auto batch : pipeline.on(stream)) {
    device.record(ready, stream);
    device.wait(other, ready);
    delay_first(batch, other);
    got(batch, other);
    if (said) {
      batch.used_on(other);
      batch.used_on(StreamRef<Device>{other}); // says nothing new
    }
  }
  device.sync(other);
  return got.in_order && got.holds(bytes);
}

TEST_CASE("a second stream may use a batch as long as it wants if that is said") {
  for_each_device([&](D& device) { CHECK(second_stream_sees_right(device, true)); });
}

TEST_CASE("a second stream that is not spoken of sees wrong bytes", "[race]") {
  // The planted fault of the test before: a race, which ThreadSanitizer would report by itself.
  bool caught = false;
  for (int attempt = 0; attempt < (tests::under_tsan ? 1 : 20) && !caught; ++attempt) {
    for_each_device([&](D& device) {
      caught = caught || !second_stream_sees_right(device, tests::under_tsan);
    });
  }
  CHECK(caught == !tests::under_tsan);
}

TEST_CASE("batches may be used by one second stream after another") {
  for_each_device([&](D& device) {
    const auto& bytes = more_than_fits();
    Collector<D> got{device, bytes.size()};
    auto pipeline = to_device(device, bytes, {.batch = large_batch, .depth = 2});
    auto stream = device.stream();
    auto a = device.stream();
    auto b = device.stream();
    auto ready = device.event();
    bool first = false;
    for (auto batch : pipeline.on(stream)) {
      first = !first;
      ps::Stream<D> other = first ? a : b;
      device.record(ready, stream);
      device.wait(other, ready);
      delay_first(batch, other);
      got(batch, other);
      batch.used_on(other);
    }
    device.sync(a);
    device.sync(b);
    CHECK(got.holds(bytes));
  });
}

TEST_CASE("used_on refuses a third stream, another device's, and batches in host memory") {
  for_each_device([&](D& device) {
    auto pipeline = to_device(device);
    auto stream = device.stream();
    auto second = device.stream();
    auto third = device.stream();
    std::uint64_t records = 0;
    for (auto batch : pipeline.on(stream)) {
      records += batch.size();
      double no_stream = 0;
      CHECK_THROWS_AS(batch.used_on(no_stream), ps::OptionError);
      CHECK_THROWS_AS(batch.used_on(&no_stream), ps::OptionError);
      batch.used_on(second);
      CHECK_THROWS_AS(batch.used_on(third), ps::OptionError);
    }
    CHECK(records == ten_batches().size());

    auto on_host = to_host();
    for (auto batch : on_host.batches()) {
      CHECK_THROWS_AS(batch.used_on(second), ps::OptionError);
    }
    CHECK(delivers_all(pipeline, device, ten_batches()));
  });
}

TEST_CASE("to hold as many batches as may be and ask for another is an error, and no deadlock") {
  const tests::Watchdog watchdog{"too many held"};
  for_each_device([&](D& device) {
    for (const std::size_t depth : {2, 5}) {
      CAPTURE(depth);
      auto pipeline = to_device(device, ten_batches(), {.batch = batch_size, .depth = depth});
      auto stream = device.stream();
      std::vector<Lease<Bytes>> held;
      const Outcome out = outcome_of([&] {
        for (auto batch : pipeline.on(stream)) {
          held.push_back(std::move(batch));
        }
      });
      CAPTURE(out);
      CHECK(out.came == Came::stage_error);
      CHECK(out.stage == "loop");
      CHECK(out.record == depth * batch_size);
      CHECK(out.says(std::to_string(depth) + " batches are held"));
      CHECK(held.size() == depth);
      held.clear();
      CHECK(delivers_all(pipeline, device, ten_batches()));
    }
  });
  auto pipeline = to_host();
  std::vector<Lease<HostBytes>> held;
  const Outcome out = outcome_of([&] {
    for (auto batch : pipeline.batches()) {
      held.push_back(std::move(batch));
    }
  });
  CHECK(out.stage == "loop");
  CHECK(out.record == 3 * batch_size);
  CHECK(out.says("3 batches are held"));
  CHECK(held.size() == 3);
  CHECK(is_right(held[2], ten_batches()));
  held.clear();
  CHECK(delivers_all(pipeline));
}

TEST_CASE("a batch kept until its place comes round again is an error that names it") {
  const tests::Watchdog watchdog{"one kept"};
  const auto names_batch_one = [](const Outcome& out, std::uint64_t record) {
    CAPTURE(out);
    CHECK(out.stage == "loop");
    CHECK(out.record == record);
    CHECK(out.says("batch number 1 "));
    CHECK(out.says("release it"));
  };
  for_each_device([&](D& device) {
    auto pipeline = to_device(device, more_than_fits(), {.batch = large_batch, .depth = 3});
    auto stream = device.stream();
    Lease<Bytes> kept;
    std::size_t places = 0;
    const Outcome out = outcome_of([&] {
      for (auto batch : pipeline.on(stream)) {
        if (batch.index() == large_batch) {
          kept = std::move(batch);
        }
        places = pipeline.report().stages[1].depth;
      }
    });
    REQUIRE(places < 12);
    names_batch_one(out, (1 + places) * large_batch);
    kept = {};
    CHECK(delivers_all(pipeline, device, more_than_fits()));
  });
  auto pipeline = to_host();
  Lease<HostBytes> kept;
  names_batch_one(outcome_of([&] {
                    for (auto batch : pipeline.batches()) {
                      if (batch.index() == batch_size) {
                        kept = std::move(batch);
                      }
                    }
                  }),
                  (1 + 3) * batch_size);
  kept = {};
  CHECK(delivers_all(pipeline));
}

enum class Leaves { by_break, by_return, by_throw };

/// Walks a range and leaves it at batch `last`; returns how many batches there were.
template <class Range> std::size_t leave_at(Range range, std::size_t last, Leaves how) {
  std::size_t batches = 0;
  for (auto batch : range()) {
    if (batch.index() >= last * batch_size) {
      switch (how) {
      case Leaves::by_return:
        return batches + 1;
      case Leaves::by_throw:
        throw batches + 1;
      case Leaves::by_break:
        break;
      }
      ++batches;
      break;
    }
    ++batches;
  }
  return batches;
}

TEST_CASE("a loop may be left in any batch, by break, return and exception, and runs again") {
  const tests::Watchdog watchdog{"loops left early"};
  const auto leave = [](auto& pipeline, auto range) {
    for (const Leaves how : {Leaves::by_break, Leaves::by_return, Leaves::by_throw}) {
      for (const std::size_t last : {std::size_t{0}, batch_count / 2, batch_count - 1}) {
        CAPTURE(static_cast<int>(how), last);
        std::size_t batches = 0;
        try {
          batches = leave_at(range, last, how);
          CHECK(how != Leaves::by_throw);
        } catch (std::size_t thrown) {
          batches = thrown;
          CHECK(how == Leaves::by_throw);
        }
        CHECK(batches == last + 1);
        const ps::Report report = pipeline.report();
        CHECK(report.stopped);
        CHECK(report.records == std::min((last + 1) * batch_size, ten_batches().size()));
        CHECK(report.dropped == report.stages[0].records - report.records);
      }
    }
  };
  for_each_device([&](D& device) {
    {
      auto pipeline = to_device(device);
      auto stream = device.stream();
      leave(pipeline, [&] { return pipeline.on(stream); });
      CHECK(delivers_all(pipeline, device, ten_batches()));
    }
    CHECK(all_given_back(device));
  });
  auto pipeline = to_host_by_decoder();
  leave(pipeline, [&] { return pipeline.batches(); });
  CHECK(delivers_all(pipeline));
}

TEST_CASE("errors of the stages come out of the loop as one StageError") {
  const auto fails = [](std::span<std::byte> out, std::uint64_t first) {
    std::memset(out.data(), 1, out.size());
    if (first == 5 * batch_size) {
      throw ps::SourceError{"penstock: bad sector", "disk", 42, first + 7};
    }
  };
  const auto source = ps::generate<std::byte>(10 * batch_size, fails);
  const ps::ReaderOptions slots{.workers = 2, .batch = batch_size};
  for_each_device([&](D& device) {
    auto stream = device.stream();
    for (int run = 0; run < 2; ++run) {
      CAPTURE(run);
      auto pipeline =
          ps::Reader{source, ps::to_pinned, slots} | ps::AsyncCopier{device, {.batch = batch_size}};
      std::uint64_t records = 0;
      const Outcome out = outcome_of([&] {
        for (auto batch : pipeline.on(stream)) {
          records += batch.size();
        }
      });
      CAPTURE(out);
      CHECK(out.stage == "Reader");
      CHECK(out.record == 5 * batch_size + 7);
      CHECK(out.file == "disk");
      CHECK(out.cause == Came::source_error);
      CHECK(records <= 5 * batch_size);
      CHECK(pipeline.report().records == records);
    }
    auto decoded = ps::Reader{ps::memory(std::span{ten_batches()}), slots} |
                   ps::Decoder{[](HostBytes in, ps::Batch<std::byte, ps::Pinned> out) {
                                 if (in.index() == 3 * batch_size) {
                                   throw std::runtime_error{"boom"};
                                 }
                                 std::memcpy(out.data(), in.data(), in.size());
                               },
                               {.workers = 2}} |
                   ps::AsyncCopier{device, {.batch = batch_size}};
    for (int run = 0; run < 2; ++run) {
      const Outcome out = outcome_of([&] {
        for (auto batch : decoded.on(stream)) {
          CHECK(batch.index() < 3 * batch_size);
        }
      });
      CAPTURE(out);
      CHECK(out.stage == "Decoder");
      CHECK(out.record == 3 * batch_size);
      CHECK(out.says("boom"));
    }
  });
  auto on_host = ps::Pipeline{std::tuple{ps::Reader{source, slots}}};
  const Outcome out = outcome_of([&] {
    for (auto batch : on_host.batches()) {
      CHECK(batch.index() < 5 * batch_size);
    }
  });
  CHECK(out.stage == "Reader");
  CHECK(out.record == 5 * batch_size + 7);
}

TEST_CASE("a stop ends the loop early, from outside and inside, and is no error") {
  const tests::Watchdog watchdog{"stopped loops"};
  // Nothing comes after the first batch until the run is stopped.
  std::atomic<bool> stopped{false};
  const auto stuck = [&](std::span<std::byte> out, std::uint64_t first) {
    while (first != 0 && !stopped) {
      std::this_thread::sleep_for(100us);
    }
    std::memset(out.data(), 1, out.size());
  };
  const auto source = ps::generate<std::byte>(100 * batch_size, stuck);
  for_each_device([&](D& device) {
    auto stream = device.stream();
    auto pipeline =
        ps::Reader{source, ps::to_pinned, {.workers = 2, .depth = 3, .batch = batch_size}} |
        ps::AsyncCopier{device, {.batch = batch_size}};
    for (const bool by_token : {true, false}) {
      CAPTURE(by_token);
      stopped = false;
      std::stop_source stop;
      std::atomic<bool> came{false};
      std::thread stopper{[&] {
        while (!came) {
          std::this_thread::yield();
        }
        std::this_thread::sleep_for(5ms); // the loop sleeps for the next
        by_token ? void(stop.request_stop()) : pipeline.stop();
        stopped = true;
      }};
      std::uint64_t batches = 0;
      for (auto batch : pipeline.on(stream, {.stop = stop.get_token()})) {
        CHECK(batch.index() == 0);
        ++batches;
        came = true;
      }
      stopper.join();
      CHECK(batches == 1);
      CHECK(pipeline.report().stopped);
      CHECK(pipeline.report().records == batch_size);
    }
    std::uint64_t batches = 0;
    for (auto batch : pipeline.on(stream)) {
      batches += batch.size() / batch_size;
      if (batches == 4) {
        pipeline.stop();
      }
    }
    CHECK(batches == 4);
    std::stop_source before;
    before.request_stop();
    for (auto batch : pipeline.on(stream, {.stop = before.get_token()})) {
      FAIL("a batch though stopped before: " << batch.index());
    }
    CHECK(pipeline.report().stopped);
  });
}

TEST_CASE("an empty source is a loop without batches, and a range need not be walked") {
  const tests::Watchdog watchdog{"empty loops"};
  const std::vector<std::byte> none;
  for_each_device([&](D& device) {
    {
      auto stream = device.stream();
      auto empty = ps::Reader{ps::memory(none), ps::to_pinned} | ps::AsyncCopier{device};
      for (int run = 0; run < 2; ++run) {
        for (auto batch : empty.on(stream)) {
          FAIL("a batch of nothing: " << batch.size());
        }
      }
      CHECK_FALSE(empty.report().stopped);
      CHECK(empty.report().records == 0);

      auto pipeline = to_device(device);
      {
        [[maybe_unused]] const auto range = pipeline.on(stream);
      }
      CHECK(pipeline.report().records == 0);
      CHECK(delivers_all(pipeline, device, ten_batches()));
      {
        [[maybe_unused]] const auto range = pipeline.on(stream);
      }
      CHECK(pipeline.report().records == ten_batches().size());
    }
    CHECK(all_given_back(device));
  });
  auto empty = ps::Pipeline{std::tuple{ps::Reader{ps::memory(none)}}};
  for (auto batch : empty.batches()) {
    FAIL("a batch of nothing: " << batch.size());
  }
  CHECK(empty.report().records == 0);
}

/// Counts the calls made by the thread that made it.
template <class Base> struct CountsCaller : Base {
  using Base::Base;
  void copy_to_device(void* to, const void* from, std::size_t bytes, ps::Stream<Base> stream) {
    others += is_caller();
    Base::copy_to_device(to, from, bytes, stream);
  }
  void record(typename Base::event_type& event, ps::Stream<Base> stream) {
    records += is_caller();
    Base::record(event, stream);
  }
  void wait(ps::Stream<Base> stream, const typename Base::event_type& event) {
    waits += is_caller();
    Base::wait(stream, event);
  }
  bool is_done(const typename Base::event_type& event) {
    others += is_caller();
    return Base::is_done(event);
  }
  void sync(const typename Base::event_type& event) {
    syncs += is_caller();
    Base::sync(event);
  }
  void sync(ps::Stream<Base> stream) {
    syncs += is_caller();
    Base::sync(stream);
  }
  bool is_caller() const { return std::this_thread::get_id() == caller; }

  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<std::uint64_t> records{0}, waits{0}, syncs{0}, others{0};
};
static_assert(ps::AnyDevice<CountsCaller<D>>);

TEST_CASE("a batch costs the loop's thread one record and at most one wait, as run() does") {
  CountsCaller<D> device;
  const auto check = [&](const char* driven, auto run) {
    CAPTURE(driven);
    for (int i = 0; i < 3; ++i) {
      CAPTURE(i);
      device.records = device.waits = device.syncs = device.others = 0;
      run();
      CHECK(device.records == batch_count);
      CHECK(device.waits <= batch_count);
      CHECK(device.syncs <= 3); // the end of the run
      CHECK(device.others == 0);
    }
  };
  auto by_run = to_device(device) | ps::Consumer{[](Bytes, ps::Stream<D>) {}};
  by_run.prepare();
  check("run()", [&] { by_run.run(); });

  auto by_loop = to_device(device);
  auto stream = device.stream();
  by_loop.prepare();
  check("loop", [&] {
    for (auto batch : by_loop.on(stream)) {
      static_cast<void>(batch.size());
    }
  });
}

TEST_CASE("batches() walks what ends in host memory, whichever stage is last") {
  for_each_device([&](D& device) {
    auto reader = to_host();
    auto decoder = to_host_by_decoder();
    auto stager = to_host() | ps::PinnedStager{device, {.workers = 2, .depth = 2}};
    for (int run = 0; run < 3; ++run) {
      CHECK(delivers_all(reader));
      CHECK(delivers_all(decoder));
      CHECK(delivers_all(stager));
    }
    CHECK(reader.report().stages.size() == 2);
    CHECK(stager.report().stages.back().name == "loop");
    CHECK(stager.report().stages.back().records == ten_batches().size());
  });
}

/// A class that gets its data from others.
template <class B> class Trainer {
 public:
  explicit Trainer(ps::AnyBatches<B> data) : data_{std::move(data)} {}

  /// Steps until the data end, or `most` steps are done.
  std::uint64_t train(std::size_t most) {
    std::uint64_t records = 0;
    for (auto batch : data_.batches()) {
      CHECK(batch.index() == records);
      records += batch.size();
      if (--most == 0) {
        break;
      }
    }
    return records;
  }
  const ps::AnyBatches<B>& data() const { return data_; }
  ps::AnyBatches<B>& data() { return data_; }

 private:
  ps::AnyBatches<B> data_;
};

TEST_CASE("AnyBatches is a member, moves, and runs again, for both kinds of pipeline") {
  const auto train = [](auto trainer) {
    trainer.data().prepare();
    CHECK(trainer.data().report().records == 0);
    CHECK(trainer.train(batch_count + 1) == ten_batches().size());
    CHECK_FALSE(trainer.data().report().stopped);
    auto moved = std::move(trainer);
    CHECK(moved.train(3) == 3 * batch_size);
    CHECK(moved.data().report().stopped);
    moved.data().stop(); // nothing runs
    CHECK(moved.train(batch_count + 1) == ten_batches().size());
    CHECK(moved.data().report().records == ten_batches().size());
  };
  for_each_device([&](D& device) {
    {
      auto stream = device.stream();
      train(Trainer<Bytes>{ps::AnyBatches<Bytes>{to_device(device), stream}});
      train(Trainer<HostBytes>{ps::AnyBatches<HostBytes>{to_host_by_decoder()}});
      train(
          Trainer<PinnedBytes>{ps::AnyBatches<PinnedBytes>{to_host() | ps::PinnedStager{device}}});
    }
    CHECK(all_given_back(device));
  });
}

} // namespace suite
