// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/detail/http_answer.hpp>
#include <penstock/io/many_reads.hpp>
#include <penstock/io/posix.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::detail {

/// Returns a URL's scheme, host and port.
inline std::string_view origin_of(std::string_view url) noexcept {
  const std::size_t host = url.find("://");
  return host == std::string_view::npos ? url : url.substr(0, url.find_first_of("/?#", host + 3));
}

/// Where an object was redirected to, if it was: later requests go there at once. Any thread.
class HttpDetour {
 public:
  std::string get() const {
    const std::scoped_lock lock{mutex_};
    return to_;
  }
  /// Returns whether there ever was one: who redirects need not know the object's ETag.
  bool was_there() const {
    const std::scoped_lock lock{mutex_};
    return was_there_;
  }
  void set(std::string to) {
    const std::scoped_lock lock{mutex_};
    was_there_ = was_there_ || !to.empty();
    to_ = std::move(to);
  }

 private:
  mutable std::mutex mutex_;
  std::string to_;
  bool was_there_{};
};

/// An object as it was when its size was asked for. Any thread.
struct HttpObject {
  std::string name;
  FileStatus status;
  std::string etag;
  std::string modified;
  mutable HttpDetour detour{};

  /// Returns what files have, for an object that was modified so many seconds after 1970. The inode
  /// is 0 if it has no ETag.
  static FileStatus status_of(std::string_view name, std::uint64_t size, std::string_view etag,
                              std::uint64_t modified) {
    const std::hash<std::string_view> hash;
    return {.kind = FileKind::regular,
            .size = size,
            .device = hash(origin_of(name)),
            .inode = etag.empty() ? 0 : hash(etag),
            .modified = modified * 1'000'000'000};
  }

  /// Returns the line of a request that is refused if the object has changed; empty if there is
  /// nothing to know it by. A weak ETag never matches.
  std::string if_same() const {
    return !etag.empty() && !etag.starts_with("W/") ? "If-Match: " + etag
           : !modified.empty()                      ? "If-Unmodified-Since: " + modified
                                                    : "";
  }
  /// Returns whether an answer is of the same object, by all that it says.
  bool is_in(const HttpAnswer& answer) const noexcept {
    return (answer.etag.empty() || answer.etag == etag) &&
           (!etag.empty() || answer.modified.empty() || answer.modified == modified) &&
           (!answer.range || answer.range->size == status.size);
  }
};

/// Something that is to be fetched, by as many requests as it takes: an object's size, by its first
/// byte; parts of an object, in order, with gaps between that are dropped; or a whole document.
struct HttpFetch {
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::uint8_t { size, parts, document };
  enum class State : std::uint8_t { waiting, running, done, failed };

  Kind kind{};
  std::string name;
  const HttpObject* object{};       // of parts
  std::span<FileRead* const> parts; // of parts
  std::size_t most_bytes{};         // of a document

  State state{};
  std::uint64_t came{};      // bytes, from the first part's beginning on
  std::string document;      // of a document
  HttpAnswer answer;         // of the last request
  std::string effective;     // where a size was found
  unsigned failures{};       // since something came
  unsigned tries{};          // in all
  Clock::time_point since{}; // when something came, or it began
  Clock::time_point not_before{};
  std::string why{}; // it failed
  const char* cure = "";

  std::uint64_t begin() const noexcept { return parts.empty() ? 0 : parts.front()->offset; }
  std::uint64_t end() const noexcept {
    return parts.empty() ? 1 : parts.back()->offset + parts.back()->into.size();
  }
  /// Takes bytes of the body. Returns false if they are too many.
  bool take(std::string_view bytes) {
    const std::uint64_t room =
        kind == Kind::document ? most_bytes - document.size() : end() - begin() - came;
    if (bytes.size() > room) {
      return false;
    }
    since = Clock::now();
    failures = 0;
    if (kind == Kind::document) {
      document += bytes;
      return true;
    }
    if (kind == Kind::size) {
      came += bytes.size();
      return true;
    }
    while (!bytes.empty()) {
      const std::uint64_t at = begin() + came;
      FileRead& part = *parts[part_];
      const std::uint64_t goal = at < part.offset ? part.offset : part.offset + part.into.size();
      const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(goal - at, bytes.size()));
      if (at >= part.offset) {
        std::memcpy(part.into.data() + part.got, bytes.data(), some);
        part.got += some;
        part_ += part.got == part.into.size() ? 1U : 0U;
      }
      bytes.remove_prefix(some);
      came += some;
    }
    return true;
  }

 private:
  std::size_t part_ = 0; // that comes next
};

} // namespace penstock::detail
