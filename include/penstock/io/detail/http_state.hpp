// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/io/detail/http_ahead.hpp>
#include <penstock/io/detail/http_client.hpp>
#include <penstock/io/detail/http_limit.hpp>
#include <penstock/io/detail/http_object.hpp>
#include <penstock/io/http_options.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <curl/curl.h>

namespace penstock::detail {

/// What the copies of an HttpIo share: connections, limits, and the objects that were looked at.
/// Any thread.
class HttpState {
 public:
  using Object = std::shared_ptr<const HttpObject>;

  /// Throws OptionError.
  explicit HttpState(HttpOptions options) : options_{checked(std::move(options))} {
    static const CURLcode ready = ::curl_global_init(CURL_GLOBAL_DEFAULT);
    if (ready != CURLE_OK) {
      throw_error<Error>({"penstock: HttpIo: libcurl cannot begin: ", ::curl_easy_strerror(ready)});
    }
  }

  const HttpOptions& options() const noexcept { return options_; }
  HttpCounts counts() const { return limit_.counts(); }

  /// Asks for an object's size, now, and returns it as it is; null if nothing is there. Throws
  /// SourceError. Blocks.
  Object look_at(const std::string& name) {
    HttpFetch fetch;
    fetch.kind = HttpFetch::Kind::size;
    fetch.name = name;
    run({&fetch, 1});
    if (fetch.answer.status == 404 || fetch.answer.status == 410) {
      return {};
    }
    check(fetch, "open");
    auto found = std::make_shared<HttpObject>();
    found->name = name;
    found->etag = fetch.answer.etag;
    found->modified = fetch.answer.modified;
    found->detour.set(std::move(fetch.effective));
    const std::time_t time = ::curl_getdate(found->modified.c_str(), nullptr);
    found->status =
        HttpObject::status_of(name, fetch.answer.range ? fetch.answer.range->size : 0, found->etag,
                              static_cast<std::uint64_t>(std::max<std::time_t>(time, 0)));
    return keep(std::move(found));
  }
  /// Returns an object as it was when it was looked at last; looks at it if it never was. Null if
  /// nothing is there.
  Object object(const std::string& name) {
    {
      const std::scoped_lock lock{mutex_};
      if (const auto at = latest_.find(name); at != latest_.end()) {
        return objects_[at->second];
      }
    }
    return look_at(name);
  }
  /// Notes an object that a listing has told of; returns the one that has its number.
  Object keep(std::shared_ptr<HttpObject> found) {
    const std::scoped_lock lock{mutex_};
    const auto [at, is_new] = latest_.try_emplace(found->name, objects_.size());
    if (!is_new && objects_[at->second]->status == found->status) {
      return objects_[at->second];
    }
    at->second = objects_.size();
    objects_.push_back(std::move(found));
    return objects_.back();
  }
  /// Returns the number of the latest object of a name, which is there.
  std::size_t number_of(const std::string& name) const {
    const std::scoped_lock lock{mutex_};
    return latest_.at(name);
  }
  Object object(std::size_t number) const {
    const std::scoped_lock lock{mutex_};
    return objects_.at(number);
  }

  /// Reads a part of an object of this state, all of it. Throws SourceError; ReadEnded if the run
  /// ends. Blocks.
  void read(const HttpObject& object, std::uint64_t offset, std::span<std::byte> into) {
    ahead_.read(object, offset, into, [&](std::uint64_t at, std::span<std::byte> bytes) {
      FileRead part{0, at, bytes};
      FileRead* const parts[] = {&part};
      HttpFetch fetch;
      fetch.kind = HttpFetch::Kind::parts;
      fetch.name = object.name;
      fetch.object = &object;
      fetch.parts = parts;
      run_one(fetch, "read");
    });
  }
  /// Gets a whole document of at most so many bytes, such as a listing. Throws as read() does.
  std::string document(const std::string& name, std::size_t most_bytes) {
    HttpFetch fetch;
    fetch.kind = HttpFetch::Kind::document;
    fetch.name = name;
    fetch.most_bytes = most_bytes;
    run_one(fetch, "get");
    return std::move(fetch.document);
  }
  /// Runs fetches to their ends, several at once. Each is done or failed then. Throws ReadEnded,
  /// and what the library lacks. Blocks.
  void run(std::span<HttpFetch> fetches) {
    if (InterruptHere::raised()) {
      throw ReadEnded{};
    }
    const unsigned taken = limit_.take(
        static_cast<unsigned>(std::min<std::size_t>(fetches.size(), options_.connections)));
    const struct Permit {
      HttpLimit& limit;
      unsigned taken;
      ~Permit() { limit.give_back(taken); }
    } permit{limit_, taken};
    ClientInUse client{*this};
    client->run(fetches, taken, limit_);
  }

 private:
  // Clients are taken from the end, where the one is that rested the shortest.
  class ClientInUse {
   public:
    explicit ClientInUse(HttpState& state) : state_{state} {
      {
        const std::scoped_lock lock{state.mutex_};
        if (!state.idle_.empty()) {
          client_ = std::move(state.idle_.back());
          state.idle_.pop_back();
        } else {
          ++state.clients_;
        }
        kept_ = std::max(state.options_.connections / state.clients_, 1U);
      }
      if (!client_) {
        client_ = std::make_unique<HttpClient>(state.options_);
      }
      client_->keep(kept_);
    }
    ClientInUse(const ClientInUse&) = delete;
    ClientInUse& operator=(const ClientInUse&) = delete;
    ~ClientInUse() {
      const std::scoped_lock lock{state_.mutex_};
      if (client_) {
        state_.idle_.push_back(std::move(client_));
      } else {
        --state_.clients_;
      }
    }
    HttpClient* operator->() const noexcept { return client_.get(); }

   private:
    HttpState& state_;
    std::unique_ptr<HttpClient> client_;
    unsigned kept_{};
  };

  static HttpOptions checked(HttpOptions options) {
    if (options.connections == 0 || options.connections > most_connections) {
      throw_error<OptionError>({"penstock: HttpIo: .connections is ", options.connections,
                                ": give 1 to ", most_connections, "."});
    }
    if (options.silence.count() <= 0 || options.deadline.count() <= 0) {
      throw_error<OptionError>(
          {"penstock: HttpIo: .silence and .deadline must be longer than nothing."});
    }
    return options;
  }

  void run_one(HttpFetch& fetch, const char* doing) {
    run({&fetch, 1});
    check(fetch, doing);
  }
  static void check(const HttpFetch& fetch, const char* doing) {
    if (fetch.state == HttpFetch::State::failed) {
      const std::uint64_t at = fetch.begin() + fetch.came;
      const std::string what =
          fetch.kind == HttpFetch::Kind::parts ? joined({doing, " byte ", at, " of"}) : doing;
      const std::string_view mark = fetch.why.ends_with('.') ? " " : ". ";
      throw_source_error(
          {"penstock: cannot ", what, " ", fetch.name, ": ", fetch.why, mark, fetch.cure},
          fetch.name, fetch.kind == HttpFetch::Kind::parts ? at : 0);
    }
  }

  static constexpr unsigned most_connections = 1024;

  const HttpOptions options_;
  HttpLimit limit_{options_.connections};
  HttpAhead ahead_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<HttpClient>> idle_;
  unsigned clients_{};
  std::vector<Object> objects_;
  std::unordered_map<std::string, std::size_t> latest_; // their numbers by their names
};

} // namespace penstock::detail
