// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

#include "suite/deferred_suite.hpp"
#include "support/caught.hpp"

#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace {

// Holds a stream's work back until it is opened.
struct Gate {
  std::atomic<bool> open{false};
  void hold(ps::HostStream& stream) {
    stream.enqueue([this] {
      while (!open) {
        std::this_thread::yield();
      }
    });
  }
};

} // namespace

TEST_CASE("a value put is ready when its stream has come to it, and not before") {
  ps::HostDevice device;
  auto stream = device.stream();
  const auto values = ps::device_array<int>(device, 1);
  auto deferred = ps::deferred<int>(device, {.results = 2});
  Gate gate;
  gate.hold(stream);
  // All this runs when the gate opens, and each put() copies the value of its turn.
  stream.enqueue([at = values.data()] { *at = 7; });
  const auto first = deferred.put(values.data(), stream);
  stream.enqueue([at = values.data()] { *at = 8; });
  const auto second = deferred.put(values.data(), stream);
  CHECK_FALSE(first.ready());
  CHECK_FALSE(second.ready());
  const std::uint64_t syncs = device.counts().syncs;
  gate.open = true;
  CHECK(second.get() == 8);
  CHECK(device.counts().syncs == syncs + 1);
  CHECK(first.get() == 7);
  CHECK(first.ready());
  CHECK(device.counts().syncs == syncs + 1); // the first was there before the second
}

namespace {

// A thread may be held up between the device's answer and the use of that answer.
struct HeldUp : ps::HostDevice {
  bool is_done(const ps::HostEvent& event) {
    const bool done = ps::HostDevice::is_done(event);
    if (held_up == std::this_thread::get_id()) {
      answered = true;
      while (!let_go) {
        std::this_thread::yield();
      }
    }
    return done;
  }
  std::thread::id held_up;
  std::atomic<bool> answered{false}, let_go{false};
};

} // namespace

TEST_CASE("a value that was ready stays so, whatever another thread saw before") {
  HeldUp device;
  auto stream = device.stream();
  const auto values = ps::device_array<int>(device, 1);
  auto deferred = ps::deferred<int>(device, {.results = 1000});
  for (int i = 0; i < 200; ++i) {
    deferred.put(values.data(), stream);
  }
  stream.sync();
  std::atomic<bool> begin{false};
  std::thread late{[&] {
    while (!begin) {
      std::this_thread::yield();
    }
    deferred[5].ready();
  }};
  device.held_up = late.get_id();
  begin = true;
  while (!device.answered) {
    std::this_thread::yield();
  }
  CHECK(deferred[190].ready());
  CHECK(deferred[150].ready());
  Gate gate;
  gate.hold(stream);
  for (int i = 0; i < 80; ++i) { // uses the event of value 150 again
    deferred.put(values.data(), stream);
  }
  CHECK(deferred[150].ready());
  device.let_go = true;
  late.join();
  CHECK(deferred[150].ready());
  gate.open = true;
  stream.sync();
}

TEST_CASE("values from several streams keep the order in which they were put") {
  ps::HostDevice device;
  auto one = device.stream();
  auto two = device.stream();
  const auto values = ps::device_array<int>(device, 2);
  auto deferred = ps::deferred<int>(device, {.results = 2});
  Gate gate;
  gate.hold(one);
  one.enqueue([at = values.data()] { *at = 1; });
  const auto first = deferred.put(values.data(), one);
  two.enqueue([at = values.data() + 1] { *at = 2; });
  const auto second = deferred.put(values.data() + 1, two);
  CHECK_FALSE(second.ready()); // or first would count as ready with it
  gate.open = true;
  CHECK(second.get() == 2);
  CHECK(first.ready());
  CHECK(first.get() == 1);
}

