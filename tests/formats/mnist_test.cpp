// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/format_files.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/mnist.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ps = penstock;
using namespace ps::tests;
using namespace std::string_literals;

namespace {

template <class T> void check_type(int code) {
  CAPTURE(code);
  const TempDir dir;
  const auto values = some_values<T>(11);
  const auto path = dir.write("a", idx_file(code, {11}, all_bytes_of(values, true)));
  CHECK(opened_and_read(ps::mnist<T>(path)) == all_bytes_of(values));
  CHECK(opened_and_read(ps::mnist<std::byte>(path)) == all_bytes_of(values));
}

struct Digit
    : ps::Columns<ps::Field<"pixels", std::uint8_t, 4, 2>, ps::Field<"label", std::uint8_t>> {};

} // namespace

TEST_CASE("values of every type come in this machine's order") {
  check_type<std::uint8_t>(0x08);
  check_type<std::int8_t>(0x09);
  check_type<std::int16_t>(0x0B);
  check_type<std::int32_t>(0x0C);
  check_type<float>(0x0D);
  check_type<double>(0x0E);
}

TEST_CASE("images and labels are columns") {
  const TempDir dir;
  const auto pixels = some_values<std::uint8_t>(24);
  const auto x = dir.write("x", idx_file(8, {3, 4, 2}, all_bytes_of(pixels)));
  const auto y = dir.write("y", idx_file(8, {3}, "\1\2\3"));
  auto source = ps::mnist<Digit>(x, y);
  source.open();
  REQUIRE(source.size() == 3);
  std::vector<std::uint8_t> got(16);
  std::vector<std::uint8_t> labels(2);
  ps::Batch<Digit, ps::Pageable>::View view;
  view.parts[0] = got.data();
  view.parts[1] = labels.data();
  view.size = 2;
  view.index = 1;
  CHECK(source.read(ps::Batch<Digit, ps::Pageable>{view}) == 2);
  CHECK(got == std::vector<std::uint8_t>(pixels.begin() + 8, pixels.end()));
  CHECK(labels == std::vector<std::uint8_t>{2, 3});
  const auto two = dir.write("z", idx_file(8, {2}, "\1\2"));
  CHECK(has(refused(ps::mnist<Digit>(x, two), two), "2 records"));
  CHECK(has(refused(ps::mnist<Digit>(y, y), y), "those wanted have (4, 2)"));
  CHECK(has(refused(ps::mnist<std::uint8_t>(x), x), "records have shape (4, 2)"));
}

TEST_CASE("a file that is none is refused at its byte") {
  const TempDir dir;
  const auto says = [&](const std::string& file, const std::string& words) {
    const auto path = dir.write("a", file);
    CHECK(has(refused(ps::mnist<std::byte>(path), path), words));
  };
  says("", "was cut");
  says("\0\0\x08"s, "was cut");
  says("\0\0\x08\x01\0\0"s, "was cut");
  says("\0\0\x08\xff"s, "255 dimensions");
  says("\0\0\x08\x40"s, "goes on to byte 8");
  says("\0\0\x08\0x"s, "no dimensions");
  says("\0\0\x0A\x01"s, "has 10 for the type");
  says("\0\1\x08\x01\0\0\0\0"s, "two zero bytes");
  says("\x1f\x8b\x08\0"s, "gunzip");
  says(idx_file(8, {2, 2}, "abc"), "was cut");
  says(idx_file(8, {2, 2}, "abcde"), "1 bytes behind the end");
  says(idx_file(8, {0xFFFF'FFFF, 0xFFFF'FFFF}, ""), "goes on to byte 18446744065119617037");
  says(idx_file(14, {0xFFFF'FFFF, 0xFFFF'FFFF, 0xFFFF'FFFF}, ""), "64 bits");
  says(idx_file(14, {0x8000'0000, 0x10000, 0x10000}, ""), "64 bits");
  says(idx_file(8, {3, 0}, ""), "0 bytes");
  const auto bytes = dir.write("b", idx_file(8, {3}, "abc"));
  CHECK(has(refused(ps::mnist<std::int8_t>(bytes), bytes), "array of uint8"));
  const auto none = dir.write("n", idx_file(8, {0, 3}, ""));
  auto source = ps::mnist<std::byte>(none);
  source.open();
  CHECK(source.size() == 0);
  CHECK(source.record_bytes() == 3);
}
