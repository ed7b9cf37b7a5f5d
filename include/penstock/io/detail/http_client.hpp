// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/interrupt.hpp>
#include <penstock/detail/base/splitmix.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/io/detail/http_limit.hpp>
#include <penstock/io/detail/http_object.hpp>
#include <penstock/io/detail/http_transfer.hpp>
#include <penstock/io/http_options.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <curl/curl.h>

namespace penstock::detail {

/// The connections of one thread at a time, and its requests at once: runs fetches to their ends.
class HttpClient {
  using Clock = HttpFetch::Clock;
  using Milliseconds = std::chrono::milliseconds;

 public:
  /// `options` must outlive this.
  explicit HttpClient(const HttpOptions& options) : options_{options}, multi_{::curl_multi_init()} {
    if (!multi_) {
      throw std::bad_alloc{};
    }
  }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient() {
    give_up();
    transfers_.clear();
    ::curl_multi_cleanup(multi_);
  }

  /// Keeps at most so many connections that are not in use.
  void keep(unsigned connections) {
    ::curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(connections));
  }

  /// Fetches all, by up to so many requests at once. When it returns each is done or failed. Throws
  /// ReadEnded within 100 ms if this thread's run ends. Blocks.
  void run(std::span<HttpFetch> fetches, unsigned at_once, HttpLimit& limit) {
    // Whatever ends it, no request writes to memory of the caller any more.
    const struct Guard {
      HttpClient& client;
      ~Guard() { client.give_up(); }
    } guard{*this};
    while (transfers_.size() < at_once) {
      transfers_.push_back(std::make_unique<HttpTransfer>());
    }
    const Clock::time_point now = Clock::now();
    for (HttpFetch& fetch : fetches) {
      fetch.since = now;
    }
    for (;;) {
      Clock::time_point wake = Clock::now() + longest_wait;
      if (!start(fetches, at_once, limit, wake)) {
        return;
      }
      int running = 0;
      check(::curl_multi_perform(multi_, &running));
      bool ended = false;
      int left = 0;
      while (const CURLMsg* const message = ::curl_multi_info_read(multi_, &left)) {
        if (message->msg == CURLMSG_DONE) {
          end(message->easy_handle, message->data.result, limit);
          ended = true;
        }
      }
      give_up_silent(limit);
      if (InterruptHere::raised()) {
        throw ReadEnded{};
      }
      if (!ended) {
        const auto wait = std::chrono::ceil<Milliseconds>(wake - Clock::now()).count();
        check(::curl_multi_poll(multi_, nullptr, 0,
                                static_cast<int>(std::max<decltype(wait)>(wait, 0)), nullptr));
      }
    }
  }

 private:
  // A stop is looked for as often.
  static constexpr Milliseconds longest_wait{50};
  static constexpr Milliseconds first_pause{50};
  static constexpr unsigned most_doublings = 7;

  static void check(CURLMcode code) {
    if (code == CURLM_OUT_OF_MEMORY) {
      throw std::bad_alloc{};
    }
    if (code != CURLM_OK) {
      throw_error<Error>({"penstock: HttpIo: libcurl: ", ::curl_multi_strerror(code)});
    }
  }

  // Begins what may begin. Returns whether anything is left to do; `wake` comes no later than the
  // next beginning.
  bool start(std::span<HttpFetch> fetches, unsigned at_once, HttpLimit& limit,
             Clock::time_point& wake) {
    bool left = false;
    const Clock::time_point now = Clock::now();
    auto free = transfers_.begin();
    const auto end = transfers_.begin() + at_once;
    for (HttpFetch& fetch : fetches) {
      left = left || fetch.state == HttpFetch::State::running ||
             fetch.state == HttpFetch::State::waiting;
      if (fetch.state != HttpFetch::State::waiting) {
        continue;
      }
      if (fetch.not_before > now) {
        wake = std::min(wake, fetch.not_before);
        continue;
      }
      free = std::find_if(free, end, [](const auto& transfer) { return !transfer->fetch(); });
      if (free == end) {
        break;
      }
      (*free)->begin(fetch, options_);
      check(::curl_multi_add_handle(multi_, (*free)->handle()));
      fetch.state = HttpFetch::State::running;
      ++fetch.tries;
      limit.count_request(fetch.failures != 0);
    }
    return left;
  }

