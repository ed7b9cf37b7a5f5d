// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A text shows of each URL where it leads, and nothing that may be secret.

#include "support/catch.hpp"

#include <penstock/detail/base/url.hpp>

#include <string>

namespace {

using penstock::detail::is_url;

std::string shown(std::string text) {
  penstock::detail::hide_credentials(text);
  return text;
}

TEST_CASE("a path is a URL if it begins with a scheme") {
  CHECK(is_url("https://host/a"));
  CHECK(is_url("s3://bucket/key"));
  CHECK_FALSE(is_url("a/b://c"));
  CHECK_FALSE(is_url("://host"));
  CHECK_FALSE(is_url("C://host"));
  CHECK_FALSE(is_url("/data/a.bin"));
  CHECK_FALSE(is_url(""));
}

TEST_CASE("users, passwords and queries are hidden") {
  CHECK(shown("no URL: a@b?c") == "no URL: a@b?c");
  CHECK(shown("cannot open https://host/a: none.") == "cannot open https://host/a: none.");
  CHECK(shown("https://user:p@ss@host/a@b") == "https://...@host/a@b");
  CHECK(shown("https://user@host") == "https://...@host");
  CHECK(shown("open https://host/a?X-Sig=s/e&c=r: none") == "open https://host/a?...: none");
  CHECK(shown("https://host?sig=1, http://u:p@host/b?sig=2") ==
        "https://host?..., http://...@host/b?...");
  CHECK(shown("https://host/a?b://u:secret@x") == "https://host/a?...");
  CHECK(shown(shown("https://u:p@host/a?b: no")) == "https://...@host/a?...: no");
  CHECK(shown("https://host/a?") == "https://host/a?...");
  CHECK(shown("://") == "://");
}

} // namespace
