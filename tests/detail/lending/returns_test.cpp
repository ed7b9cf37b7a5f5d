// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The box into which any thread puts what it gives back.

#include "support/catch.hpp"
#include "support/watchdog.hpp"

#include <penstock/detail/lending/returns.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

using penstock::detail::Return;
using penstock::detail::Returns;
using namespace std::chrono_literals;

TEST_CASE("a box gives what was put in, in that order, once") {
  Returns<> box;
  CHECK(box.take() == nullptr);
  std::array<Return, 3> items{Return{7}, Return{8}, Return{9}};
  for (int times = 0; times < 2; ++times) {
    for (Return& item : items) {
      box.put(item);
    }
    Return* at = box.take();
    for (Return& item : items) {
      REQUIRE(at == &item);
      at = at->next;
    }
    CHECK(at == nullptr);
    CHECK(box.take() == nullptr);
  }
}

TEST_CASE("many threads put, one takes, and each thread's come in its order") {
  const penstock::tests::Watchdog watchdog{"a box of many threads"};
  constexpr std::size_t threads = 3;
  constexpr std::size_t each = 3000;
  Returns<> box;
  std::vector<std::vector<Return>> items(threads, std::vector<Return>(each));
  std::vector<std::thread> putting;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    putting.emplace_back([&, thread] {
      for (std::size_t i = 0; i < each; ++i) {
        items[thread][i].ticket = thread * each + i; // plain: the box orders it
        box.put(items[thread][i]);
      }
    });
  }
  std::array<std::size_t, threads> got{};
  bool in_order = true;
  for (std::size_t left = threads * each; left != 0;) {
    const std::uint32_t seen = box.count();
    const Return* at = box.take();
    if (at == nullptr) {
      box.wait(seen, 1s);
    }
    for (; at != nullptr; at = at->next, --left) {
      in_order = in_order && at->ticket % each == got.at(at->ticket / each)++;
    }
  }
  CHECK(in_order);
  for (std::thread& thread : putting) {
    thread.join();
  }
}

TEST_CASE("who waits for a box wakes when something comes, and else when its time is over") {
  const penstock::tests::Watchdog watchdog{"a wait for a box"};
  Returns<> box;
  box.wait(box.count(), 1ms);
  CHECK(box.take() == nullptr);
  Return item{5};
  std::thread late{[&] {
    std::this_thread::sleep_for(2ms);
    box.put(item);
  }};
  Return* got = nullptr;
  while (got == nullptr) {
    const std::uint32_t seen = box.count();
    got = box.take();
    if (got == nullptr) {
      box.wait(seen, 1h);
    }
  }
  CHECK(got->ticket == 5);
  late.join();
}
