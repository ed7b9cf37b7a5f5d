// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A shared value lives as long as its last owner, and is dropped once, whoever that is.

#include "support/catch.hpp"

#include <penstock/detail/base/owners.hpp>

#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using penstock::detail::new_shared;
using penstock::detail::Owned;
using penstock::detail::Shared;

int dropped = 0;

struct Base {
  int number;
};
struct Value : Base {
  explicit Value(int of) : Base{of} {}
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  ~Value() { ++dropped; }
};
void note(Value* value) noexcept {
  dropped += 10;
  delete value;
}

} // namespace

TEST_CASE("A shared value is dropped with its last owner") {
  dropped = 0;
  Shared<Value> none;
  CHECK_FALSE(none);
  CHECK(none.get() == nullptr);
  {
    Shared<Value> one = new_shared<Value>(7);
    CHECK(one);
    CHECK(one->number == 7);
    CHECK((*one).number == 7);
    Shared<Value> two = one;
    CHECK(two.get() == one.get());
    Shared<Value> three = std::move(one);
    CHECK_FALSE(one);
    three = nullptr;
    CHECK_FALSE(three);
    CHECK(dropped == 0);
    const Shared<Value>& itself = two;
    two = itself;
    CHECK(two->number == 7);
    none = std::move(two);
    CHECK(dropped == 0);
    none = new_shared<Value>(8);
    CHECK(dropped == 1);
  }
  CHECK(none->number == 8);
  none = {};
  CHECK(dropped == 2);
}

TEST_CASE("A shared value may be shared as its base, or to be read only") {
  dropped = 0;
  Shared<Base> base;
  {
    const Shared<Value> value = new_shared<Value>(3);
    base = value;
    CHECK(base.get() == value.get());
  }
  CHECK(dropped == 0);
  CHECK(base->number == 3);
  base = {};
  CHECK(dropped == 1); // by the destructor of what was made
  const Shared<const int> read_only = new_shared<const int>(5);
  CHECK(*read_only == 5);
  static_assert(!std::is_convertible_v<Shared<Base>, Shared<Value>>);
  static_assert(!std::is_convertible_v<Shared<const int>, Shared<int>>);
}

TEST_CASE("A value with a way of its own to be destroyed is destroyed by that") {
  dropped = 0;
  Owned<Value> owned{new Value{4}};
  {
    const Shared<Value> shared = penstock::detail::share(owned, note);
    CHECK_FALSE(owned);
    CHECK(shared->number == 4);
    CHECK(dropped == 0);
  }
  CHECK(dropped == 11);
}

TEST_CASE("Threads that copy and drop a shared value drop it once") {
  dropped = 0;
  Shared<Value> shared = new_shared<Value>(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([mine = shared] {
      for (int times = 0; times < 1000; ++times) {
        std::vector<Shared<Value>> some(8, mine);
        some.pop_back();
      }
    });
  }
  shared = {};
  for (std::thread& thread : threads) {
    thread.join();
  }
  threads.clear();
  CHECK(dropped == 1);
}
