// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/device/device_array.hpp>
#include <penstock/host/algorithm.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace ps = penstock;

namespace {

struct Count {
  std::uint32_t* out;
  void operator()(std::size_t i) const { out[i] = static_cast<std::uint32_t>(i); }
};

} // namespace

TEST_CASE("a new array is zero, whatever its size") {
  ps::HostDevice device{{.late_seed = 3}};
  // The last array passes through the pinned memory in three pieces, the last of them short.
  for (const std::size_t n : {0, 1, 1023, 1024, 1025, (9 << 20) / 4 + 1}) {
    CAPTURE(n);
    const auto array = ps::device_array<std::uint32_t>(device, n);
    static_assert(
        std::is_same_v<decltype(array), const ps::DeviceArray<std::uint32_t, ps::HostDevice>>);
    CHECK(array.size() == n);
    CHECK((array.data() == nullptr) == (n == 0));
    // Reads the memory itself: the constructor has blocked until it is zero.
    CHECK(std::count(array.data(), array.data() + n, 0U) == static_cast<std::ptrdiff_t>(n));
  }
  ps::tests::check_nothing_lives(device);
}

TEST_CASE("read waits for the work queued on the stream and gives every element") {
  ps::HostDevice device{{.late_seed = 11}};
  for (const std::size_t n : {0, 1, 1025, (9 << 20) / 4 + 1}) {
    CAPTURE(n);
    const auto array = ps::device_array<std::uint32_t>(device, n);
    ps::HostStream stream = device.stream();
    stream.enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds{20}); });
    ps::for_each(stream, n, Count{array.data()});
    std::vector<std::uint32_t> expected(n);
    std::iota(expected.begin(), expected.end(), 0);
    const bool equal = array.read(stream) == expected; // too many to be printed
    CHECK(equal);
  }
  ps::tests::check_nothing_lives(device);
}

TEST_CASE("an array moves and gives its memory back once") {
  ps::HostDevice device;
  {
    auto first = ps::device_array<int>(device, 10);
    const int* const at = first.data();
    auto second = std::move(first);
    CHECK(second.data() == at);
    CHECK(second.size() == 10);
    CHECK(device.counts().live_allocations == 1);
    second = ps::device_array<int>(device, 20);
    CHECK(second.size() == 20);
    CHECK(device.counts().live_allocations == 1);
  }
  ps::tests::check_nothing_lives(device);
  static_assert(!std::is_copy_constructible_v<ps::DeviceArray<int, ps::HostDevice>>);
}

TEST_CASE("an array larger than memory can be is refused before anything is allocated") {
  ps::HostDevice device;
  for (const std::size_t n :
       {std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max() / 8 + 2,
        std::size_t{1} << 61}) {
    std::string text;
    try {
      ps::device_array<std::uint64_t>(device, n);
    } catch (const ps::OptionError& e) {
      text = e.what();
    }
    CAPTURE(n, text);
    CHECK(text.find("penstock: ") == 0);
    CHECK(text.find(std::to_string(n)) != std::string::npos);
  }
  CHECK(device.counts().calls == 0);
}

TEST_CASE("whichever call fails while an array is made or read, nothing is left behind") {
  const auto make_and_read = [](ps::HostDevice& device) {
    const auto array = ps::device_array<std::uint32_t>(device, (5 << 20) / 4);
    ps::HostStream stream = device.stream();
    ps::for_each(stream, array.size(), Count{array.data()});
    return array.read(stream).back();
  };
  for (const bool persistent : {false, true}) {
    std::uint64_t k = 1;
    for (bool fired = true; fired; ++k) {
      CAPTURE(persistent, k);
      ps::HostDevice device{{.late_seed = k}};
      device.fail_call(k, {.persistent = persistent});
      bool threw = false;
      std::uint32_t last = 0;
      try {
        last = make_and_read(device);
      } catch (const ps::DeviceError& e) {
        threw = true;
        CHECK_FALSE(e.sticky());
      }
      fired = device.fault_fired();
      CHECK(threw == fired);
      CHECK(last == (fired ? 0 : (5 << 20) / 4 - 1));
      ps::tests::check_nothing_lives(device);
    }
    // Made: allocate, pinned, stream, 2 copies, sync. Then the stream. Read: pinned, stream, event,
    // record, wait, 2 times copy and sync. And one try in which nothing fails.
    CHECK(k - 1 == 6 + 1 + 9 + 1);
  }
}
