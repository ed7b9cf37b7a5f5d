// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A listing is read whole and right, or not at all: none that is cut or has anything else.

#include "support/catch.hpp"

#include <penstock/io/detail/s3_listing.hpp>

#include <cstddef>
#include <string>

namespace {

namespace ps = penstock;
using ps::detail::s3_page_in;
using ps::detail::seconds_in;

std::string listing(const std::string& inside) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
         "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
         inside + "</ListBucketResult>";
}
const std::string object =
    "<Contents><Key>a/b &amp; &lt;&#233;&#x1F600;&gt;</Key><LastModified>2009-10-12T17:50:30.000Z"
    "</LastModified><ETag>&quot;fba9&quot;</ETag><Size>434234</Size><Owner><ID/></Owner>"
    "<StorageClass>STANDARD</StorageClass></Contents>";

} // namespace

TEST_CASE("a page has its objects, prefixes and the way to the next") {
  const auto found = s3_page_in(
      listing("<Name>bucket</Name><IsTruncated>true</IsTruncated><NextContinuationToken>1/+=x"
              "</NextContinuationToken>" +
              object + "<CommonPrefixes><Prefix>a/c/</Prefix></CommonPrefixes>"));
  REQUIRE(found);
  REQUIRE(found->objects.size() == 1);
  REQUIRE(found->objects[0].key == "a/b & <\xC3\xA9\xF0\x9F\x98\x80>");
  REQUIRE(found->objects[0].size == 434234);
  REQUIRE(found->objects[0].etag == "\"fba9\"");
  REQUIRE(found->objects[0].modified == 1255369830);
  REQUIRE(found->prefixes == std::vector<std::string>{"a/c/"});
  REQUIRE(found->next == "1/+=x");
  REQUIRE(s3_page_in(listing(""))->empty());
}

TEST_CASE("no listing that is cut is taken for a whole one") {
  const std::string whole = listing("<IsTruncated>false</IsTruncated>" + object);
  REQUIRE(s3_page_in(whole));
  for (std::size_t i = 0; i != whole.size(); ++i) {
    INFO(whole.substr(0, i));
    REQUIRE(!s3_page_in(whole.substr(0, i)));
  }
}

TEST_CASE("what is no listing is refused") {
  const auto refused = [](const std::string& text) {
    INFO(text);
    return !s3_page_in(text);
  };
  REQUIRE(refused("<html><body>Welcome</body></html>"));
  REQUIRE(refused("<Error><Code>AccessDenied</Code></Error>"));
  REQUIRE(refused("<!DOCTYPE a [<!ENTITY b \"cc\">]>" + listing(object)));
  REQUIRE(refused(listing(object) + listing(object)));
  REQUIRE(refused(listing("<Contents><Key>a</Size></Contents>")));
  REQUIRE(refused(listing("<Contents><Key>a</Key></Contents>")));
  REQUIRE(refused(listing("<Contents><Size>5</Size></Contents>")));
  REQUIRE(refused(listing("<Contents><Key>a</Key><Size>-5</Size></Contents>")));
  REQUIRE(refused(listing("<Contents><Key>a</Key><Size>5x</Size></Contents>")));
  REQUIRE(refused(listing("<Contents><Key>a</Key><Size>99999999999999999999</Size></Contents>")));
  REQUIRE(refused(listing("<Contents><Key>&b;</Key><Size>5</Size></Contents>")));
  REQUIRE(refused(listing("<Contents><Key>&#0;</Key><Size>5</Size></Contents>")));
  REQUIRE(refused(listing("<Contents><Key>&#xD800;</Key><Size>5</Size></Contents>")));
  REQUIRE(refused(listing("<IsTruncated>true</IsTruncated>")));
  REQUIRE(refused(listing("<IsTruncated>perhaps</IsTruncated>")));
  std::string deep;
  for (int i = 0; i != 1000; ++i) {
    deep += "<a>";
  }
  REQUIRE(refused(listing(deep)));
}

TEST_CASE("times are seconds since 1970, or none") {
  REQUIRE(seconds_in("1970-01-01T00:00:00.000Z") == 0);
  REQUIRE(seconds_in("2024-02-29T23:59:59Z") == 1709251199);
  for (const char* const text :
       {"", "2023-02-29T00:00:00Z", "2024-02-28T24:00:00Z", "1969-12-31T23:59:59Z",
        "2024-02-28T00:00:00", "2024-2-28T00:00:00Z", "Mon, 12 Oct 2009 17:50:30 GMT"}) {
    INFO(text);
    REQUIRE(!seconds_in(text));
  }
}
