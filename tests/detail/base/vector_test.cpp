// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What the library's inside has in place of std::vector and std::unique_ptr: nothing is lost, and
// nothing is left behind, whatever throws.

#include "support/catch.hpp"

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

using penstock::detail::Owned;
using penstock::detail::Vector;

// Counts those that live, and may refuse to be made.
struct Counting {
  Counting() {
    if (left-- == 0) {
      throw std::runtime_error{"enough"};
    }
    ++alive;
  }
  explicit Counting(int n) : number{n} { ++alive; }
  Counting(const Counting& other) : Counting{} { number = other.number; }
  Counting(Counting&& other) noexcept : number{std::exchange(other.number, -1)} { ++alive; }
  Counting& operator=(Counting&& other) noexcept {
    number = std::exchange(other.number, -1);
    return *this;
  }
  ~Counting() { --alive; }

  int number{};
  static inline int alive = 0;
  static inline int left = -1;
};

} // namespace

TEST_CASE("a vector has its values in order, however often it grows", "[vector]") {
  Vector<std::string> vector;
  CHECK(vector.empty());
  for (int i = 0; i < 100; ++i) {
    vector.push_back("number " + std::to_string(i));
  }
  REQUIRE(vector.size() == 100);
  CHECK(vector.front() == "number 0");
  CHECK(vector[57] == "number 57");
  CHECK(vector.back() == "number 99");
  std::size_t seen = 0;
  for (const std::string& text : std::as_const(vector)) {
    CHECK(text == "number " + std::to_string(seen++));
  }
  CHECK(seen == 100);
  vector.push_back(vector.front());
  CHECK(vector.back() == "number 0");
}

TEST_CASE("what has room reserved stays where it is", "[vector]") {
  Vector<int> vector;
  vector.reserve(3);
  vector.push_back(1);
  const int* const at = vector.data();
  vector.push_back(2);
  vector.push_back(3);
  vector.reserve(2);
  CHECK(vector.data() == at);
}

TEST_CASE("values that do not move can be made in place, and aligned as they want", "[vector]") {
  struct alignas(256) Line {
    std::atomic<int> count{7};
  };
  Vector<Line> lines(3);
  REQUIRE(lines.size() == 3);
  CHECK(lines[2].count == 7);
  CHECK(reinterpret_cast<std::uintptr_t>(lines.data()) % 256 == 0);
}

TEST_CASE("the first values leave, and the others move up", "[vector]") {
  {
    Vector<Counting> vector;
    for (int i = 0; i < 5; ++i) {
      vector.push_back(Counting{i});
    }
    CHECK(Counting::alive == 5);
    vector.pop_front(0);
    vector.pop_front(2);
    CHECK(Counting::alive == 3);
    CHECK(vector.front().number == 2);
    vector.pop_back();
    CHECK(vector.back().number == 3);
    Vector<Counting> other = std::move(vector);
    CHECK(vector.empty());
    CHECK(other.size() == 2);
    vector = std::move(other);
    CHECK(vector[1].number == 3);
    vector.clear();
    CHECK(Counting::alive == 0);
    vector.push_back(Counting{9});
  }
  CHECK(Counting::alive == 0);
}

TEST_CASE("a vector that cannot be made leaves nothing behind", "[vector]") {
  Counting::left = 3;
  CHECK_THROWS_AS(Vector<Counting>(5), std::runtime_error);
  Counting::left = -1;
  CHECK(Counting::alive == 0);
  CHECK_THROWS_AS(Vector<std::uint64_t>(std::numeric_limits<std::size_t>::max() / 4),
                  std::bad_alloc);
  const Vector<std::string> texts{Vector<std::string>(2)};
  const Vector<std::string> copied{texts};
  CHECK(copied.size() == 2);
}

TEST_CASE("what is owned goes once", "[vector]") {
  {
    Owned<Counting> none;
    CHECK(!none);
    Owned<Counting> one{new Counting{1}};
    Owned<Counting> other{new Counting{2}};
    one = std::move(other);
    CHECK(one->number == 2);
    CHECK(Counting::alive == 1);
    Owned<Counting> moved{std::move(one)};
    CHECK((*moved).number == 2);
    const Owned<Counting> back{moved.release()};
    CHECK(moved.get() == nullptr);
    CHECK(Counting::alive == 1);
  }
  CHECK(Counting::alive == 0);
}

TEST_CASE("what is owned survives a move to itself, and a vector a removal of none", "[vector]") {
  Owned<Counting> one{new Counting{1}};
  Owned<Counting>& same = one;
  one = std::move(same);
  REQUIRE(one);
  CHECK(one->number == 1);
  Vector<Owned<Counting>> vector;
  vector.push_back(std::move(one));
  vector.push_back(Owned<Counting>{new Counting{2}});
  vector.pop_front(0);
  REQUIRE(vector.size() == 2);
  REQUIRE(vector[0]);
  CHECK(vector[0]->number == 1);
  vector.pop_front(1);
  CHECK(vector[0]->number == 2);
}

TEST_CASE("a vector that is copied over another may throw, and then changes nothing", "[vector]") {
  static_assert(!std::is_nothrow_copy_assignable_v<Vector<int>>);
  static_assert(std::is_nothrow_move_assignable_v<Vector<int>>);
  Counting::left = -1;
  Vector<Counting> from(3);
  Vector<Counting> to(1);
  Counting::left = 2;
  CHECK_THROWS_AS(to = from, std::runtime_error);
  Counting::left = -1;
  CHECK(to.size() == 1);
  to = from;
  CHECK(to.size() == 3);
}
