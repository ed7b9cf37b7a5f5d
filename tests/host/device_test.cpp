// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/counted_new.hpp"

#include <penstock/host/device.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <pthread.h>

namespace ps = penstock;
namespace memory = penstock::tests::memory;
using namespace std::chrono_literals;

namespace {

// Holds a stream's work back until it is opened, at its death at the latest.
class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }
  void hold(ps::HostStream& stream) {
    stream.enqueue([open = open_] {
      while (!*open) {
        std::this_thread::yield();
      }
    });
  }
  void open() { *open_ = true; }

 private:
  // Shared with the work, which may see it open later than the gate lives.
  std::shared_ptr<std::atomic<bool>> open_{std::make_shared<std::atomic<bool>>(false)};
};

// Device memory or pinned memory, given back when it dies.
struct Memory {
  Memory(ps::HostDevice& d, std::size_t n) : device{d}, bytes{n}, at{d.allocate(n)} {}
  ~Memory() { device.deallocate(at, bytes); }
  template <class T> T* as() const { return static_cast<T*>(at); }
  ps::HostDevice& device;
  std::size_t bytes;
  void* at;
};
struct PinnedMemory {
  PinnedMemory(ps::HostDevice& d, std::size_t n) : device{d}, bytes{n}, at{d.allocate_pinned(n)} {}
  ~PinnedMemory() { device.deallocate_pinned(at, bytes); }
  template <class T> T* as() const { return static_cast<T*>(at); }
  ps::HostDevice& device;
  std::size_t bytes;
  void* at;
};

std::optional<ps::DeviceError> error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ps::DeviceError& e) {
    return e;
  }
  return std::nullopt;
}

// Breaks a device down, by work that throws `what`.
void break_down(ps::HostDevice& device, ps::HostStream& stream, const std::string* what) {
  stream.enqueue([what] { throw std::runtime_error{*what}; });
  while (device.last_error() == 0) {
    std::this_thread::yield();
  }
}

// One of each counted call, by name. For use in one test.
struct Calls {
  explicit Calls(ps::HostDevice& d) : device{d}, stream{d.stream()}, event{d.event()} {}

  ps::HostDevice& device;
  ps::HostStream stream;
  ps::HostEvent event;
  Memory memory{device, 512};
  PinnedMemory pinned{device, 4096};
  std::vector<std::pair<std::string, std::function<void()>>> all{
      {"stream", [this] { device.stream(); }},
      {"event", [this] { device.event(); }},
      {"allocate", [this] { Memory{device, 777}; }},
      {"allocate_pinned", [this] { PinnedMemory{device, 8192}; }},
      {"copy_to_device", [this] { device.copy_to_device(memory.at, pinned.at, 512, stream); }},
      {"copy_to_host", [this] { device.copy_to_host(pinned.at, memory.at, 512, stream); }},
      {"record", [this] { device.record(event, stream); }},
      {"record", [this] { event.record(stream); }},
      {"wait", [this] { device.wait(stream, event); }},
      {"wait", [this] { stream.wait(event); }},
      {"is_done", [this] { device.is_done(event); }},
      {"is_done", [this] { event.is_done(); }},
      {"is_done", [this] { stream.is_done(); }},
      {"sync", [this] { device.sync(event); }},
      {"sync", [this] { device.sync(stream); }},
      {"sync", [this] { event.sync(); }},
      {"sync", [this] { stream.sync(); }},
  };
};

} // namespace

TEST_CASE("work on a stream runs in order, on a thread of its own") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  std::vector<int> ran;
  std::thread::id thread;
  for (int i = 0; i < 1000; ++i) {
    stream.enqueue([&ran, &thread, i] {
      ran.push_back(i);
      thread = std::this_thread::get_id();
    });
  }
  stream.sync();
  REQUIRE(ran.size() == 1000);
  CHECK(std::is_sorted(ran.begin(), ran.end()));
  CHECK(thread != std::this_thread::get_id());
}

