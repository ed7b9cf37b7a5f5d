// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of scratch memory on the host device, whose copies come late in two different orders,
// and tests that can count or hold back work only there.

#include "support/counted_new.hpp"

#include <penstock/callables/scratch.hpp>
#include <penstock/penstock.hpp>

#include <atomic>
#include <cstdint>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>

using TestDevice = penstock::HostDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  for (const std::uint64_t seed : {1, 2}) {
    D device{{.late_seed = seed}};
    f(device);
  }
}

#include "suite/scratch_suite.hpp"

namespace suite {

using HostScratch = ps::Scratch<ps::HostDevice>;

// A frame cannot be moved, so frames die in the reverse of their order.
template <class S>
concept MadeOnTheHeap =
    requires(S& scratch, ps::HostStream& stream) { new typename S::Frame(scratch.on(stream)); };
static_assert(!MadeOnTheHeap<HostScratch>);
static_assert(!std::is_move_constructible_v<HostScratch::Frame>);
static_assert(!std::is_move_assignable_v<HostScratch::Frame>);
static_assert(!std::is_move_constructible_v<HostScratch>);

TEST_CASE("nothing is allocated and no device called for scratch memory once it is there") {
  ps::HostDevice device;
  auto first = device.stream();
  auto second = device.stream();
  const ps::DeviceArray<std::uint64_t, ps::HostDevice> counts{device, 256};
  ps::Scratch scratch{device, 1 << 20, {.streams = 2}};
  CHECK(device.counts().live_allocations == 2);
  const std::uint64_t allocations = tests::memory::allocations;
  const std::uint64_t calls = device.counts().calls;
  std::uint64_t taken = 0;
  for (int call = 0; call < 100; ++call) {
    auto outer = scratch.on(first);
    taken += outer.take<Number>(1000) != nullptr;
    auto other = scratch.on(second);
    taken += other.take<Number>(1000) != nullptr;
    auto inner = scratch.on(first);
    auto workspace = inner.workspace(8192);
    ps::histogram(first, nullptr, 0, counts.data(), workspace);
    taken += scratch.counts().refusals;
  }
  device.sync(first);
  scratch.unbind();
  CHECK(tests::memory::allocations == allocations);
  CHECK(device.counts().calls == calls + 1); // the sync
  CHECK(taken == 200);
}

TEST_CASE("scratch memory is given back, whichever call failed when it was made") {
  ps::HostDevice device;
  device.fail_call(1);
  const auto e = tests::caught<ps::DeviceError>([&] { ps::Scratch{device, 12'345}; });
  CHECK(tests::has(e, "12544")); // rounded up
  {
    const ps::Scratch scratch{device, 12'345, {.streams = 7}};
  }
  tests::check_nothing_lives(device);
}

TEST_CASE("scratch memory is taken again while the work of the frame before is still queued") {
  ps::HostDevice device;
  const ps::DeviceArray<Number, ps::HostDevice> wrong{device, 100};
  ps::Scratch scratch{device, 512};
  auto stream = device.stream();
  struct Gate {
    ~Gate() { open = true; } // else the stream would never end
    std::atomic<bool> open{false};
  } gate;
  stream.enqueue([&gate] {
    while (!gate.open) {
      std::this_thread::yield();
    }
  });
  std::set<Address> seen;
  for (Number call = 0; call < 10; ++call) {
    auto frame = scratch.on(stream);
    auto* const at = frame.take<Number>(100);
    seen.insert(address(at));
    ps::for_each(stream, 100, Count{at, 1000 * call});
    ps::for_each(stream, 100, Verify{at, 1000 * call, wrong.data()});
  }
  CHECK(seen.size() == 1);
  CHECK_FALSE(stream.is_done());
  gate.open = true;
  CHECK(wrong.read(stream) == std::vector<Number>(100, 0));
}

TEST_CASE("a workspace may be over memory that is someone else's") {
  ps::HostDevice device;
  void* const at = device.allocate(8192);
  {
    ps::Workspace<ps::HostDevice> lent{at, 8192};
    const ps::Workspace moved{std::move(lent)};
    CHECK(moved.data() == at);
    CHECK(moved.size() == 8192);
    ps::Workspace own{device, 100};
    own = ps::Workspace<ps::HostDevice>{at, 8192}; // the memory that it had is given back
    CHECK(device.counts().live_allocations == 1);
    CHECK(own.data() == at);
  }
  CHECK(device.counts().live_allocations == 1);
  device.deallocate(at, 8192);
}

} // namespace suite
