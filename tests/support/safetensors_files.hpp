// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::tests::safetensors {

inline std::string length_of(std::uint64_t bytes) {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    text += static_cast<char>(bytes >> (8 * i));
  }
  return text;
}
// A file with this header, and `data` bytes 0, 1, 2, … behind it.
inline std::string file_of(const std::string& header, std::size_t data = 0) {
  std::string text = length_of(header.size()) + header;
  for (std::size_t i = 0; i < data; ++i) {
    text += static_cast<char>(i);
  }
  return text;
}
inline std::string entry(const std::string& name, const std::string& type, const std::string& shape,
                         std::uint64_t begin, std::uint64_t end, const std::string& more = "") {
  return '"' + name + R"(":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":[)" +
         std::to_string(begin) + ',' + std::to_string(end) + ']' + more + '}';
}

/// A file that is no safetensors file: what the error says, and of which byte.
struct WrongFile {
  std::string file;
  std::string found;
  std::uint64_t offset;
};

inline std::vector<WrongFile> wrong_safetensors() {
  const std::string one = entry("a", "U8", "[2]", 0, 2);
  const auto braces = [](const std::string& text) { return '{' + text + '}'; };
  const std::string deep(100'000, '[');
  return {
      // The header's length.
      {"", "has 0 bytes", 0},
      {"1234567", "has 7 bytes", 0},
      {length_of(0), "header has 0 bytes", 0},
      {length_of(std::uint64_t{1} << 63) + "{}", "header has 9223372036854775808 bytes", 0},
      {length_of(~std::uint64_t{0}) + "{}", "header has 18446744073709551615 bytes", 0},
      {length_of(100'000'001) + "{}", "header has 100000001 bytes", 0},
      {length_of(3) + "{}", "has only 2 behind", 0},
      // What is no JSON object with blanks around it.
      {file_of("x"), "'x' where '{' should be", 8},
      {file_of("\f{}"), "byte 12 where '{' should be", 8},
      {file_of("\xef\xbb\xbf{}"), "byte 239 where '{' should be", 8},
      {file_of("\xff\xfe"), "byte 255 where '{' should be", 8},
      {file_of("{"), "its end where '\"'", 9},
      {file_of("[]"), "'[' where '{'", 8},
      {file_of("{}{}"), "something other than blanks", 10},
      {file_of("{} x"), "something other than blanks", 11},
      {file_of("{}\f"), "something other than blanks", 10},
      {file_of(std::string("{}\0", 3)), "something other than blanks", 10},
      {file_of(braces(one + ',' + '}'), 2), "'}' where '\"'", 9 + one.size() + 1},
      {file_of('{' + one, 2), "its end where '}'", 9 + one.size()},
      {file_of("{\"a"), "its end where the string's end", 11},
      {file_of("{\"\\"), "its end where the string's end", 11},
      {file_of("{a:1}"), "'a' where '\"'", 9},
      {file_of("{\"a\":1}"), "'1' where '{'", 13},
      {file_of("{\"a\":" + deep), "'[' where '{'", 13},
      {file_of(R"({"a":{"x":{"x":{}}}})"), "without a dtype, a shape or", 9},
      {file_of("{\"a\":{\"x\":" + deep), "values that nest more than 125 deep", 18 + 125},
      {file_of(deep), "'[' where '{'", 8},
      // Members.
      {file_of(R"({"a":{"dtype":"U8","dtype":"U8"}})"), "\"dtype\" twice in the tensor", 27},
      {file_of(R"({"a":{"shape":[0],"shape":[0]}})"), "\"shape\" twice in the tensor", 26},
      {file_of(R"({"a":{"data_offsets":[0,0],"data_offsets":[0,0]}})"), "\"data_offsets\" twice",
       35},
      {file_of(R"({"a":{"dtype":"U8","shape":[0]}})"), "without a dtype, a shape or", 9},
      {file_of(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})"), "without a dtype", 9},
      {file_of(R"({"a":{"shape":[0],"data_offsets":[0,0]}})"), "without a dtype", 9},
      {file_of(R"({"a":{}})"), "without a dtype", 9},
      {file_of(braces(entry("a", "C128", "[0]", 0, 0))),
       "unknown dtype \"C128\" for the tensor \"a\"", 14},
      {file_of(braces(entry("a", "u8", "[0]", 0, 0))), "the unknown dtype \"u8\"", 14},
      {file_of(braces(entry("a", "", "[0]", 0, 0))), "the unknown dtype \"\"", 14},
      {file_of(R"({"a":{"dtype":8}})"), "'8' where '\"'", 22},
      // Numbers.
      {file_of(braces(entry("a", "U8", "[-1]", 0, 0))), "'-' where a whole number", 36},
      {file_of(braces(entry("a", "U8", "[1.0]", 0, 1)), 1), "not written as a plain whole", 36},
      {file_of(braces(entry("a", "U8", "[1e0]", 0, 1)), 1), "not written as a plain whole", 36},
      {file_of(braces(entry("a", "U8", "[01]", 0, 1)), 1), "not written as a plain whole", 36},
      {file_of(braces(entry("a", "U8", "[18446744073709551616]", 0, 0))), "more than 64 bits", 36},
      {file_of(braces(entry("a", "U8", "[null]", 0, 0))), "'n' where a whole number", 36},
      {file_of(braces(entry("a", "U8", "[[1]]", 0, 1)), 1), "'[' where a whole number", 36},
      {file_of(braces(entry("a", "U8", "[0,]", 0, 0))), "']' where a whole number", 38},
      {file_of(braces(entry("a", "U8", "[0 0]", 0, 0))), "'0' where ']'", 38},
      {file_of(braces(entry("a", "U8", "0", 0, 0))), "'0' where '['", 35},
      {file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})"), "not two numbers", 9},
      {file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})"), "more than 2 num", 9},
      {file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[]}})"), "not two numbers", 9},
      // Shapes and places.
      {file_of(braces(entry("a", "F32", "[4294967296,4294967296,4]", 0, 0))), "more elements", 9},
      {file_of(braces(entry("a", "U8", "[9223372036854775808,2]", 0, 0))), "more elements", 9},
      {file_of(braces(entry("a", "U8", "[9223372036854775808,2,0]", 0, 0))), "more elements", 9},
      {file_of(braces(entry("a", "F64", "[2305843009213693952]", 0, 0))), "more elements", 9},
      {file_of(braces(entry("a", "F4", "[3]", 0, 2)), 2), "whose last byte is not full", 9},
      {file_of(braces(entry("a", "F6_E2M3", "[2]", 0, 2)), 2), "whose last byte is not full", 9},
      {file_of(braces(entry("a", "F32", "[2]", 0, 2)), 2),
       "make 8 bytes and whose data_offsets make 2", 9},
      {file_of(braces(entry("a", "U8", "[2]", 2, 0)), 2), "end before they begin", 9},
      {file_of(braces(one), 1), "end behind the end of the file", 9},
      {file_of(braces(entry("a", "U8", "[2]", 18446744073709551614U, ~std::uint64_t{0}))),
       "end behind the", 9},
      // How tensors lie.
      {file_of(braces(one), 3), "at byte 63 ends the last tensor, and the file ends at byte 64",
       63},
      {file_of("{}", 1), "at byte 10 ends the last tensor, and the file ends at byte 11", 10},
      {file_of(braces(entry("a", "U8", "[2]", 1, 3)), 3), "\"a\", which begins at byte 62", 61},
      {file_of(braces(one + ',' + entry("b", "U8", "[2]", 1, 3)), 3), "\"b\", which begins at byte",
       115},
      {file_of(braces(one + ',' + entry("b", "U8", "[2]", 0, 2)), 2), "\"b\", which begins at byte",
       115},
      {file_of(braces(one + ',' + entry("b", "U8", "[2]", 3, 5)), 5), "\"b\", which begins at byte",
       115},
      {file_of(braces(one + ',' + entry("a", "U8", "[2]", 2, 4)), 4), "the tensor \"a\" twice", 8},
      {file_of(braces(one + ',' + R"("\u0061":)" + one.substr(4)), 2), "the tensor \"a\" twice", 8},
      // Metadata.
      {file_of(R"({"__metadata__":{"a":1}})"), "'1' where '\"'", 29},
      {file_of(R"({"__metadata__":nul})"), "'n' where '{'", 24},
      {file_of(R"({"__metadata__":null,"__metadata__":null})"), "a second __metadata__", 29},
      {file_of(R"({"__metadata__":{"a":"b","a":"b"}})"), "\"a\" twice in __metadata__", 33},
      {file_of(R"({"__metadata__":{},"__metadata__":{}})"), "a second __metadata__", 27},
      {file_of(R"({"__metadata__":{"a":{"b":"c"}}})"), "'{' where '\"'", 29},
  };
}

} // namespace penstock::tests::safetensors