TEST_CASE("enqueue returns before the work runs, and sync after it") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  CHECK(stream.is_done());
  Gate gate;
  int value = 0;
  gate.hold(stream);
  stream.enqueue([&value] { value = 1; });
  CHECK_FALSE(stream.is_done());
  CHECK(value == 0);
  gate.open();
  stream.sync();
  CHECK(stream.is_done());
  CHECK(value == 1);
}

TEST_CASE("a full queue blocks who enqueues, and goes on when a place is free") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  std::atomic<std::size_t> ran{0}, enqueued{0};
  Gate gate;
  gate.hold(stream);
  std::thread other{[&] {
    for (std::size_t i = 0; i < 3 * ps::HostStream::capacity; ++i) {
      stream.enqueue([&ran] { ++ran; });
      ++enqueued;
    }
  }};
  while (enqueued < ps::HostStream::capacity - 1) {
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(50ms);
  CHECK(enqueued == ps::HostStream::capacity - 1);
  CHECK(ran == 0);
  gate.open();
  other.join();
  stream.sync();
  CHECK(ran == 3 * ps::HostStream::capacity);
}

TEST_CASE("work as large as a place is stored in it, and destroyed once it has run") {
  struct Large {
    std::shared_ptr<int> alive;
    std::array<unsigned char, ps::HostStream::work_bytes - sizeof(std::shared_ptr<int>)> bytes;
    void operator()() { *alive += bytes.front() + bytes.back(); }
  };
  static_assert(sizeof(Large) == ps::HostStream::work_bytes && sizeof(Large) >= 256);
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  const auto sum = std::make_shared<int>(0);
  for (std::size_t i = 0; i < 2 * ps::HostStream::capacity; ++i) {
    Large large{sum, {}};
    large.bytes.fill(1);
    stream.enqueue(std::move(large));
  }
  stream.sync();
  CHECK(*sum == 4 * static_cast<int>(ps::HostStream::capacity));
  CHECK(sum.use_count() == 1);
}

TEST_CASE("a stream finishes its work before it dies or is assigned to") {
  ps::HostDevice device;
  int done = 0;
  const auto slowly = [&done](int value) {
    return [&done, value] {
      std::this_thread::sleep_for(10ms);
      done = value;
    };
  };
  {
    ps::HostStream first = device.stream();
    first.enqueue(slowly(1));
    ps::HostStream second = std::move(first);
    second.enqueue(slowly(2));
    CHECK(device.counts().live_streams == 1);
  }
  CHECK(done == 2);
  ps::HostStream third = device.stream();
  third.enqueue(slowly(3));
  third = device.stream();
  CHECK(done == 3);
  CHECK(device.counts().live_streams == 1);
  static_assert(!std::is_copy_constructible_v<ps::HostStream>);
}

TEST_CASE("a new stream takes over what a dead one has left, so streams do not pile up") {
  ps::HostDevice device;
  std::array<std::uint64_t, 3> needed{};
  for (std::uint64_t& n : needed) {
    const std::uint64_t before = memory::allocations;
    {
      const ps::HostStream stream = device.stream();
    }
    n = memory::allocations - before;
  }
  CHECK(needed[1] < needed[0]);
  CHECK(needed[2] == needed[1]);
}

TEST_CASE("an event never recorded is done and holds nothing back") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  const ps::HostEvent event = device.event();
  CHECK(event.is_done());
  event.sync();
  stream.wait(event);
  stream.sync();
  CHECK(stream.is_done());
}

TEST_CASE("an event is done when its stream has got there") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  ps::HostEvent event = device.event();
  Gate gate;
  int value = 0;
  gate.hold(stream);
  stream.enqueue([&value] { value = 1; });
  device.record(event, stream);
  CHECK_FALSE(device.is_done(event));
  Gate later;
  later.hold(stream);
  gate.open();
  device.sync(event);
  CHECK(value == 1);
  CHECK(device.is_done(event));
  CHECK_FALSE(stream.is_done());
  later.open();
}

