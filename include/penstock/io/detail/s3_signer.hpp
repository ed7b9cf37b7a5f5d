// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/io/detail/aws_settings.hpp>
#include <penstock/io/detail/s3_names.hpp>
#include <penstock/io/http_options.hpp>

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <curl/curl.h>

namespace penstock::detail {

/// Says where the objects of S3 lie, and signs requests for them. Any thread.
class S3Signer {
 public:
  /// What a listing is asked for by: no user's name of an object.
  static constexpr std::string_view list_scheme = "s3list://";

  /// Throws OptionError.
  S3Signer(const std::string& region, const std::string& endpoint, const std::string& profile,
           bool sign)
      : settings_{profile}, sign_{sign}, region_{region.empty() ? settings_.region() : region},
        endpoint_{endpoint.empty() ? settings_.endpoint() : endpoint} {
    const bool is_host = endpoint_.starts_with("http://") || endpoint_.starts_with("https://");
    if (!endpoint_.empty() &&
        (!is_host || endpoint_.find_first_of("@?# \t\r\n") != std::string::npos)) {
      throw_error<OptionError>(
          {"penstock: S3Io: the endpoint, of .endpoint or AWS_ENDPOINT_URL, is no plain URL: give "
           "http:// or https://, the host and perhaps a port, and credentials apart from it."});
    }
    if (region_.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-_") != std::string::npos) {
      throw_error<OptionError>({"penstock: S3Io: the region, of .region or AWS_REGION, is \"",
                                region_, "\": give one such as eu-west-1."});
    }
    if (sign_) {
      credentials_ = settings_.credentials();
      check_libcurl();
    }
  }

  static bool knows(std::string_view name) noexcept {
    return name.starts_with("s3://") || name.starts_with(list_scheme);
  }

  /// Returns where an object, or a listing, is to be asked for, and by which right.
  HttpTarget target(const std::string& name) {
    HttpTarget target;
    if (name.starts_with(list_scheme)) {
      // s3list://bucket?query
      const std::size_t query = name.find('?');
      const std::string bucket = name.substr(list_scheme.size(), query - list_scheme.size());
      target.url = s3_bucket_url(bucket, region_, endpoint_) + name.substr(query);
    } else if (const auto object = s3_name_in(name)) {
      target.url =
          s3_bucket_url(object->bucket, region_, endpoint_) + url_escaped(object->key, true);
    }
    if (sign_) {
      AwsCredentials by = credentials();
      target.sigv4 = joined({"aws:amz:", region_, ":s3"});
      // Of no bytes, since a GET has none.
      target.headers.push_back("x-amz-content-sha256: "
                               "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
      if (!by.token.empty()) {
        target.headers.push_back("x-amz-security-token: " + by.token);
      }
      target.user = std::move(by.key_id);
      target.password = std::move(by.secret);
    }
    return target;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static void check_libcurl() {
    // Earlier ones do not sign all that S3 wants signed.
    if (::curl_version_info(CURLVERSION_NOW)->version_num < 0x075600) {
      throw_error<OptionError>({"penstock: S3Io: libcurl ",
                                ::curl_version_info(CURLVERSION_NOW)->version,
                                " does not sign requests as S3 wants it: take 7.86 or later."});
    }
  }

  AwsCredentials credentials() {
    const std::scoped_lock lock{mutex_};
    const Clock::time_point now = Clock::now();
    if (now - looked_ > std::chrono::minutes{1} && settings_.reads_file()) {
      looked_ = now;
      try {
        credentials_ = settings_.credentials();
      } catch (const OptionError&) {
        // It may just be written: the old ones serve as long as the server takes them.
      }
    }
    return credentials_;
  }

  const AwsSettings settings_;
  const bool sign_;
  const std::string region_;
  const std::string endpoint_;
  std::mutex mutex_;
  AwsCredentials credentials_;
  Clock::time_point looked_ = Clock::now();
};

} // namespace penstock::detail
