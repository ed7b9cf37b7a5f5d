// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Texts of pieces, and the errors that say them.

#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/detail/base/text.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace ps = penstock;
using ps::detail::joined;
using ps::tests::caught;

TEST_CASE("pieces of any kind make one text", "[text]") {
  const std::string name = "Reader";
  const std::string_view part = std::string_view{"depth and more"}.substr(0, 5);
  CHECK(joined({"penstock: ", name, ": ", part, " is ", 1U, "."}) ==
        "penstock: Reader: depth is 1.");
  CHECK(joined({}).empty());
  CHECK(joined({"", std::string_view{}, std::string{}, "."}) == ".");
}

TEST_CASE("numbers are written as std::to_string does", "[text]") {
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{9}, std::uint64_t{10}, std::uint64_t{1234567890123},
        std::numeric_limits<std::uint64_t>::max()}) {
    CHECK(joined({number}) == std::to_string(number));
  }
  CHECK(joined({std::size_t{42}, " ", 43U, " ", 44ULL}) == "42 43 44");
}

TEST_CASE("an error says all its pieces", "[text]") {
  const auto option = caught<ps::OptionError>(
      [] { ps::detail::throw_error<ps::OptionError>({"penstock: ", 3U, "."}); });
  CHECK(std::string_view{option.what()} == "penstock: 3.");
  const auto source = caught<ps::SourceError>(
      [] { ps::detail::throw_source_error({"penstock: ", "no"}, "a file", 7, 8); });
  CHECK(std::string_view{source.what()} == "penstock: no");
  CHECK(source.file() == "a file");
  CHECK(source.offset() == 7);
  CHECK(source.record() == 8U);
}

TEST_CASE("an error about a file is one line, whatever the file's name is", "[text]") {
  const std::string path = "\x1b[2Ja\nb\x7f\t\xc3\xa9\xff";
  const auto error = caught<ps::SourceError>(
      [&] { ps::detail::throw_source_error({"penstock: ", path, " is no"}, path, 0); });
  CHECK(std::string_view{error.what()} == "penstock: ?[2Ja?b??\xc3\xa9\xff is no");
  CHECK(error.file() == path);
}
