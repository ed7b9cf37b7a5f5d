// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Names of S3's objects become URLs with every byte of the key in its place.

#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/error.hpp>
#include <penstock/io/detail/s3_names.hpp>

namespace {
namespace ps = penstock;
namespace tests = penstock::tests;
using namespace penstock::detail;
} // namespace

TEST_CASE("a name has a bucket and a key, or is none") {
  REQUIRE(s3_name_in("s3://bucket/a/b.tar") == S3Name{"bucket", "a/b.tar"});
  REQUIRE(s3_name_in("s3://bucket") == S3Name{"bucket", ""});
  REQUIRE(s3_name_in("s3://bucket/") == S3Name{"bucket", ""});
  REQUIRE(s3_name_in("s3://b.u-c_ket//a?b#c") == S3Name{"b.u-c_ket", "/a?b#c"});
  REQUIRE(!s3_name_in("https://bucket/a"));
  REQUIRE(!s3_name_in("bucket/a"));
  for (const char* const name : {"s3://", "s3:///a", "s3://user:pass@host/a", "s3://.hidden/a"}) {
    REQUIRE(
        tests::has(tests::caught<ps::SourceError>([&] { s3_name_in(name); }), "names no bucket"));
  }
  for (const char* const name : {"s3://b/..", "s3://b/a/../c", "s3://b/./a"}) {
    REQUIRE(tests::has(tests::caught<ps::SourceError>([&] { s3_name_in(name); }), "\"..\""));
  }
}

TEST_CASE("URLs have the bucket where a server looks for it, and keys escaped") {
  REQUIRE(url_escaped("a/B-1._~ é%+?#&", true) == "a/B-1._~%20%C3%A9%25%2B%3F%23%26");
  REQUIRE(url_escaped("a/b", false) == "a%2Fb");
  REQUIRE(s3_bucket_url("data", "eu-west-1", "") == "https://data.s3.eu-west-1.amazonaws.com/");
  REQUIRE(s3_bucket_url("my.data", "eu-west-1", "") ==
          "https://s3.eu-west-1.amazonaws.com/my.data/");
  REQUIRE(s3_bucket_url("data", "cn-north-1", "") ==
          "https://data.s3.cn-north-1.amazonaws.com.cn/");
  REQUIRE(s3_bucket_url("data", "auto", "https://a.example//") == "https://a.example/data/");
  REQUIRE(s3_list_query("a b/", "", 7) == "delimiter=%2F&list-type=2&max-keys=7&prefix=a%20b%2F");
  REQUIRE(s3_list_query("", "x=/", 1000) ==
          "continuation-token=x%3D%2F&delimiter=%2F&list-type=2&max-keys=1000&prefix=");
}
