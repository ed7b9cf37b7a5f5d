// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The node that hands each slot of a ring on to several: when a run ends between two of them, and
// what it says of its time.

#include "support/catch.hpp"
#include "support/watchdog.hpp"

#include <penstock/detail/branches/fork_node.hpp>
#include <penstock/penstock.hpp>

#include <chrono>
#include <cstddef>
#include <thread>

namespace ps = penstock;
namespace tests = penstock::tests;
using ps::detail::HostLink;
using ps::detail::RingMemory;

namespace {

constexpr std::size_t slots = 2;
constexpr std::size_t record = 8;

auto make_ring(ps::HostDevice& device) {
  return ps::detail::new_shared<HostLink>(
      slots, RingMemory::in<ps::Pinned>(&device, slots, {1, record}, "a test"), ps::Side::many,
      ps::Side::one);
}
void publish_one(HostLink& link) {
  auto claim = link.ring.claim();
  REQUIRE(claim);
  claim.slot().begin(0, 0, 0, 1);
  claim.publish(ps::Fill::full);
}

} // namespace

TEST_CASE("a slot that some rings have not got when a run ends is nobody's until the next run") {
  const tests::Watchdog watchdog{"a run ends between two rings"};
  ps::HostDevice device;
  ps::detail::RunControl control;
  const auto in = make_ring(device);
  ps::detail::ForkNode<ps::HostDevice> node{{"tee", 1, control}, &device, in, 2};
  REQUIRE(node.make_ready());

  publish_one(*in);
  node.out(1)->ring.stop(); // seen before the other rings' end
  std::thread works{[&] { node.run(0); }};
  auto got = node.out(0)->ring.take();
  CHECK(got);
  CHECK_FALSE(in->ring.is_free(slots)); // a reader would fill it while a copy is under way
  in->ring.stop();
  works.join();

  got.release();
  REQUIRE(node.make_ready());
  in->ring.reset();
  publish_one(*in);
  in->ring.end();
  node.run(0);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    CHECK(node.out(i)->ring.take().slot().units == 1);
    CHECK_FALSE(node.out(i)->ring.take());
  }
}

TEST_CASE("what hands slots on is not at work while it looks for more") {
  const tests::Watchdog watchdog{"slots from time to time"};
  using Clock = std::chrono::steady_clock;
  ps::HostDevice device;
  ps::detail::RunControl control;
  const auto in = make_ring(device);
  ps::detail::ForkNode<ps::HostDevice> node{{"tee", 1, control}, &device, in, 2};
  REQUIRE(node.make_ready());
  std::thread works{[&] { node.run(0); }};
  for (int i = 0; i != 2000; ++i) {
    const Clock::time_point next = Clock::now() + std::chrono::microseconds{15};
    publish_one(*in);
    node.out(0)->ring.take().release();
    node.out(1)->ring.take().release();
    while (Clock::now() < next) { // sooner than it sleeps
    }
  }
  in->ring.end();
  works.join();
  ps::StageReport report;
  node.report(1, report);
  CHECK(report.records == 2000);
  CHECK(report.starved_s > 0);
  CHECK(report.busy_s < report.starved_s);
}