TEST_CASE("a stream waits for what an event marked when wait was called") {
  ps::HostDevice device;
  ps::HostStream a = device.stream(), b = device.stream(), c = device.stream();
  ps::HostEvent event = device.event();

  SECTION("the work of one stream is seen by the other") {
    for (int i = 0; i < 200; ++i) {
      int value = 0, seen = 0;
      a.enqueue([&value, i] { value = i; });
      event.record(a);
      b.wait(event);
      b.enqueue([&value, &seen] { seen = value; });
      b.sync();
      CHECK(seen == i);
    }
  }
  SECTION("a later recording does not hold it back") {
    Gate first, second;
    first.hold(a);
    event.record(a);
    b.wait(event);
    second.hold(c);
    event.record(c);
    CHECK_FALSE(b.is_done());
    first.open();
    b.sync();
    CHECK_FALSE(event.is_done());
    second.open();
    event.sync();
    CHECK(event.is_done());
  }
  SECTION("a later recording that is reached earlier does not let it go") {
    Gate first;
    first.hold(a);
    event.record(a);
    b.wait(event);
    event.record(c);
    CHECK(event.is_done());
    std::this_thread::sleep_for(20ms);
    CHECK_FALSE(b.is_done());
    first.open();
    b.sync();
  }
  SECTION("a recording after the wait is not waited for") {
    Gate first;
    b.wait(event);
    first.hold(a);
    event.record(a);
    b.sync();
    CHECK_FALSE(event.is_done());
    first.open();
  }
  SECTION("work that was enqueued before the wait does not wait") {
    Gate first;
    std::atomic<int> ran{0};
    first.hold(a);
    event.record(a);
    b.enqueue([&ran] { ran = 1; });
    b.wait(event);
    b.enqueue([&ran] { ran = 2; });
    while (ran == 0) {
      std::this_thread::yield();
    }
    CHECK(ran == 1);
    first.open();
    b.sync();
    CHECK(ran == 2);
  }
  SECTION("a stream may wait for itself") {
    event.record(a);
    a.wait(event);
    a.sync();
    CHECK(a.is_done());
  }
}

TEST_CASE("an event may die while a stream waits for it, and outlive its stream") {
  ps::HostDevice device;
  ps::HostStream waiting = device.stream();
  SECTION("it dies") {
    ps::HostStream stream = device.stream();
    Gate gate;
    gate.hold(stream);
    {
      ps::HostEvent event = device.event();
      event.record(stream);
      waiting.wait(event);
    }
    CHECK(device.counts().live_events == 0);
    CHECK_FALSE(waiting.is_done());
    gate.open();
    waiting.sync();
    CHECK(waiting.is_done());
  }
  SECTION("it outlives its stream, and a new stream does not take it back") {
    ps::HostEvent event = device.event();
    {
      ps::HostStream stream = device.stream();
      for (int i = 0; i < 10; ++i) {
        stream.enqueue([] {});
      }
      event.record(stream);
    }
    CHECK(event.is_done());
    ps::HostStream other = device.stream();
    Gate gate;
    gate.hold(other);
    CHECK(event.is_done());
    waiting.wait(event);
    waiting.sync();
    CHECK(waiting.is_done());
    CHECK_FALSE(other.is_done());
    gate.open();
  }
}

TEST_CASE("a copy reads its memory when it runs, and copies all of it") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  const PinnedMemory pinned{device, 8192};
  const Memory memory{device, 8192};
  auto* host = pinned.as<unsigned char>();
  Gate gate;
  gate.hold(stream);
  device.copy_to_device(memory.at, pinned.at, 8191, stream);
  std::memset(host, 5, 8192);
  gate.open();
  stream.sync();
  std::memset(host, 0, 8192);
  device.copy_to_host(pinned.at, memory.at, 8192, stream);
  device.copy_to_host(nullptr, nullptr, 0, stream);
  stream.sync();
  CHECK(std::count(host, host + 8192, 5) == 8191);
  CHECK(host[8191] == 0xCD);
}

