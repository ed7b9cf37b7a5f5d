// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a server says of a range is taken only if it is whole and makes sense.

#include "support/catch.hpp"

#include <penstock/io/detail/http_answer.hpp>

#include <cstdint>
#include <string>

namespace {

using penstock::detail::content_range_in;
using penstock::detail::ContentRange;
using penstock::detail::HttpAnswer;

TEST_CASE("a content range says which bytes of how many") {
  CHECK(content_range_in("bytes 5-9/100") == ContentRange{5, 10, 100});
  CHECK(content_range_in("bytes 0-0/1") == ContentRange{0, 1, 1});
  CHECK(content_range_in("bytes */0") == ContentRange{});
  CHECK(content_range_in("bytes 0-18446744073709551613/18446744073709551615") ==
        ContentRange{0, 18446744073709551614U, 18446744073709551615U});
  for (const char* wrong :
       {"", "bytes", "bytes ", "bytes 5-9/*", "bytes 5-9", "bytes 5-/9", "bytes -5/9", "5-9/100",
        "bytes 9-5/100", "bytes 5-9/9", "bytes 5-9/100 ", "bytes 5-9/1x", "items 5-9/100",
        "bytes 0-18446744073709551615/18446744073709551615",
        "bytes 0-99999999999999999999/99999999999999999999", "bytes +5-9/100"}) {
    INFO(wrong);
    CHECK_FALSE(content_range_in(wrong));
  }
}

TEST_CASE("an answer's head is taken line by line, and a status line begins another") {
  HttpAnswer answer;
  CHECK_FALSE(answer.take("HTTP/1.1 302 There\r\n"));
  CHECK_FALSE(answer.take("ETag: \"old\"\r\n"));
  CHECK_FALSE(answer.take("Content-Length: 3\r\n"));
  CHECK(answer.take("\r\n"));
  CHECK(answer.status == 302);
  CHECK(answer.etag == "\"old\"");
  CHECK_FALSE(answer.take("HTTP/1.1 206 Part\r\n"));
  CHECK(answer.etag.empty());
  CHECK_FALSE(answer.length);
  CHECK_FALSE(answer.take("content-RANGE: bytes 1-2/3\r\n"));
  CHECK_FALSE(answer.take("Last-Modified:yesterday\n"));
  CHECK_FALSE(answer.take("Content-Length: many\r\n"));
  CHECK_FALSE(answer.take("ETag: " + std::string(2000, 'x') + "\r\n"));
  CHECK_FALSE(answer.take("no colon\r\n"));
  CHECK(answer.take("\n"));
  CHECK(answer.status == 206);
  CHECK(answer.range == ContentRange{1, 3, 3});
  CHECK(answer.modified == "yesterday");
  CHECK_FALSE(answer.length);
  CHECK(answer.etag.empty());
}

} // namespace
