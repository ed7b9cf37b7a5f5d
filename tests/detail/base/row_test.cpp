// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What the library's inside has in place of std::vector and std::unique_ptr: nothing is lost, and
// nothing is left behind, whatever throws.

#include "support/catch.hpp"

#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/row.hpp>

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
using penstock::detail::Row;

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

TEST_CASE("a row has its values in order, however often it grows", "[row]") {
  Row<std::string> row;
  CHECK(row.empty());
  for (int i = 0; i < 100; ++i) {
    row.push_back("number " + std::to_string(i));
  }
  REQUIRE(row.size() == 100);
  CHECK(row.front() == "number 0");
  CHECK(row[57] == "number 57");
  CHECK(row.back() == "number 99");
  std::size_t seen = 0;
  for (const std::string& text : std::as_const(row)) {
    CHECK(text == "number " + std::to_string(seen++));
  }
  CHECK(seen == 100);
  row.push_back(row.front());
  CHECK(row.back() == "number 0");
}

TEST_CASE("what has room reserved stays where it is", "[row]") {
  Row<int> row;
  row.reserve(3);
  row.push_back(1);
  const int* const at = row.data();
  row.push_back(2);
  row.push_back(3);
  row.reserve(2);
  CHECK(row.data() == at);
}

TEST_CASE("values that do not move can be made in place, and aligned as they want", "[row]") {
  struct alignas(256) Line {
    std::atomic<int> count{7};
  };
  Row<Line> lines(3);
  REQUIRE(lines.size() == 3);
  CHECK(lines[2].count == 7);
  CHECK(reinterpret_cast<std::uintptr_t>(lines.data()) % 256 == 0);
}

TEST_CASE("the first values leave, and the others move up", "[row]") {
  {
    Row<Counting> row;
    for (int i = 0; i < 5; ++i) {
      row.push_back(Counting{i});
    }
    CHECK(Counting::alive == 5);
    row.pop_front(0);
    row.pop_front(2);
    CHECK(Counting::alive == 3);
    CHECK(row.front().number == 2);
    row.pop_back();
    CHECK(row.back().number == 3);
    Row<Counting> other = std::move(row);
    CHECK(row.empty());
    CHECK(other.size() == 2);
    row = std::move(other);
    CHECK(row[1].number == 3);
    row.clear();
    CHECK(Counting::alive == 0);
    row.push_back(Counting{9});
  }
  CHECK(Counting::alive == 0);
}

TEST_CASE("a row that cannot be made leaves nothing behind", "[row]") {
  Counting::left = 3;
  CHECK_THROWS_AS(Row<Counting>(5), std::runtime_error);
  Counting::left = -1;
  CHECK(Counting::alive == 0);
  CHECK_THROWS_AS(Row<std::uint64_t>(std::numeric_limits<std::size_t>::max() / 4), std::bad_alloc);
  const Row<std::string> texts{Row<std::string>(2)};
  const Row<std::string> copied{texts};
  CHECK(copied.size() == 2);
}

TEST_CASE("what is owned goes once", "[row]") {
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

TEST_CASE("what is owned survives a move to itself, and a row a removal of none", "[row]") {
  Owned<Counting> one{new Counting{1}};
  Owned<Counting>& same = one;
  one = std::move(same);
  REQUIRE(one);
  CHECK(one->number == 1);
  Row<Owned<Counting>> row;
  row.push_back(std::move(one));
  row.push_back(Owned<Counting>{new Counting{2}});
  row.pop_front(0);
  REQUIRE(row.size() == 2);
  REQUIRE(row[0]);
  CHECK(row[0]->number == 1);
  row.pop_front(1);
  CHECK(row[0]->number == 2);
}

TEST_CASE("a row that is copied over another may throw, and then changes nothing", "[row]") {
  static_assert(!std::is_nothrow_copy_assignable_v<Row<int>>);
  static_assert(std::is_nothrow_move_assignable_v<Row<int>>);
  Counting::left = -1;
  Row<Counting> from(3);
  Row<Counting> to(1);
  Counting::left = 2;
  CHECK_THROWS_AS(to = from, std::runtime_error);
  Counting::left = -1;
  CHECK(to.size() == 1);
  to = from;
  CHECK(to.size() == 3);
}
