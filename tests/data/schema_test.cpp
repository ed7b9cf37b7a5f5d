// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/data/batch.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::has;

namespace {

struct Point {
  float x, y;
};
struct Sample
    : ps::Columns<ps::Field<"image", std::uint8_t, 3, 4, 5>, ps::Field<"label", std::int32_t>,
                  ps::Field<"tokens", std::uint16_t, ps::dynamic, 2, ps::dynamic>,
                  ps::Field<"text", ps::Ragged<char>>, ps::Field<"at", Point, 2>> {};
struct Long : ps::Columns<ps::Field<"abcdefghijklmnopqrstuvwxyz012345", std::uint8_t>,
                          ps::Field<"abcdefghijklmnopqrstuvwxyz012346", std::uint16_t>,
                          ps::Field<"abcdefghijklmnopqrstuvwxyz01234", std::uint32_t>,
                          ps::Field<"", std::uint64_t>> {};

using Writes = ps::Batch<Sample, ps::Pageable>;
using Reads = ps::Batch<const Sample, ps::Pageable>;
template <class S> using Traits = ps::detail::schema_traits<S>;
template <ps::Name Text> using Spelled = typename ps::detail::spelled<Text>::type;

// Three records, and memory for them.
struct Memory {
  static constexpr std::size_t records = 3, first = 7, outer = 2, values = 10;
  std::array<std::uint8_t, records * 60> image{};
  std::array<std::int32_t, records> label{};
  std::array<std::uint16_t, records * outer * 2 * first> tokens{};
  std::array<std::int64_t, records + 1> offsets{0, -1, -1, -1};
  std::array<char, values> text{};
  std::array<Point, records * 2> at{};

  Writes batch() {
    return Writes{Writes::View{
        {image.data(), label.data(), tokens.data(), offsets.data(), text.data(), at.data()},
        {first, outer, values},
        records,
        1000,
        100,
        4}};
  }
};

// As in a user's template, where `batch.template get` would be needed.
template <class B> std::int32_t label_of(const B& batch, std::size_t i) {
  return ps::get<"label">(batch)[i];
}
template <class B> std::int32_t label_by_member(const B& batch, std::size_t i) {
  return batch.template get<"label">()[i];
}

static_assert(std::is_trivially_copyable_v<Writes> && std::is_trivially_copyable_v<Reads>);
static_assert(std::is_trivially_copyable_v<ps::Column<std::uint8_t, 3, 4, 5>> &&
              std::is_trivially_copyable_v<ps::Column<std::uint16_t, ps::dynamic>> &&
              std::is_trivially_copyable_v<ps::Column<ps::Ragged<char>>>);
static_assert(std::is_convertible_v<Writes, Reads> && !std::is_convertible_v<Reads, Writes>);

template <class B, ps::Name Text> using Got = decltype(ps::get<Text>(std::declval<B>()));
static_assert(std::is_same_v<decltype(std::declval<Got<Reads, "image">>()[0]),
                             const std::uint8_t (&)[3][4][5]>);
static_assert(
    std::is_same_v<decltype(std::declval<Got<Writes, "image">>()[0]), std::uint8_t (&)[3][4][5]>);
static_assert(
    std::is_same_v<decltype(std::declval<Got<Reads, "label">>()[0]), const std::int32_t&>);
static_assert(std::is_same_v<decltype(std::declval<Got<Writes, "label">>()[0]), std::int32_t&>);
static_assert(std::is_same_v<decltype(std::declval<Got<Reads, "at">>()[0]), const Point (&)[2]>);
static_assert(std::is_same_v<Got<Reads, "tokens">,
                             ps::Column<const std::uint16_t, ps::dynamic, 2, ps::dynamic>>);
static_assert(std::is_same_v<decltype(std::declval<Got<Reads, "tokens">>()[0]),
                             ps::Column<const std::uint16_t>>);
static_assert(std::is_same_v<Got<Reads, "text">, ps::Column<ps::Ragged<const char>>>);
static_assert(std::is_same_v<decltype(std::declval<Got<Writes, "text">>()[0]), ps::Column<char>>);
static_assert(
    std::is_same_v<decltype(std::declval<Got<Reads, "text">>().offsets()), const std::int64_t*>);
template <class C>
concept Puts = requires(const C& column) { column.put(0, 0); };
static_assert(Puts<Got<Writes, "text">> && !Puts<Got<Reads, "text">>);

} // namespace

