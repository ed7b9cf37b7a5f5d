// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/io/detail/http_object.hpp>
#include <penstock/io/detail/http_state.hpp>
#include <penstock/io/detail/s3_listing.hpp>
#include <penstock/io/detail/s3_names.hpp>
#include <penstock/io/detail/s3_signer.hpp>
#include <penstock/io/posix.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace penstock::detail {

/// A folder that is being listed: of S3, or of files.
struct S3Folder {
  PosixIo::Folder files{};
  std::vector<std::string> names;
  std::size_t next{};
};

/// What listings have told of objects and folders, until somebody asks about them. Any thread.
class S3Listings {
 public:
  void tell(std::string path, const FileStatus& status) {
    const std::scoped_lock lock{mutex_};
    told_.insert_or_assign(std::move(path), status);
  }
  /// Returns whether something was told; once, since an object may change.
  bool take(const std::string& path, FileStatus& status) {
    const std::scoped_lock lock{mutex_};
    const auto at = told_.find(path);
    const bool found = at != told_.end();
    if (found) {
      status = at->second;
      told_.erase(at);
    }
    return found;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, FileStatus> told_;
};

/// Two names of a folder, with a '/' at its end and without, are of one.
inline FileStatus s3_folder_status(std::string_view path) {
  while (path.ends_with('/')) {
    path.remove_suffix(1);
  }
  return {.kind = FileKind::directory, .inode = std::hash<std::string_view>{}(path)};
}

/// Gets a page of the keys that begin with `prefix`. Throws SourceError. Blocks.
inline S3Page s3_page(HttpState& state, const S3Name& name, std::string_view path,
                      std::string_view prefix, std::string_view next, std::size_t most) {
  HttpFetch fetch;
  fetch.kind = HttpFetch::Kind::document;
  fetch.name = joined({S3Signer::list_scheme, name.bucket, "?", s3_list_query(prefix, next, most)});
  fetch.most_bytes = std::size_t{16} << 20; // 1000 keys of 1024 bytes, each perhaps an entity
  state.run({&fetch, 1});
  if (fetch.state == HttpFetch::State::failed) {
    const std::string_view mark = fetch.why.ends_with('.') ? " " : ". ";
    throw_source_error({"penstock: cannot list ", path, ": ", fetch.why, mark, fetch.cure}, path,
                       0);
  }
  auto got = s3_page_in(fetch.document);
  if (!got) {
    throw_source_error({"penstock: cannot list ", path,
                        ": the server's answer is no listing of S3's. Check the endpoint."},
                       path, 0);
  }
  return std::move(*got);
}

/// Lists the keys and the folders in a folder, and notes what it hears of each. Throws SourceError.
/// Blocks.
inline void s3_list(HttpState& state, const S3Name& name, std::string_view path,
                    S3Listings& listings, std::vector<std::string>& names) {
  constexpr std::size_t most_names = 20'000'000;
  std::string prefix = name.key;
  prefix += prefix.empty() || prefix.ends_with('/') ? "" : "/";
  const std::string folder = joined({"s3://", name.bucket, "/", prefix});
  const auto add = [&](std::string_view key, const FileStatus& status) {
    if (!key.starts_with(prefix) || names.size() == most_names) {
      throw_source_error({"penstock: cannot list ", path, ": the server lists ",
                          names.size() == most_names ? "more keys than anybody reads"
                                                     : "keys that were not asked for",
                          ". Check the endpoint."},
                         path, 0);
    }
    std::string_view its = key.substr(prefix.size());
    its.remove_suffix(its.ends_with('/') ? 1 : 0);
    // A key that is the folder itself, or has two '/' side by side, has no name.
    if (!its.empty() && its.find('\0') == std::string_view::npos) {
      listings.tell(folder + std::string{its}, status);
      names.emplace_back(its);
    }
  };
  std::string next;
  do {
    S3Page got = s3_page(state, name, path, prefix, next, 1000);
    for (S3Listed& object : got.objects) {
      const std::string its = joined({"s3://", name.bucket, "/", object.key});
      const FileStatus status =
          HttpObject::status_of(its, object.size, object.etag, object.modified);
      add(object.key, status);
      if (!object.etag.empty()) {
        auto found = std::make_shared<HttpObject>();
        found->name = its;
        found->status = status;
        found->etag = std::move(object.etag);
        state.keep(std::move(found));
      }
    }
    for (const std::string& inner : got.prefixes) {
      add(inner, s3_folder_status(joined({"s3://", name.bucket, "/", inner})));
    }
    if (!got.next.empty() && got.next == next) {
      throw_source_error({"penstock: cannot list ", path,
                          ": the server gives the same page again. Check the endpoint."},
                         path, 0);
    }
    next = std::move(got.next);
  } while (!next.empty());
}

} // namespace penstock::detail
