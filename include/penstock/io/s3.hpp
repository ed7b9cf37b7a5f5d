// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/detail/s3_folders.hpp>
#include <penstock/io/detail/s3_names.hpp>
#include <penstock/io/detail/s3_signer.hpp>
#include <penstock/io/http.hpp>
#include <penstock/io/http_options.hpp>
#include <penstock/io/posix.hpp>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

// Needs libcurl 7.86 or later (Debian: libcurl4-openssl-dev), which the program must link: -lcurl.
namespace penstock {

/// Options of S3Io. What is empty comes from where AWS's tools have it: AWS_REGION,
/// AWS_ENDPOINT_URL, AWS_PROFILE, and ~/.aws/config.
struct S3Options {
  /// How its requests are made.
  HttpOptions http = {};
  /// The region of the buckets, such as "eu-west-1"; "auto" for R2. If nobody says: "us-east-1".
  std::string region = {};
  /// Another server than Amazon's, such as "http://127.0.0.1:9000": it is asked by paths, in which
  /// the bucket comes first.
  std::string endpoint = {};
  /// The profile whose credentials ~/.aws/credentials has. If it is empty, AWS_ACCESS_KEY_ID,
  /// AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN count first.
  std::string profile = {};
  /// False: requests are not signed, for what all may read.
  bool sign = true;
};

/// Reads objects of S3, and of servers that speak as it does, where a source takes files:
/// `records<Frame>("s3://bucket/train/", {}, ps::S3Io{})`. A name that ends with '/', or a bucket's
/// alone, is a folder of the keys that begin with it, as far as the next '/'. A listing tells sizes
/// and ETags, so that nobody asks for each object. What is no such name it reads as HttpIo does,
/// unsigned. The file of credentials is read again once a minute, since those of a session end. Any
/// number of threads; copies share connections and all else.
class S3Io : public HttpIo {
 public:
  using Folder = detail::S3Folder*; ///< An open folder.

  /// Asks nobody yet. Throws OptionError, also if it is to sign and there are no credentials.
  explicit S3Io(S3Options options = {}) : S3Io{std::move(options.http), signer(options)} {}

  /// Asks about an object, unless a listing has just told, or about a folder.
  int status(const char* path, FileStatus& status) const;
  using HttpIo::status;
  /// Lists a folder: by one request for each 1000 keys.
  int open_folder(const char* path, Folder& folder) const;
  /// Sets `name` to null after the last.
  int next_name(Folder folder, const char*& name) const;
  int close_folder(Folder folder) const; ///< Ends a listing.

 private:
  using Signer = std::shared_ptr<detail::S3Signer>;

  static Signer signer(const S3Options& options) {
    return std::make_shared<detail::S3Signer>(options.region, options.endpoint, options.profile,
                                              options.sign);
  }
  S3Io(HttpOptions options, const Signer& signer)
      : HttpIo{signed_by(signer, std::move(options))},
        listed_{std::make_shared<detail::S3Listings>()} {}

  static HttpOptions signed_by(const Signer& signer, HttpOptions options) {
    options.target = [signer, other = std::move(options.target)](const std::string& name) {
      return signer->knows(name) ? signer->target(name)
             : other             ? other(name)
                                 : HttpTarget{name, {}, {}, {}, {}};
    };
    return options;
  }

  std::shared_ptr<detail::S3Listings> listed_;
};

inline int S3Io::status(const char* path, FileStatus& status) const {
  const auto name = detail::s3_name_in(path);
  if (!name) {
    return HttpIo::status(path, status);
  }
  if (listed_->take(path, status)) {
    return 0;
  }
  if (name->key.empty() || name->key.ends_with('/')) {
    status = detail::s3_folder_status(path);
    return 0;
  }
  if (HttpIo::status(path, status) == 0) {
    return 0;
  }
  // Not a key: perhaps what others begin with.
  if (errno == ENOENT && !detail::s3_page(state(), *name, path, name->key + '/', "", 1).empty()) {
    status = detail::s3_folder_status(path);
    return 0;
  }
  errno = ENOENT;
  return -1;
}

inline int S3Io::open_folder(const char* path, Folder& folder) const {
  const auto name = detail::s3_name_in(path);
  auto made = std::make_unique<detail::S3Folder>();
  if (name) {
    detail::s3_list(state(), *name, path, *listed_, made->names);
  } else if (PosixIo::open_folder(path, made->files) < 0) {
    return -1;
  }
  folder = made.release();
  return 0;
}

inline int S3Io::next_name(Folder folder, const char*& name) const {
  if (folder->files) {
    return PosixIo::next_name(folder->files, name);
  }
  name = folder->next == folder->names.size() ? nullptr : folder->names[folder->next++].c_str();
  return 0;
}

inline int S3Io::close_folder(Folder folder) const {
  const std::unique_ptr<detail::S3Folder> owned{folder};
  return folder->files ? PosixIo::close_folder(folder->files) : 0;
}

} // namespace penstock