TEST_CASE("a name is spelled out, up to 32 characters") {
  CHECK(std::string_view{Spelled<"image">::text} == "image");
  CHECK(std::string_view{Spelled<"abcdefghijklmnopqrstuvwxyz012345">::text} ==
        "abcdefghijklmnopqrstuvwxyz012345");
  CHECK(std::string_view{Spelled<"">::text}.empty());
  CHECK(std::string_view{Spelled<"gr\303\266\303\237e">::text} == "gr\303\266\303\237e");
  CHECK(std::is_same_v<Spelled<"a">, ps::Chars<'a'>>);
  CHECK_FALSE(std::is_same_v<Spelled<"ab">, Spelled<"ba">>);
}

TEST_CASE("columns are found by name, whatever part of another's it is") {
  using All = ps::detail::columns_traits<typename ps::detail::columns_of<Long>::type>;
  CHECK(All::find<Spelled<"abcdefghijklmnopqrstuvwxyz012345">>() == 0);
  CHECK(All::find<Spelled<"abcdefghijklmnopqrstuvwxyz012346">>() == 1);
  CHECK(All::find<Spelled<"abcdefghijklmnopqrstuvwxyz01234">>() == 2);
  CHECK(All::find<Spelled<"">>() == 3);
  CHECK(All::find<Spelled<"a">>() == All::count);
}

TEST_CASE("a schema knows its arrays and the numbers that run time adds") {
  using All = ps::detail::columns_traits<typename ps::detail::columns_of<Sample>::type>;
  CHECK(All::count == 5);
  CHECK(Traits<Sample>::named);
  CHECK(Traits<Sample>::ragged);
  CHECK(Traits<Sample>::parts == 6);
  CHECK(Traits<Sample>::sizes == 3);
  CHECK(All::parts_before(3) == 3);
  CHECK(All::parts_before(4) == 5);
  CHECK(All::sizes_before(2) == 0);
  CHECK(All::sizes_before(3) == 2);
  CHECK(All::sizes_before(4) == 3);
  CHECK(Traits<Long>::parts == 4);
  CHECK(Traits<Long>::sizes == 0);
  CHECK_FALSE(Traits<Long>::ragged);
  CHECK_FALSE(Traits<Point>::named);
  CHECK(Traits<Point>::parts == 1);
  CHECK(ps::detail::HasColumns<Sample>);
  CHECK_FALSE(ps::detail::HasColumns<Point>);
  CHECK_FALSE(ps::detail::HasColumns<int>);
}

TEST_CASE("a column of static extents is an array of arrays") {
  Memory memory;
  for (std::size_t i = 0; i < memory.image.size(); ++i) {
    memory.image[i] = static_cast<std::uint8_t>(i);
  }
  const Writes batch = memory.batch();
  const auto image = ps::get<"image">(batch);
  CHECK(image.size() == 3);
  CHECK(image.elements() == 60);
  CHECK(image.data() == memory.image.data());
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t y = 0; y < 4; ++y) {
        for (std::size_t x = 0; x < 5; ++x) {
          REQUIRE(image[r][c][y][x] == r * 60 + c * 20 + y * 5 + x);
        }
      }
    }
  }
  image[2][2][3][4] = 255;
  CHECK(memory.image.back() == 255);
  ps::get<"at">(batch)[1][1].y = 3.5F;
  CHECK(memory.at[3].y == 3.5F);
}

TEST_CASE("a column of dynamic extents gives flat rows and its extents") {
  Memory memory;
  for (std::size_t i = 0; i < memory.tokens.size(); ++i) {
    memory.tokens[i] = static_cast<std::uint16_t>(i);
  }
  const auto tokens = ps::get<"tokens">(memory.batch());
  CHECK(tokens.size() == 3);
  CHECK(tokens.extent(0) == 7);
  CHECK(tokens.extent(1) == 2);
  CHECK(tokens.extent(2) == 2);
  CHECK(tokens.elements() == 28);
  CHECK(tokens[2].size() == 28);
  CHECK(tokens[2].data() == memory.tokens.data() + 56);
  tokens[1][27] = 9999;
  CHECK(memory.tokens[55] == 9999);
  CHECK(tokens[0][27] == 27);
}

