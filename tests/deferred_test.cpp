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

// Work that holds a stream back until it is opened.
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
  // After the gate: as it will be then.
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
  CHECK_FALSE(second.ready()); // or first would be taken for ready with it
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
TEST_CASE("a pipeline knows how many batches a run gives") {
  ps::HostDevice device;
  batches_a_run(device);
}
