// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A HostDevice that pretends to be a machine of given rates and times, and what it notes of calls
// in callables. What must last so long is checked strictly. Upper bounds are generous, since the
// machine may be busy: they only tell apart what runs side by side and what runs one after the
// other.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/sleeping.hpp"
#include "support/temp_dir.hpp"

#include <penstock/host/algorithm.hpp>
#include <penstock/host/convert.hpp>
#include <penstock/host/device.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ps = penstock;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr double hour_s = 3600;

Clock::duration time_of(const std::function<void()>& f) {
  const auto begin = Clock::now();
  f();
  return Clock::now() - begin;
}

// Pinned memory and device memory of the same size.
struct Room {
  Room(ps::HostDevice& d, std::size_t n)
      : device{d}, bytes{n}, pinned{static_cast<std::byte*>(d.allocate_pinned(n))},
        memory{static_cast<std::byte*>(d.allocate(n))} {}
  Room(const Room&) = delete;
  ~Room() {
    device.deallocate(memory, bytes);
    device.deallocate_pinned(pinned, bytes);
  }
  void to_device(ps::HostStream& stream, std::size_t n) {
    device.copy_to_device(memory, pinned, n, stream);
  }
  void to_host(ps::HostStream& stream, std::size_t n) {
    device.copy_to_host(pinned, memory, n, stream);
  }
  ps::HostDevice& device;
  std::size_t bytes;
  std::byte* pinned;
  std::byte* memory;
};

// What f() asks of a device.
ps::DeviceCalls calls_of(const std::function<void()>& f) {
  ps::detail::CallCounts counts;
  {
    const ps::detail::CallsCountIn here{&counts};
    f();
  }
  ps::DeviceCalls calls;
  counts.add_to(calls);
  return calls;
}

bool fails(const std::function<void()>& f) {
  return ps::tests::thrown_by<ps::DeviceError>(f).has_value();
}

// Whether f() takes at least `least`, each time, and less than `most` once: the machine may be too
// busy the other times.
bool takes(Clock::duration least, Clock::duration most, const std::function<void()>& f) {
  for (int tries = 0; tries < 5; ++tries) {
    const Clock::duration took = time_of(f);
    if (took < least) {
      return false;
    }
    if (took < most) {
      return true;
    }
  }
  return false;
}

} // namespace

TEST_CASE("turns are booked one after the other, none before it is wanted") {
  ps::detail::Turns turns;
  const Clock::time_point now = Clock::now();
  const auto turn = [&](Clock::duration earliest, Clock::duration takes) {
    const ps::detail::Turn is = turns.book(now + earliest, takes);
    CHECK(is.end - is.begin == takes);
    return is.begin - now;
  };
  CHECK(turn(0ms, 5ms) == 0ms);
  CHECK(turn(0ms, 5ms) == 5ms);
  CHECK(turn(-3ms, 1ms) == 10ms);
  CHECK(turn(20ms, 1ms) == 20ms);
  CHECK(turn(0ms, 0ms) == 21ms);
}

TEST_CASE("the pretended time goes on by what work costs, however late its thread wakes up") {
  ps::detail::PretendedMachine<> machine{{.kernel_s = 0.02}};
  ps::detail::CallGate gate;
  ps::detail::Pace pace{&machine, gate};
  REQUIRE(pace.keeps_time());
  const Clock::time_point begin = Clock::now();
  pace.not_before(begin);
  int ran = 0;
  const auto work = [&ran] { ++ran; };
  for (int i = 1; i <= 5; ++i) {
    pace.run_kernel(work);
    CHECK(pace.at() - begin == i * 20ms);
    CHECK(Clock::now() >= pace.at());
    // As a thread that the system wakes up too late: the next turn is not later for that.
    std::this_thread::sleep_for(5ms);
  }
  CHECK(ran == 5);

  SECTION("work that takes longer takes its own time") {
    const auto slow = [] { std::this_thread::sleep_for(50ms); };
    pace.run_kernel(slow);
    CHECK(pace.at() - begin >= 150ms);
    CHECK(pace.at() <= Clock::now());
  }
  SECTION("nothing runs on a device that broke down") {
    gate.break_down("it is broken", 1);
    pace.run_kernel(work); // would sleep
    std::this_thread::sleep_for(50ms);
    pace.run_kernel(work); // its turn is over
    CHECK(ran == 5);
  }
}