TEST_CASE("a batch passes its numbers on, and a const one reads the same memory") {
  Memory memory;
  const Writes batch = memory.batch();
  ps::get<"label">(batch)[1] = -7;
  const Reads reads = batch;
  CHECK(reads.size() == 3);
  CHECK(reads.index() == 1000);
  CHECK(reads.source_index() == 100);
  CHECK(reads.alignment() == 4);
  CHECK(label_of(batch, 1) == -7);
  CHECK(label_of(reads, 1) == -7);
  CHECK(label_by_member(reads, 1) == -7);
  CHECK(ps::get<"tokens">(reads).extent(0) == 7);
  CHECK(ps::get<"tokens">(reads).data() == memory.tokens.data());
  CHECK(ps::get<"text">(reads).capacity() == 10);
  CHECK(ps::get<"text">(reads).values() == memory.text.data());
  CHECK(ps::get<"text">(reads).offsets() == memory.offsets.data());
}

TEST_CASE("names that differ in the last of 32 characters are two columns") {
  std::uint8_t a[2]{1, 2};
  std::uint16_t b[2]{3, 4};
  std::uint32_t c[2]{5, 6};
  std::uint64_t d[2]{7, 8};
  using B = ps::Batch<const Long, ps::Pinned>;
  const B batch{B::View{{a, b, c, d}, {}, 2, 0, 0, 1}};
  CHECK(ps::get<"abcdefghijklmnopqrstuvwxyz012345">(batch)[1] == 2);
  CHECK(ps::get<"abcdefghijklmnopqrstuvwxyz012346">(batch)[1] == 4);
  CHECK(ps::get<"abcdefghijklmnopqrstuvwxyz01234">(batch)[1] == 6);
  CHECK(ps::get<"">(batch)[1] == 8);
}

TEST_CASE("records of a Ragged column lie back to back as they are put") {
  Memory memory;
  const auto text = ps::get<"text">(memory.batch());
  const std::string words[]{"pen", "", "stock"};
  for (std::size_t i = 0; i < 3; ++i) {
    words[i].copy(text.put(i, words[i].size()), words[i].size());
  }
  CHECK(std::string(text.values(), 8) == "penstock");
  CHECK(memory.offsets == std::array<std::int64_t, 4>{0, 3, 3, 8});
  const auto read = ps::get<"text">(Reads{memory.batch()});
  CHECK(read.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(std::string(read[i].data(), read[i].size()) == words[i]);
  }
}

TEST_CASE("a Ragged record is put in turn, or the error names it") {
  Memory memory;
  const auto text = ps::get<"text">(memory.batch());
  CHECK(has(caught<ps::Error>([&] { text.put(1, 1); }), "record 101 was put out of turn"));
  text.put(0, 2);
  CHECK(has(caught<ps::Error>([&] { text.put(2, 1); }), "record 102 was put out of turn"));
  text.put(1, 2);
  text.put(2, 2);
  CHECK(has(caught<ps::Error>([&] { text.put(3, 0); }), "record 103 was put out of turn"));
  CHECK(memory.offsets == std::array<std::int64_t, 4>{0, 2, 4, 6});
}

TEST_CASE("Ragged values may fill their room, and one more names the record") {
  Memory memory;
  const auto text = ps::get<"text">(memory.batch());
  CHECK(text.put(0, 0) == memory.text.data());
  CHECK(text.put(1, 10) == memory.text.data());
  CHECK(text.put(2, 0) == memory.text.data() + 10);
  text.put(0, 4);
  const auto too_many = caught<ps::Error>([&] { text.put(1, 7); });
  CHECK(has(too_many, "record 101 has 7 values"));
  CHECK(has(too_many, "of the 10"));
  CHECK(has(too_many, "6 are left"));
  CHECK(has(too_many, "value_bytes"));
  CHECK(has(caught<ps::Error>([&] { text.put(1, std::numeric_limits<std::size_t>::max()); }),
            "record 101 has"));
  CHECK(text.put(1, 6) == memory.text.data() + 4);
}