TEST_CASE("late copies of two streams finish in either order, those of one stream in theirs") {
  ps::HostDevice device{{.late_seed = 7}};
  ps::HostStream a = device.stream(), b = device.stream();
  const PinnedMemory pinned{device, 4096};
  const Memory memory{device, 512};
  auto* numbers = pinned.as<std::uint64_t>();
  auto* arrived = memory.as<std::uint64_t>();
  int a_first = 0, b_first = 0;
  for (int i = 0; i < 60; ++i) {
    std::atomic<int> order{0};
    int a_was = 0, b_was = 0;
    device.copy_to_device(arrived, numbers, 8, a);
    a.enqueue([&] { a_was = ++order; });
    device.copy_to_device(arrived + 1, numbers + 1, 8, b);
    b.enqueue([&] { b_was = ++order; });
    a.sync();
    b.sync();
    ++(a_was < b_was ? a_first : b_first);
  }
  CHECK(a_first >= 5);
  CHECK(b_first >= 5);

  // Each copy overwrites the one before.
  for (std::uint64_t i = 0; i < 100; ++i) {
    numbers[i] = i;
    device.copy_to_device(arrived, numbers + i, 8, a);
  }
  device.copy_to_host(numbers + 200, arrived, 8, a);
  a.sync();
  CHECK(numbers[200] == 99);
}

TEST_CASE("how late copies are follows from the seed, and is never long") {
  using penstock::detail::lateness;
  int prompt = 0, same = 0, wrong = 0;
  for (std::uint64_t copy = 0; copy < 4000; ++copy) {
    wrong += lateness(0, copy) != 0ns || lateness(7, copy) > 400us ||
             lateness(7, copy) != lateness(7, copy);
    prompt += lateness(7, copy) == 0ns;
    same += lateness(7, copy) == lateness(8, copy);
  }
  CHECK(wrong == 0);
  CHECK(prompt > 500);
  CHECK(prompt < 2000);
  CHECK(same < 1000);
}

TEST_CASE("copies of both directions are late by the seed") {
  using Clock = std::chrono::steady_clock;
  ps::HostDevice device{{.late_seed = 7}};
  ps::HostStream stream = device.stream();
  const PinnedMemory pinned{device, 4096};
  const Memory memory{device, 4096};
  std::chrono::nanoseconds least{0};
  const auto begin = Clock::now();
  for (std::uint64_t i = 0; i < 100; ++i) {
    least += penstock::detail::lateness(7, i);
    if (i % 2 == 0) {
      device.copy_to_device(memory.at, pinned.at, 4096, stream);
    } else {
      device.copy_to_host(pinned.at, memory.at, 4096, stream);
    }
  }
  stream.sync();
  CHECK(Clock::now() - begin >= least);
  CHECK(least > 5ms);
}