  void end(CURL* handle, CURLcode code, HttpLimit& limit) {
    char* whose = nullptr;
    ::curl_easy_getinfo(handle, CURLINFO_PRIVATE, &whose);
    HttpTransfer& transfer = *reinterpret_cast<HttpTransfer*>(whose);
    HttpFetch& fetch = *transfer.fetch();
    ::curl_multi_remove_handle(multi_, handle);
    transfer.end(code);
    limit.count_answer(transfer.bytes(), transfer.first_byte(), transfer.was_too_much());
    if (fetch.kind == HttpFetch::Kind::size && fetch.answer.status == 416 && fetch.answer.range &&
        fetch.answer.range->size == 0) {
      fetch.state = HttpFetch::State::done; // an empty object has no first byte
    }
    if (fetch.kind == HttpFetch::Kind::size && fetch.state == HttpFetch::State::done) {
      long redirects = 0;
      const char* url = nullptr;
      ::curl_easy_getinfo(handle, CURLINFO_REDIRECT_COUNT, &redirects);
      ::curl_easy_getinfo(handle, CURLINFO_EFFECTIVE_URL, &url);
      fetch.effective = redirects != 0 && url ? url : "";
    }
    if (fetch.state == HttpFetch::State::running) {
      try_again(fetch, transfer.retry_after());
    }
    transfer.rest();
  }

  void try_again(HttpFetch& fetch, std::chrono::seconds asked) {
    const Clock::time_point now = Clock::now();
    const Milliseconds longest = first_pause * (1 << std::min(fetch.failures, most_doublings));
    // From half of it to all, so that those who failed together do not come back together.
    const auto jitter = static_cast<Milliseconds::rep>(
        splitmix(reinterpret_cast<std::uintptr_t>(&fetch),
                 static_cast<std::uint64_t>(now.time_since_epoch().count())) %
        static_cast<std::uint64_t>(longest.count() / 2 + 1));
    Clock::duration pause = longest / 2 + Milliseconds{jitter};
    pause = std::max<Clock::duration>(pause,
                                      std::min<std::chrono::seconds>(asked, std::chrono::hours{1}));
    ++fetch.failures;
    if (now + pause > fetch.since + options_.deadline) {
      const auto waited = std::chrono::duration_cast<Milliseconds>(now - fetch.since).count();
      fetch.why += joined({", and nothing had come for ", static_cast<std::uint64_t>(waited),
                           " ms, in ", fetch.failures, fetch.failures == 1 ? " try" : " tries"});
      fetch.why += asked > std::chrono::seconds{0}
                       ? joined({"; it asks to be left alone for ",
                                 static_cast<std::uint64_t>(asked.count()), " s"})
                       : "";
      fetch.cure = "Read later, by fewer .connections, or with a longer .deadline.";
      fetch.state = HttpFetch::State::failed;
      return;
    }
    fetch.not_before = now + pause;
    fetch.state = HttpFetch::State::waiting;
  }

  // libcurl's own limit counts whole seconds.
  void give_up_silent(HttpLimit& limit) {
    const Clock::time_point now = Clock::now();
    for (const auto& transfer : transfers_) {
      if (HttpFetch* const fetch = transfer->fetch();
          fetch && now - transfer->heard() > options_.silence) {
        ::curl_multi_remove_handle(multi_, transfer->handle());
        limit.count_answer(transfer->bytes(), options_.silence, false);
        fetch->why = joined({"the server said nothing for ",
                             static_cast<std::uint64_t>(options_.silence.count()), " ms"});
        try_again(*fetch, {});
        transfer->rest();
      }
    }
  }

  void give_up() noexcept {
    for (const auto& transfer : transfers_) {
      if (transfer->fetch()) {
        ::curl_multi_remove_handle(multi_, transfer->handle());
        transfer->rest();
      }
    }
  }

  const HttpOptions& options_;
  CURLM* const multi_;
  std::vector<std::unique_ptr<HttpTransfer>> transfers_;
};

} // namespace penstock::detail