TEST_CASE("copies take the time of their bytes on the bus, and errors do not add up") {
  // 1000 copies of 0.2 ms each. A sleep for each would take 70 us more.
  ps::HostDevice device{{.to_device_bytes_per_s = 5e6, .to_host_bytes_per_s = 10e6}};
  Room room{device, 4096};
  auto stream = device.stream();
  CHECK(takes(200ms, 240ms, [&] {
    for (int i = 0; i < 1000; ++i) {
      room.to_device(stream, 1000);
    }
    stream.sync();
  }));
  CHECK(takes(200ms, 240ms, [&] {
    for (int i = 0; i < 1000; ++i) {
      room.to_host(stream, 2000);
    }
    stream.sync();
  }));
}

TEST_CASE("streams share the bus of a direction, and each direction has its own") {
  ps::HostDevice device{{.to_device_bytes_per_s = 1e6, .to_host_bytes_per_s = 1e6}};
  Room one{device, 12288}, two{device, 12288};
  auto a = device.stream(), b = device.stream();
  const auto both = [&](bool one_way) {
    for (int i = 0; i < 25; ++i) {
      one.to_device(a, 12'000);
      one_way ? two.to_device(b, 12'000) : two.to_host(b, 12'000);
    }
    a.sync();
    b.sync();
  };
  CHECK(time_of([&] { both(true); }) >= 600ms);
  CHECK(takes(300ms, 550ms, [&] { both(false); }));
}

TEST_CASE("enqueued work runs one at a time, in its stream's order, beside copies") {
  ps::HostDevice device{{.to_device_bytes_per_s = 1e6, .kernel_s = 0.01}};
  Room room{device, 12288};
  auto a = device.stream(), b = device.stream();
  std::vector<int> ran;
  SECTION("of two streams") {
    const auto took = time_of([&] {
      for (int i = 0; i < 10; ++i) {
        a.enqueue([&ran, i] { ran.push_back(i); });
        b.enqueue([] {});
      }
      a.sync();
      b.sync();
    });
    CHECK(took >= 200ms);
    CHECK(ran == std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  }
  SECTION("of a graph, whose lanes share the device") {
    std::array<ps::HostStream, 2> lanes{device.stream(), device.stream()};
    const auto graph = device.capture(lanes, [&] {
      for (int i = 0; i < 10; ++i) {
        lanes[0].enqueue([&ran, i] { ran.push_back(i); });
        lanes[1].enqueue([] {});
      }
    });
    const auto took = time_of([&] {
      graph.launch(a);
      a.sync();
    });
    CHECK(took >= 200ms);
    CHECK(ran == std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  }
  SECTION("while copies run") {
    const auto work = [&](ps::HostStream& kernels, ps::HostStream& copies) {
      for (int i = 0; i < 25; ++i) {
        kernels.enqueue([] {});
        room.to_device(copies, 10'000);
      }
      a.sync();
      b.sync();
    };
    CHECK(time_of([&] { work(a, a); }) >= 500ms);
    CHECK(takes(250ms, 460ms, [&] { work(a, b); }));
  }
  SECTION("of a graph, whose lanes copy and compute side by side") {
    std::array<ps::HostStream, 2> lanes{device.stream(), device.stream()};
    const auto graph = device.capture(lanes, [&] {
      for (int i = 0; i < 25; ++i) {
        lanes[0].enqueue([] {});
        room.to_device(lanes[1], 10'000);
      }
    });
    CHECK(takes(250ms, 460ms, [&] {
      graph.launch(a);
      a.sync();
    }));
  }
}

TEST_CASE("what waits for an event begins after it on the pretended machine too") {
  ps::HostDevice device{{.to_device_bytes_per_s = 1e6, .kernel_s = 0.1}};
  Room room{device, 102'400};
  auto a = device.stream(), b = device.stream();
  auto event = device.event();
  const auto took = time_of([&] {
    a.enqueue([] {});
    event.record(a);
    b.wait(event);
    room.to_device(b, 100'000);
    b.sync();
  });
  CHECK(took >= 200ms);
}

TEST_CASE("a launch keeps its caller, and that of a graph no longer than one") {
  ps::HostDevice device{{.launch_s = 0.01}};
  auto stream = device.stream();
  std::array<ps::HostStream, 1> lane{device.stream()};
  int ran = 0;
  const auto enqueued = time_of([&] {
    for (int i = 0; i < 20; ++i) {
      stream.enqueue([&ran] { ++ran; });
    }
  });
  CHECK(enqueued >= 190ms); // up to 10 ms may be made up for
  stream.sync();
  CHECK(ran == 20);
  CHECK(takes(0ms, 500ms, [&] {
    const auto graph = device.capture(lane, [&] {
      for (int i = 0; i < 100; ++i) {
        lane[0].enqueue([&ran] { ++ran; });
      }
    });
    graph.launch(stream);
    stream.sync();
  }));
  CHECK(ran >= 120);

  // Sleeps for each would take far longer.
  ps::HostDevice quick{{.launch_s = 20e-6}};
  auto other = quick.stream();
  CHECK(takes(90ms, 250ms, [&] {
    for (int i = 0; i < 5000; ++i) {
      other.enqueue([] {});
    }
  }));
}

TEST_CASE("what handing work over takes is part of a launch, but a wait for room is not") {
  ps::detail::PretendedMachine<> machine{{.launch_s = 0.01}};
  const auto launch = [](ps::detail::Machine& on, Clock::duration handing_over, bool at_once) {
    const auto begun = on.begin_launch();
    std::this_thread::sleep_for(handing_over);
    on.end_launch(begun, at_once);
  };
  CHECK(takes(185ms, 275ms, [&] {
    for (int i = 0; i < 20; ++i) {
      launch(machine, 5ms, true);
    }
  }));
  ps::detail::PretendedMachine<> quick{{.launch_s = 0.001}};
  Clock::duration longest{};
  // A busy machine may let a thread sleep too long, which the thread then makes up for.
  for (int turn = 0; turn != 5 && longest < 5ms; ++turn) {
    std::thread{[&] { // which has slept for nothing too long
      launch(quick, 8ms, false);
      longest = std::max(longest, time_of([&] {
                           for (int i = 0; i < 8; ++i) {
                             launch(quick, 0ms, true);
                           }
                         }));
    }}
        .join();
  }
  CHECK(longest >= 5ms);
}

TEST_CASE("with a bus a pageable copy is slower, and keeps its caller until it is done") {
  ps::HostDevice device{
      {.to_device_bytes_per_s = 1e6, .to_host_bytes_per_s = 1e6, .pageable_share = 0.25}};
  Room room{device, 49'152};
  auto stream = device.stream();
  std::vector<std::byte> host(50'000, std::byte{7});
  CHECK(time_of([&] { device.copy_to_device(room.memory, host.data(), 40'000, stream); }) >= 160ms);
  CHECK(room.memory[39'999] == std::byte{7});
  CHECK(room.memory[40'000] == std::byte{0xCD});
  std::fill(host.begin(), host.end(), std::byte{0});
  CHECK(time_of([&] { device.copy_to_host(host.data(), room.memory, 40'000, stream); }) >= 160ms);
  CHECK(host[39'999] == std::byte{7});

  // One that is captured waits for nothing, since nothing runs.
  std::array<ps::HostStream, 1> lane{device.stream()};
  const auto graph = device.capture(
      lane, [&] { device.copy_to_device(room.memory, host.data(), 40'000, lane[0]); });
  CHECK(time_of([&] {
          graph.launch(stream);
          stream.sync();
        }) >= 160ms);
}

TEST_CASE("what another device has pinned goes over the bus as fast, and keeps no caller") {
  ps::HostDevice other;
  ps::HostDevice device{{.to_device_bytes_per_s = 1e6, .pageable_share = 0.02}};
  const auto host = ps::detail::Allocation::in<ps::Pinned>(&other, 512'000);
  Room room{device, 512'000};
  auto stream = device.stream();
  const auto copy = [&] { device.copy_to_device(room.memory, host.data(), 512'000, stream); };
  CHECK(time_of(copy) < 500ms);
  CHECK(time_of([&] { stream.sync(); }) < 10s); // were it pageable, 25 s
}

TEST_CASE("without a bus a pageable copy is as any other, but counted") {
  ps::HostDevice device;
  Room room{device, 4096};
  auto stream = device.stream();
  std::vector<std::byte> host(5000, std::byte{7});
  std::atomic<bool> open{false};
  stream.enqueue([&open] {
    while (!open) {
      std::this_thread::yield();
    }
  });
  const ps::DeviceCalls calls = calls_of([&] {
    device.copy_to_device(room.memory, host.data(), 3000, stream);
    device.copy_to_host(host.data() + 4000, room.memory, 1000, stream);
    room.to_device(stream, 2000);
  });
  CHECK(host[4000] == std::byte{7});
  host[0] = std::byte{8};
  open = true; // both copies have returned before this
  stream.sync();
  CHECK(room.memory[1] == std::byte{0});
  CHECK(host[4000] == std::byte{8});
  CHECK(calls.copies == 3);
  CHECK(calls.pageable_copies == 2);
  CHECK(calls.pageable_bytes == 4000);
}

TEST_CASE("memory is pageable unless it lies in one piece that a device has page-locked") {
  ps::HostDevice device;
  ps::HostDevice other;
  auto stream = device.stream();
  const ps::detail::Allocation memory = ps::detail::Allocation::in<ps::Device>(&device, 8192);
  const auto is_pageable = [&](const void* host, std::size_t bytes) {
    return calls_of([&] {
             device.copy_to_device(memory.data(), host, bytes, stream);
             stream.sync();
           }).pageable_copies == 1;
  };
  // More pieces than are looked at in one go.
  std::vector<std::byte*> pieces(200);
  for (auto& piece : pieces) {
    piece = static_cast<std::byte*>(device.allocate_pinned(8192));
  }
  int wrong = 0;
  for (const auto* piece : pieces) {
    wrong += is_pageable(piece, 8192) || is_pageable(piece + 8191, 1) || is_pageable(piece + 5, 5);
  }
  CHECK(wrong == 0);
  CHECK_FALSE(is_pageable(nullptr, 0));
  CHECK(is_pageable(memory.data() + 4096, 100)); // a device's memory is no page-locked memory

  ps::detail::PinnedPieces noted;
  noted.add(pieces[0], 4096);
  CHECK(noted.has(pieces[0], 4096));
  CHECK_FALSE(noted.has(pieces[0], 4097));
  CHECK_FALSE(noted.has(pieces[0] + 4096, 1));
  CHECK_FALSE(noted.has(pieces[0] - 1, 1));
  CHECK_FALSE(noted.has(pieces[0] - 1, 2));
  CHECK_FALSE(noted.has(pieces[0] + 1, std::numeric_limits<std::size_t>::max()));
  noted.add(pieces[0] + 4096, std::size_t{1} << 42); // more than a word can say
  CHECK(noted.has(pieces[0] + 4096, std::size_t{1} << 40));
  CHECK(noted.has(pieces[0], 4096));
  noted.remove(pieces[0], 4096);
  CHECK_FALSE(noted.has(pieces[0], 1));

  for (std::size_t i = 0; i < pieces.size(); i += 2) {
    device.deallocate_pinned(pieces[i], 8192);
  }
  CHECK_FALSE(is_pageable(pieces[199], 8192));
  for (std::size_t i = 1; i < pieces.size(); i += 2) {
    device.deallocate_pinned(pieces[i], 8192);
  }
  const std::vector<std::byte> host(100);
  CHECK(is_pageable(host.data(), 100));
  void* const theirs = other.allocate_pinned(4096);
  CHECK_FALSE(is_pageable(theirs, 100));
  other.deallocate_pinned(theirs, 4096);
}

TEST_CASE("pieces are noted and forgotten by several threads at once") {
  static ps::detail::PinnedPieces noted; // keeps what it allocates
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uintptr_t t = 1; t != 5; ++t) {
    threads.emplace_back([&, t] {
      const auto at = [&](std::uintptr_t i) {
        return reinterpret_cast<const void*>((t * 1000 + 2 * i) * 4096);
      };
      for (std::uintptr_t i = 0; i != 100; ++i) {
        noted.add(at(i), 4096);
        wrong += noted.has(at(i), 4096) ? 0 : 1;
      }
      for (std::uintptr_t i = 0; i != 100; i += 2) {
        noted.remove(at(i), 4096);
      }
      for (std::uintptr_t i = 0; i != 100; ++i) {
        wrong += noted.has(at(i), 4096) == (i % 2 == 1) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
}

TEST_CASE("each call that a callable makes is counted once, and by its kind") {
  ps::HostDevice device;
  Room room{device, 4096};
  auto stream = device.stream();
  auto event = device.event();
  std::array<ps::HostStream, 1> lane{device.stream()};
  const auto graph = device.capture(lane, [&] { lane[0].enqueue([] {}); });
  auto* const bytes = reinterpret_cast<std::uint8_t*>(room.memory);
  const std::vector<std::byte> host(100);

  const auto check = [&](const ps::DeviceCalls& calls, std::uint64_t launches, std::uint64_t waits,
                         std::uint64_t allocations, std::uint64_t copies) {
    CHECK(calls.launches == launches);
    CHECK(calls.waits == waits);
    CHECK(calls.allocations == allocations);
    CHECK(calls.copies == copies);
    CHECK((calls.launch_s > 0) == (launches > 0));
    CHECK((calls.wait_s > 0) == (waits > 0));
    CHECK((calls.allocation_s > 0) == (allocations > 0));
    CHECK((calls.copy_s > 0) == (copies > 0));
  };
  check(calls_of([&] {
          stream.enqueue([] {});
          ps::for_each(stream, 10, [](std::size_t) {});
          ps::for_each(stream, 0, [](std::size_t) {}); // launches nothing
          ps::transform(stream, bytes, 10, bytes, [](std::uint8_t byte) { return byte; });
          graph.launch(stream);
        }),
        4, 0, 0, 0);
  check(calls_of([&] {
          stream.sync();
          event.sync();
          device.sync(stream);
          device.sync(event);
        }),
        0, 4, 0, 0);
  check(calls_of([&] {
          device.deallocate(device.allocate(100), 100);
          device.deallocate_pinned(device.allocate_pinned(4096), 4096);
          device.deallocate(nullptr, 0); // gives nothing back
          device.deallocate_pinned(nullptr, 0);
        }),
        0, 0, 4, 0);
  const ps::DeviceCalls copies = calls_of([&] {
    room.to_device(stream, 100);
    room.to_host(stream, 100);
    device.copy_to_device(room.memory, host.data(), 70, stream);
  });
  check(copies, 0, 0, 0, 3);
  CHECK(copies.pageable_copies == 1);
  CHECK(copies.pageable_bytes == 70);
  // What neither waits nor launches is of no kind, nor is what is captured.
  check(calls_of([&] {
          device.record(event, stream);
          device.wait(stream, event);
          (void)device.is_done(event);
          (void)stream.is_done();
          (void)device.event();
          (void)device.stream();
          (void)device.capture(lane, [&] {
            lane[0].enqueue([] {});
            room.to_device(lane[0], 10);
          });
        }),
        0, 0, 0, 0);
  // What streams do by themselves is nobody's call.
  check(calls_of([&] { std::thread{[&] { stream.sync(); }}.join(); }), 0, 0, 0, 0);
  // A call that fails was a call.
  device.fail_call(1);
  check(calls_of([&] { CHECK(fails([&] { stream.sync(); })); }), 0, 1, 0, 0);
  stream.sync();
}

TEST_CASE("the time of a counted call is what it kept its caller") {
  ps::HostDevice device{{.to_device_bytes_per_s = 1e6, .pageable_share = 1, .launch_s = 0.03}};
  Room room{device, 4096};
  auto stream = device.stream();
  const std::vector<std::byte> host(20'000);
  std::vector<std::byte> to(20'000);
  const ps::DeviceCalls calls = calls_of([&] {
    stream.enqueue([] { std::this_thread::sleep_for(30ms); });
    stream.enqueue([] { std::this_thread::sleep_for(100ms); });
    stream.sync();
    device.copy_to_device(to.data(), host.data(), 20'000, stream);
  });
  CHECK(calls.launch_s >= 0.05); // 10 ms may be made up for
  CHECK(calls.wait_s > 0.01);    // the work may begin before enqueue() returns
  CHECK(calls.copy_s >= 0.02);
}

TEST_CASE("a copy that is made to fail takes no time of the bus") {
  ps::HostDevice device{{.to_device_bytes_per_s = 1}};
  Room room{device, 4096};
  auto stream = device.stream();
  device.fail_call(1);
  CHECK(fails([&] { room.to_device(stream, 4096); }));
  CHECK(device.counts().copies == 0);
  // The bus would be busy for an hour.
  room.to_device(stream, 0);
  stream.sync();
}

TEST_CASE("a device that breaks down does not sleep on") {
  const auto bytes = static_cast<std::size_t>(hour_s);
  ps::HostDevice device{{.to_device_bytes_per_s = 1, .pageable_share = 1}};
  {
    Room room{device, 4096};
    auto slow = device.stream(), broken = device.stream();
    std::atomic<bool> ran{false};
    SECTION("a stream's copy, and nothing runs behind it") {
      room.to_device(slow, bytes);
      slow.enqueue([&ran] { ran = true; });
      broken.enqueue([] { throw std::runtime_error{"it broke"}; });
      CHECK(fails([&] { slow.sync(); }));
    }
    SECTION("a caller of a pageable copy") {
      const std::vector<std::byte> host(bytes);
      std::thread breaks{[&] {
        std::this_thread::sleep_for(20ms);
        broken.enqueue([] { throw std::runtime_error{"it broke"}; });
      }};
      CHECK(fails([&] { device.copy_to_device(room.memory, host.data(), bytes, slow); }));
      breaks.join();
    }
    CHECK(room.memory[0] == std::byte{0xCD});
    CHECK_FALSE(ran);
  }
  ps::tests::check_nothing_lives(device);
}

TEST_CASE("a device has the memory that it says it has") {
  ps::HostDevice device{{.memory_bytes = 10'000}};
  CHECK(device.memory_bytes() == 10'000);
  void* const most = device.allocate(9000);
  try {
    device.allocate(1001);
    FAIL("it had no more");
  } catch (const ps::DeviceError& e) {
    CHECK(e.code() == 2);
    CHECK(e.call() == "allocate");
    CHECK(std::string{e.what()}.find("1001 bytes") != std::string::npos);
  }
  void* const rest = device.allocate(1000);
  CHECK(fails([&] { device.allocate(1); }));
  device.deallocate(most, 9000);
  device.deallocate(device.allocate(9000), 9000);
  device.deallocate(rest, 1000);
  ps::tests::check_nothing_lives(device);
  CHECK(fails([&] { device.allocate(std::numeric_limits<std::size_t>::max()); }));
  CHECK(ps::HostDevice{}.memory_bytes() == 0);
}

TEST_CASE("by default nothing costs anything; what cannot be is refused by name") {
  CHECK_FALSE(ps::detail::PretendedMachine<>{{}}.has_costs());
  CHECK_FALSE(ps::detail::PretendedMachine<>{{.launch_s = 1, .memory_bytes = 1}}.has_costs());
  const auto refusal = [](ps::HostOptions options) {
    try {
      const ps::HostDevice device{options};
    } catch (const ps::OptionError& e) {
      return std::string{e.what()};
    }
    return std::string{"nothing"};
  };
  const double no_number = std::numeric_limits<double>::quiet_NaN();
  CHECK(refusal({.to_device_bytes_per_s = -1}).find("to_device_bytes_per_s") != std::string::npos);
  CHECK(refusal({.to_host_bytes_per_s = -1}).find("to_host_bytes_per_s") != std::string::npos);
  CHECK(refusal({.launch_s = -1e-9}).find("launch_s") != std::string::npos);
  CHECK(refusal({.kernel_s = no_number}).find("kernel_s") != std::string::npos);
  CHECK(refusal({.pageable_share = 0}).find("pageable_share") != std::string::npos);
  CHECK(refusal({.pageable_share = 1.01}).find("pageable_share") != std::string::npos);
  CHECK(refusal({.pageable_share = 1, .kernel_s = 1e300}) == "nothing");
}

TEST_CASE("a disk that sleeps has a latency for each reader, and a rate that all share") {
  const auto ask = [](ps::tests::DiskSpeed speed, int readers, int requests) {
    const ps::tests::SleepingDisk disk{speed};
    std::vector<std::thread> all;
    for (int i = 0; i < readers; ++i) {
      all.emplace_back([&disk, requests] {
        for (int k = 0; k < requests; ++k) {
          disk.ask(1000);
        }
      });
    }
    for (std::thread& reader : all) {
      reader.join();
    }
    CHECK(disk.requests() == static_cast<std::uint64_t>(readers * requests));
    CHECK(disk.bytes() == 1000 * disk.requests());
  };
  CHECK(takes(190ms, 400ms, [&] { ask({.latency_s = 0.02}, 1, 10); }));
  CHECK(takes(190ms, 400ms, [&] { ask({.latency_s = 0.02}, 4, 10); }));
  CHECK(takes(190ms, 400ms, [&] { ask({.bytes_per_s = 1e5}, 4, 5); }));
  CHECK(takes(190ms, 400ms, [&] { ask({.latency_s = 0.01, .bytes_per_s = 1e5}, 1, 10); }));
  CHECK(takes(140ms, 250ms, [&] { ask({.bytes_per_s = 1e7}, 1, 1500); }));
}

TEST_CASE("what lies on a disk that sleeps is read and written right, a request at a time") {
  const ps::tests::TempDir dir;
  const ps::tests::SleepingDisk from{{.latency_s = 0.001}}, to{{.latency_s = 0.001}};
  std::vector<std::uint32_t> numbers(500'000);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<std::uint32_t>(i * 7);
  }
  std::vector<std::uint32_t> read;
  const auto keep = [&read](ps::Batch<const std::uint32_t, ps::Pageable> batch) {
    read.insert(read.end(), batch.data(), batch.data() + batch.size());
  };
  const std::string path = dir / "numbers";
  auto write = ps::Reader{ps::tests::SleepingSource{ps::memory(numbers), from}} |
               ps::Writer{path, {}, ps::tests::SleepingIo{to}};
  write.run();
  CHECK(from.bytes() == 2'000'000);
  CHECK(to.bytes() == 2'000'000);
  CHECK(from.requests() >= 2);
  CHECK(to.requests() >= 2);
  auto look = ps::Reader{ps::records<std::uint32_t>(path, {}, ps::tests::SleepingIo{from})} |
              ps::Consumer{keep, {.workers = 1}};
  look.run();
  CHECK(read == numbers);
  CHECK(from.bytes() == 4'000'000 + 264); // with how the file begins
}