TEST_CASE("copies can be made slower by their size") {
  using Clock = std::chrono::steady_clock;
  ps::HostDevice device{{.copy_ns_per_kib = 1'000'000}};
  ps::HostStream stream = device.stream();
  const PinnedMemory pinned{device, 65536};
  const Memory memory{device, 65536};
  auto begin = Clock::now();
  device.copy_to_device(memory.at, pinned.at, 20 * 1024 + 512, stream);
  stream.sync();
  CHECK(Clock::now() - begin >= 20'500us);
  begin = Clock::now();
  device.copy_to_host(pinned.at, memory.at, 1536, stream);
  stream.sync();
  CHECK(Clock::now() - begin >= 1'500us);
}

TEST_CASE("device memory is aligned and not zero") {
  ps::HostDevice device;
  for (const std::size_t bytes : {1, 255, 257, 100'000}) {
    CAPTURE(bytes);
    const Memory memory{device, bytes};
    CHECK(reinterpret_cast<std::uintptr_t>(memory.at) % 256 == 0);
    const auto* begin = memory.as<unsigned char>();
    CHECK(std::all_of(begin, begin + bytes, [](unsigned char c) { return c == 0xCD; }));
  }
  CHECK(device.allocate(0) == nullptr);
  device.deallocate(nullptr, 0);
  device.deallocate_pinned(nullptr, 0);
  ps::tests::check_nothing_lives(device);
}

TEST_CASE("memory that is not to be had is an error with the byte count, and no more than that") {
  ps::HostDevice device;
  std::optional<ps::DeviceError> error;
  SECTION("more than there can be") {
    error = error_of([&] { device.allocate(std::numeric_limits<std::size_t>::max()); });
    REQUIRE(error);
    CHECK(std::string{error->what()}.find("18446744073709551615 bytes") != std::string::npos);
  }
  SECTION("more than there is") {
    const std::size_t bytes = memory::can_refuse ? 123456 : std::size_t{1} << 63;
    memory::refused_bytes = bytes;
    error = error_of([&] { device.allocate(bytes); });
    memory::refused_bytes = 0;
    REQUIRE(error);
    const std::string text = error->what();
    CHECK(text.find(std::to_string(bytes) + " bytes") != std::string::npos);
  }
  SECTION("more pinned than there is") {
    error = error_of([&] { device.allocate_pinned(std::size_t{1} << 60); });
    REQUIRE(error);
    CHECK(std::string{error->what()}.find("1152921504606846976 bytes") != std::string::npos);
    CHECK(error->call() == "allocate_pinned");
  }
  SECTION("pinned, and no multiple of a page") {
    error = error_of([&] { device.allocate_pinned(4097); });
    REQUIRE(error);
    CHECK(std::string{error->what()}.find("4097 bytes") != std::string::npos);
  }
  REQUIRE(error);
  CHECK(std::string{error->what()}.find("penstock: ") == 0);
  CHECK(error->code() == 2);
  CHECK_FALSE(error->sticky());
  CHECK(device.last_error() == 0);
  CHECK(device.counts().pinned_bytes == 0);
  CHECK(device.counts().live_pinned == 0);
  {
    const Memory works{device, 100};
  }
  ps::tests::check_nothing_lives(device);
}

TEST_CASE("a thread that cannot be started is an error of stream, and leaves nothing behind") {
  ps::HostDevice device;
  {
    const ps::HostStream stream = device.stream();
  }
  pthread_attr_t usual, huge;
  REQUIRE(pthread_getattr_default_np(&usual) == 0);
  REQUIRE(pthread_attr_init(&huge) == 0);
  // No address space has room for such a stack.
  REQUIRE(pthread_attr_setstacksize(&huge, std::size_t{1} << 60) == 0);
  REQUIRE(pthread_setattr_default_np(&huge) == 0);
  const auto error = error_of([&] { device.stream(); });
  REQUIRE(pthread_setattr_default_np(&usual) == 0);
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&huge);
  REQUIRE(error);
  CHECK(error->call() == "stream");
  CHECK(std::string{error->what()}.find("thread") != std::string::npos);
  ps::tests::check_nothing_lives(device);
  ps::HostStream works = device.stream();
  works.sync();
  CHECK(device.counts().live_streams == 1);
}

TEST_CASE("each kind of call can be made to fail, names itself, and works again") {
  ps::HostDevice device;
  {
    Calls calls{device};
    for (const auto& [name, call] : calls.all) {
      CAPTURE(name);
      const ps::HostCounts before = device.counts();
      device.fail_call(1, {.code = 77});
      CHECK_FALSE(device.fault_fired());
      const auto error = error_of(call);
      REQUIRE(error);
      CHECK(device.fault_fired());
      CHECK(error->call() == name);
      CHECK(error->code() == 77);
      CHECK_FALSE(error->sticky());
      CHECK(std::string{error->what()}.find("penstock: host: " + name) == 0);
      CHECK(device.last_error() == 0);
      const ps::HostCounts after = device.counts();
      CHECK(after.calls == before.calls + 1);
      CHECK(after.copies == before.copies);
      CHECK(after.launches == before.launches);
      CHECK(after.records == before.records);
      CHECK(after.waits == before.waits);
      CHECK(after.queries == before.queries);
      CHECK(after.syncs == before.syncs);
      CHECK(after.pinned_bytes == before.pinned_bytes);
      CHECK_FALSE(error_of(call));
      CHECK(device.counts().calls == before.calls + 2);
    }
  }
  ps::tests::check_nothing_lives(device);
}

TEST_CASE("the k-th call fails, once or from then on") {
  for (const bool persistent : {false, true}) {
    std::uint64_t k = 1;
    for (bool fired = true; fired; ++k) {
      CAPTURE(persistent, k);
      ps::HostDevice device;
      {
        Calls calls{device};
        const std::uint64_t number = calls.all.size();
        device.fail_call(k, {.persistent = persistent});
        std::uint64_t failed = 0;
        for (std::uint64_t i = 1; i <= number; ++i) {
          const bool fails = error_of(calls.all[i - 1].second).has_value();
          CHECK(fails == (persistent ? i >= k : i == k));
          failed += fails;
        }
        fired = device.fault_fired();
        CHECK(fired == (k <= number));
        CHECK(failed == (!fired ? 0 : persistent ? number - k + 1 : 1));
        device.fail_call(0);
        CHECK_FALSE(device.fault_fired());
        CHECK_FALSE(error_of(calls.all.back().second));
      }
      ps::tests::check_nothing_lives(device);
    }
    CHECK(k == 17 + 2);
  }
}

TEST_CASE("a fault set while another thread calls comes, once") {
  ps::HostDevice device;
  {
    ps::HostEvent event = device.event();
    std::atomic<std::uint64_t> calls{0}, failed{0};
    std::atomic<bool> over{false};
    std::thread asking{[&] {
      while (!over) {
        failed += error_of([&] { (void)event.is_done(); }) ? 1 : 0;
        ++calls;
      }
    }};
    for (std::uint64_t round = 1; round <= 500; ++round) {
      device.fail_call(1 + round % 2);
      // In calls of the other thread, which may see late that this one has set a fault.
      for (const std::uint64_t until = calls + 10'000; failed != round && calls < until;) {
        std::this_thread::yield();
      }
      CHECK(device.fault_fired());
      for (const std::uint64_t until = calls + 10; calls < until;) {
        std::this_thread::yield();
      }
      CHECK(failed == round);
    }
    over = true;
    asking.join();
  }
  ps::tests::check_nothing_lives(device);
}

TEST_CASE("after a sticky fault every later call throws the same") {
  ps::HostDevice device;
  {
    Calls calls{device};
    device.fail_call(2, {.sticky = true, .code = 700});
    CHECK_FALSE(error_of([&] { calls.stream.sync(); }));
    CHECK(device.last_error() == 0);
    for (int round = 0; round < 2; ++round) {
      for (const auto& [name, call] : calls.all) {
        CAPTURE(round, name);
        const auto error = error_of(call);
        REQUIRE(error);
        CHECK(error->sticky());
        CHECK(error->code() == 700);
        CHECK(error->call() == name);
        CHECK(device.last_error() == 700);
        CHECK(device.last_error() == 700);
      }
    }
    CHECK(device.fault_fired());
    bool ran = false;
    const auto error = error_of([&] { calls.stream.enqueue([&ran] { ran = true; }); });
    REQUIRE(error);
    CHECK(error->sticky());
    CHECK_FALSE(ran);
  }
  ps::tests::check_nothing_lives(device);
}

TEST_CASE("work that throws breaks the device down and not the process") {
  ps::HostDevice device;
  {
    ps::HostStream stream = device.stream(), other = device.stream();
    ps::HostEvent event = device.event();
    const std::string what = "record 17 is no image";
    Gate gate;
    std::atomic<bool> ran{false};
    gate.hold(stream);
    stream.enqueue([&what] { throw std::runtime_error{what}; });
    stream.enqueue([&ran] { ran = true; });
    event.record(stream);
    other.wait(event);
    other.enqueue([&ran] { ran = true; });
    std::thread opener{[&] {
      std::this_thread::sleep_for(20ms);
      gate.open();
    }};
    std::optional<ps::DeviceError> error;
    SECTION("the stream's sync says so") {
      error = error_of([&] { stream.sync(); });
      REQUIRE(error);
      CHECK(error->call() == "sync");
    }
    SECTION("so does that of the event behind it") {
      error = error_of([&] { event.sync(); });
      REQUIRE(error);
      CHECK(error->call() == "sync");
    }
    SECTION("so does that of a stream that waits for it") {
      error = error_of([&] { other.sync(); });
      REQUIRE(error);
      CHECK(error->call() == "sync");
    }
    SECTION("so does every later call") {
      opener.join();
      opener = std::thread{[] {}};
      while (device.last_error() == 0) {
        std::this_thread::yield();
      }
      error = error_of([&] { device.event(); });
      REQUIRE(error);
      CHECK(error->call() == "event");
    }
    opener.join();
    CHECK(error->sticky());
    CHECK(error->code() == 715);
    CHECK(std::string{error->what()}.find("penstock: ") == 0);
    CHECK(std::string{error->what()}.find(what) != std::string::npos);
    CHECK(error_of([&] { stream.sync(); }));
    // A thread that asks no device sees it too: no work after the trap has run.
    {
      const ps::HostStream last = std::move(stream), one = std::move(other);
    }
    CHECK_FALSE(ran);
  }
  ps::tests::check_nothing_lives(device);
}

TEST_CASE("the first reason of a breakdown stays, and any thrown type is one") {
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  stream.enqueue([] { throw 42; });
  while (device.last_error() == 0) {
    std::this_thread::yield();
  }
  device.fail_call(1, {.sticky = true, .code = 99});
  const auto error = error_of([&] { stream.sync(); });
  REQUIRE(error);
  CHECK(error->code() == 715);
  CHECK(std::string{error->what()}.find("work on a stream threw") != std::string::npos);
}

TEST_CASE("on a broken device memory is freed only when the work that runs is done") {
  ps::HostDevice device;
  ps::HostStream running = device.stream(), throwing = device.stream();
  const std::string what = "trap";
  void* const memory = device.allocate(64);
  void* const pinned = device.allocate_pinned(4096);
  std::atomic<int> state{0};
  running.enqueue([&state] {
    state = 1;
    std::this_thread::sleep_for(50ms);
    state = 2;
  });
  while (state == 0) {
    std::this_thread::yield();
  }
  break_down(device, throwing, &what);
  SECTION("device memory") {
    device.deallocate(memory, 64);
    CHECK(state == 2);
    device.deallocate_pinned(pinned, 4096);
  }
  SECTION("pinned memory") {
    device.deallocate_pinned(pinned, 4096);
    CHECK(state == 2);
    device.deallocate(memory, 64);
  }
  CHECK(device.counts().live_allocations == 0);
  CHECK(device.counts().live_pinned == 0);
}

TEST_CASE("what is done and what lives is counted exactly") {
  ps::HostDevice device;
  {
    ps::HostStream stream = device.stream();
    ps::HostStream moved = std::move(stream);
    ps::HostEvent event = device.event(), second = device.event();
    const Memory memory{device, 1000};
    const PinnedMemory pinned{device, 3 * 4096};
    {
      const PinnedMemory other{device, 4096};
    }
    device.copy_to_device(memory.at, pinned.at, 1000, moved);
    device.copy_to_device(memory.at, pinned.at, 10, moved);
    device.copy_to_host(pinned.at, memory.at, 7, moved);
    moved.enqueue([] {});
    std::array lanes{device.stream()};
    const ps::HostGraph graph = device.capture(lanes, [&] {
      lanes[0].enqueue([] {}); // launches nothing now
      lanes[0].enqueue([] {});
    });
    graph.launch(moved);
    event.record(moved);
    device.record(event, moved);
    moved.wait(event);
    moved.is_done();
    event.is_done();
    device.is_done(event);
    moved.sync();
    device.sync(event);
    event = std::move(second);
    const ps::HostCounts counts = device.counts();
    CHECK(counts.calls == 6 + 3 + 3 + 2 + 1 + 3 + 2);
    CHECK(counts.copies == 3);
    CHECK(counts.copied_bytes == 1017);
    CHECK(counts.launches == 2);
    CHECK(counts.records == 2);
    CHECK(counts.waits == 1);
    CHECK(counts.queries == 3);
    CHECK(counts.syncs == 2);
    CHECK(counts.pinned_bytes == 4 * 4096);
    CHECK(counts.live_allocations == 1);
    CHECK(counts.live_pinned == 1);
    CHECK(counts.live_streams == 2);
    CHECK(counts.live_events == 1);
  }
  ps::tests::check_nothing_lives(device);
  CHECK(device.counts().pinned_bytes == 4 * 4096);
}

TEST_CASE("enqueue, copies, events and questions allocate nothing") {
  ps::HostDevice device{{.late_seed = 1}};
  ps::HostStream a = device.stream(), b = device.stream();
  ps::HostEvent event = device.event();
  const Memory memory{device, 4096};
  const PinnedMemory pinned{device, 4096};
  std::uint64_t sum = 0;
  const auto step = [&] {
    device.copy_to_device(memory.at, pinned.at, 4096, a);
    std::array<std::uint64_t, 40> numbers{};
    numbers.fill(1);
    a.enqueue([&sum, numbers] { sum += numbers[39]; });
    event.record(a);
    b.wait(event);
    b.enqueue([&sum] { sum += 1; });
    device.copy_to_host(pinned.at, memory.at, 4096, b);
    event.record(b);
    a.wait(event);
    event.is_done();
    a.is_done();
  };
  step();
  a.sync();
  const std::uint64_t before = memory::allocations;
  for (int i = 0; i < 200; ++i) {
    step();
  }
  event.sync();
  a.sync();
  b.sync();
  CHECK(memory::allocations == before);
  CHECK(before > 0);
  CHECK(sum == 2 * 201);
}

TEST_CASE("many threads use one device, each a stream of its own") {
  ps::HostDevice device{{.late_seed = 5}};
  std::array<std::uint64_t, 4> sums{};
  std::vector<std::thread> threads;
  for (std::uint64_t& sum : sums) {
    threads.emplace_back([&device, &sum] {
      for (int round = 0; round < 5; ++round) {
        ps::HostStream stream = device.stream();
        ps::HostEvent event = device.event();
        const Memory memory{device, 4096};
        const PinnedMemory pinned{device, 4096};
        std::memset(pinned.at, 1, 4096);
        device.copy_to_device(memory.at, pinned.at, 4096, stream);
        stream.enqueue([&sum, at = memory.as<unsigned char>()] { sum += at[0] + at[4095]; });
        event.record(stream);
        event.sync();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::uint64_t sum : sums) {
    CHECK(sum == 10);
  }
  ps::tests::check_nothing_lives(device);
  CHECK(device.counts().pinned_bytes == 20 * 4096);
}

TEST_CASE("the host device is named") {
  CHECK(ps::HostDevice{}.name() == "host");
}
