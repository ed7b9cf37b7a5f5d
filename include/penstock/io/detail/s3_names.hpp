// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::detail {

/// What "s3://bucket/key" names.
struct S3Name {
  std::string bucket;
  std::string key; // perhaps empty
  bool operator==(const S3Name&) const = default;
};

/// Reads that. Nothing if it is no name of S3's. Throws SourceError for a bucket or key that a URL
/// cannot have.
inline std::optional<S3Name> s3_name_in(std::string_view path) {
  constexpr std::string_view scheme = "s3://";
  if (!path.starts_with(scheme)) {
    return {};
  }
  const std::string_view rest = path.substr(scheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  S3Name name{std::string{rest.substr(0, slash)},
              std::string{rest.substr(std::min(slash + 1, rest.size()))}};
  const bool plain = std::all_of(name.bucket.begin(), name.bucket.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
  if (!plain || name.bucket.empty() || name.bucket.front() == '.') {
    throw_source_error({"penstock: ", path,
                        " names no bucket: give s3://BUCKET/KEY, with letters, digits, '.', '-' "
                        "and '_' in the bucket's name."},
                       path, 0);
  }
  // URLs are taken apart at these, whatever they are written as.
  const std::string between = '/' + name.key + '/';
  if (between.find("/./") != std::string::npos || between.find("/../") != std::string::npos) {
    throw_source_error({"penstock: ", path,
                        " has a part that is \".\" or \"..\", which no URL can have: copy the "
                        "object to another key."},
                       path, 0);
  }
  return name;
}

/// Writes a text for a URL: all but letters, digits and "-._~" as %XX, and '/' too unless it is to
/// be kept.
inline std::string url_escaped(std::string_view text, bool keep_slashes) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
        c == '.' || c == '_' || c == '~' || (c == '/' && keep_slashes)) {
      out += c;
    } else {
      out += {'%', digits[byte >> 4], digits[byte & 15U]};
    }
  }
  return out;
}

/// Returns the URL of a bucket, with a '/' at its end: at an endpoint, such as
/// "http://127.0.0.1:9000", with the bucket in the path; at Amazon's without one, with the bucket
/// in the host's name where a certificate covers it.
inline std::string s3_bucket_url(const std::string& bucket, const std::string& region,
                                 std::string_view endpoint) {
  while (endpoint.ends_with('/')) {
    endpoint.remove_suffix(1);
  }
  if (!endpoint.empty()) {
    return joined({endpoint, "/", bucket, "/"});
  }
  const std::string host =
      joined({"s3.", region, region.starts_with("cn-") ? ".amazonaws.com.cn/" : ".amazonaws.com/"});
  const bool covered = std::all_of(bucket.begin(), bucket.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  return covered ? joined({"https://", bucket, ".", host})
                 : joined({"https://", host, bucket, "/"});
}

/// Returns the query that lists keys which begin with `prefix` up to the next '/': in the order of
/// its names, as it is signed.
inline std::string s3_list_query(std::string_view prefix, std::string_view next, std::size_t most) {
  const std::string token =
      next.empty() ? "" : joined({"continuation-token=", url_escaped(next, false), "&"});
  return joined(
      {token, "delimiter=%2F&list-type=2&max-keys=", most, "&prefix=", url_escaped(prefix, false)});
}

} // namespace penstock::detail