TEST_CASE("values may be read by another thread while more are put") {
  ps::HostDevice device{{.late_seed = 5}};
  auto stream = device.stream();
  const auto value = ps::device_array<std::uint64_t>(device, 1);
  constexpr std::uint64_t many = 500;
  auto deferred = ps::deferred<std::uint64_t>(device, {.results = many});
  bool right = true;
  std::thread reader{[&] {
    for (std::uint64_t i = 0; i < many; ++i) {
      while (deferred.size() <= i) {
        std::this_thread::yield();
      }
      right = right && deferred[i].get() == i * i;
    }
  }};
  for (std::uint64_t i = 0; i < many; ++i) {
    stream.enqueue([at = value.data(), i] { *at = i * i; });
    deferred.put(value.data(), stream);
  }
  reader.join();
  CHECK(right);
}

TEST_CASE("a call that fails as a value is put leaves room for the next") {
  ps::HostDevice device;
  auto stream = device.stream();
  const auto value = ps::device_array<int>(device, 1);
  auto deferred = ps::deferred<int>(device, {.results = 1});
  for (const std::uint64_t call : {1, 2}) { // the copy, the record
    device.fail_call(call);
    CHECK_THROWS_AS(deferred.put(value.data(), stream), ps::DeviceError);
    CHECK(deferred.size() == 0);
  }
  stream.enqueue([at = value.data()] { *at = 3; });
  CHECK(deferred.put(value.data(), stream).get() == 3);
}

TEST_CASE("nothing is on its way to a value whose put failed") {
  ps::HostDevice device{{.copy_ns_per_kib = 50'000'000}}; // 50 ms for the copy
  auto stream = device.stream();
  const auto values = ps::device_array<std::array<int, 256>>(device, 1);
  {
    auto deferred = ps::deferred<std::array<int, 256>>(device, {.results = 1});
    device.fail_call(2); // the record
    CHECK_THROWS_AS(deferred.put(values.data(), stream), ps::DeviceError);
    auto event = device.event();
    device.record(event, stream);
    CHECK(device.is_done(event));
  }
}

TEST_CASE("a Deferred without room for any value is refused") {
  ps::HostDevice device;
  CHECK_THROWS_AS(ps::deferred<int>(device, {.results = 0}), ps::OptionError);
  CHECK_THROWS_AS(ps::deferred<int>(device, {.results = ~std::size_t{0}}), ps::OptionError);
}

TEST_CASE("values of each batch come by one wait for all of them") {
  ps::HostDevice device{{.late_seed = 3}};
  values_of_each_batch(device);
}
TEST_CASE("values without room are counted, and the run goes on") {
  ps::HostDevice device;
  values_without_room(device);
}
TEST_CASE("more batches than can be counted are an unknown number") {
  ps::HostDevice device;
  for (const int bits : {40, 62}) {
    CAPTURE(bits);
    const auto zeros = ps::generate<std::uint8_t>(std::uint64_t{1} << bits,
                                                  [](std::span<std::uint8_t>, std::uint64_t) {});
    auto pipeline = ps::Reader{zeros, ps::to_pinned} | ps::AsyncCopier{device, {.batch = 1 << 20}} |
                    ps::Kernel{[](ps::Batch<const std::uint8_t, ps::Device>,
                                  ps::Batch<std::uint8_t, ps::Device>, ps::HostStream&) {},
                               {.gives = 4}} |
                    ps::AsyncCopier{ps::to_host, {.batch = 1 << 20}};
    CHECK(pipeline.batches_a_run() == (bits == 40 ? std::uint64_t{4} << 20 : ps::unknown_size));
    int batches = 0;
    for (auto batch : pipeline.batches()) {
      if (batch.size() != 1 << 20 || ++batches == 10) {
        break;
      }
    }
    CHECK(batches == 10);
    CHECK(pipeline.report().stages[3].depth == 48); // more than for an empty run
  }
}

TEST_CASE("a pipeline knows how many batches a run gives") {
  ps::HostDevice device;
  batches_a_run(device);
}
