// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <penstock/run/json.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

using penstock::Json;

TEST_CASE("values of JSON are written as they are") {
  CHECK(Json{nullptr}.text() == "null");
  CHECK(Json{true}.text() == "true");
  CHECK(Json{std::numeric_limits<std::uint64_t>::max()}.text() == "18446744073709551615");
  CHECK(Json{std::numeric_limits<std::int64_t>::min()}.text() == "-9223372036854775808");
  CHECK(Json{0.1}.text() == "0.1");
  CHECK(Json{1e300}.text() == "1e+300");
  CHECK(Json{std::nan("")}.text() == "null");
  CHECK(Json{-std::numeric_limits<double>::infinity()}.text() == "null");
  CHECK(Json::array({}).text() == "[]");
  CHECK(Json::object({}).text() == "{}");
  CHECK(Json::object({{"a", 5}, {"b\"", Json::array({"x", nullptr})}}).text() ==
        R"({"a": 5, "b\"": ["x", null]})");
}
TEST_CASE("JSON is printed as its text") {
  std::ostringstream os;
  os << Json::object({{"a", "b\n"}}) << '\n' << Json{nullptr};
  CHECK(os.str() == "{\"a\": \"b\\u000a\"}\nnull");
}
TEST_CASE("a string of JSON is UTF-8, whatever bytes it is made of") {
  CHECK(Json{"a/\\\"\n\x1f\x7f"}.text() == "\"a/\\\\\\\"\\u000a\\u001f\x7f\"");
  CHECK(Json{std::string_view{"\0", 1}}.text() == R"("\u0000")");
  CHECK(Json{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"}.text() ==
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
  // Cut, longer than it need be, half of a pair, and beyond the last character.
  for (const std::string bad : {"\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    std::string expected;
    for (std::size_t i = 0; i != bad.size(); ++i) {
      expected += "\\ufffd";
    }
    CHECK(Json{bad}.text() == '"' + expected + '"');
  }
}
