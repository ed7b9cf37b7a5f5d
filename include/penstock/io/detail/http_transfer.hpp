// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/io/detail/http_answer.hpp>
#include <penstock/io/detail/http_object.hpp>
#include <penstock/io/http_options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

#include <curl/curl.h>

namespace penstock::detail {

/// One request of a fetch at a time, by a libcurl handle of its own.
class HttpTransfer {
 public:
  using Clock = HttpFetch::Clock;

  HttpTransfer() : easy_{::curl_easy_init()} {
    if (!easy_) {
      throw std::bad_alloc{};
    }
  }
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;
  ~HttpTransfer() {
    ::curl_easy_cleanup(easy_);
    ::curl_slist_free_all(lines_);
  }

  CURL* handle() const noexcept { return easy_; }
  HttpFetch* fetch() const noexcept { return fetch_; } // null: at rest
  /// When anything came of it, or it began.
  Clock::time_point heard() const noexcept { return heard_; }
  void rest() noexcept { fetch_ = nullptr; }

  /// Prepares the request for what a fetch still lacks. All that the handle knew is forgotten, so
  /// that no object's credentials go with another's request.
  void begin(HttpFetch& fetch, const HttpOptions& options) {
    ::curl_easy_reset(easy_);
    ::curl_slist_free_all(lines_);
    lines_ = nullptr;
    error_[0] = '\0';
    body_.clear();
    fetch_ = &fetch;
    fetch.answer = {};
    if (fetch.kind != HttpFetch::Kind::parts) {
      fetch.came = 0;
      fetch.document.clear();
    }
    came_before_ = fetch.came;
    heard_ = Clock::now();
    address(options);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_BUFFERSIZE, buffer_bytes);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    set(CURLOPT_ERRORBUFFER, error_);
    set(CURLOPT_CONNECTTIMEOUT_MS, options.silence.count());
    set(CURLOPT_WRITEFUNCTION, on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_HEADERFUNCTION, on_head);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_PRIVATE, this);
    // The program curl takes these, and libcurl does not.
    set_from("SSL_CERT_DIR", CURLOPT_CAPATH);
    set_from("SSL_CERT_FILE", CURLOPT_CAINFO);
    set_from("CURL_CA_BUNDLE", CURLOPT_CAINFO);
  }

  /// Says, behind the request's end, how it went: settles the fetch's state, or leaves it running
  /// if another try may help.
  void end(CURLcode code) {
    HttpFetch& fetch = *fetch_;
    const int status = fetch.answer.status;
    if (fetch.state == HttpFetch::State::failed) {
      return; // by its head
    }
    if (code == CURLE_OK && status >= 200 && status < 300) {
      const bool whole =
          fetch.kind != HttpFetch::Kind::parts || fetch.came == fetch.end() - fetch.begin();
      fetch.why = "its answer was shorter than it said";
      fetch.state = whole ? HttpFetch::State::done : fetch.state;
      return;
    }
    if (code == CURLE_OK) {
      return end_with(status);
    }
    fetch.why = error_[0] != '\0' ? error_ : ::curl_easy_strerror(code);
    switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return fail("Give a URL that begins with http:// or https://.");
    case CURLE_TOO_MANY_REDIRECTS:
      return fail("Give the URL that it leads to in the end.");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
      return fail(
          "If you trust the server, name a file with the authority that signed its certificate "
          "in SSL_CERT_FILE.");
    case CURLE_OUT_OF_MEMORY:
      throw std::bad_alloc{};
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
      // Who has never answered may be misspelt.
      if (fetch.kind != HttpFetch::Kind::parts && fetch.failures + 1 >= most_calls_unanswered) {
        return fail("Check the host's name, the port and the proxy.");
      }
      return;
    default:
      return;
    }
  }

  /// Returns how long the server asks to be left alone, after end(); 0 if it does not say.
  std::chrono::seconds retry_after() const {
    curl_off_t seconds = 0;
    ::curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &seconds);
    return std::chrono::seconds{seconds > 0 ? seconds : 0};
  }
  /// Returns whether the server said that it has too much to do.
  bool was_too_much() const noexcept {
    return fetch_->answer.status == 429 || fetch_->answer.status == 503;
  }
  /// Returns how many bytes this request brought, and when the first of its answer came.
  std::uint64_t bytes() const noexcept {
    return fetch_->came + fetch_->document.size() - came_before_;
  }
  std::chrono::microseconds first_byte() const {
    curl_off_t time = 0;
    ::curl_easy_getinfo(easy_, CURLINFO_STARTTRANSFER_TIME_T, &time);
    return std::chrono::microseconds{time};
  }

 private:
  static constexpr long buffer_bytes = 128L << 10;
  static constexpr unsigned most_calls_unanswered = 3;

  template <class Value> void set(CURLoption option, Value value) {
    if (::curl_easy_setopt(easy_, option, value) == CURLE_OUT_OF_MEMORY) {
      throw std::bad_alloc{};
    }
  }
  void set_from(const char* variable, CURLoption option) {
    if (const char* const value = std::getenv(variable); value && *value != '\0') {
      set(option, value);
    }
  }
  void add_line(const std::string& line) {
    curl_slist* const more = ::curl_slist_append(lines_, line.c_str());
    if (!more) {
      throw std::bad_alloc{};
    }
    lines_ = more;
  }

  // Says where the request goes, and with what in its head.
  void address(const HttpOptions& options) {
    const HttpFetch& fetch = *fetch_;
    HttpTarget target;
    options.target ? void(target = options.target(fetch.name)) : void(target.url = fetch.name);
    const std::string detour = fetch.object ? fetch.object->detour.get() : std::string{};
    const std::string& url = detour.empty() ? target.url : detour;
    const bool may_know = detour.empty() || origin_of(detour) == origin_of(target.url);
    set(CURLOPT_URL, url.c_str());
    const char* const redirected_to = url.starts_with("https://") ? "https" : "http,https";
#if LIBCURL_VERSION_NUM >= 0x075500
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, redirected_to);
#else
    set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    set(CURLOPT_REDIR_PROTOCOLS,
        static_cast<long>(CURLPROTO_HTTPS | (redirected_to[4] == ',' ? CURLPROTO_HTTP : 0)));
#endif
    if (may_know) {
      for (const std::string& line : options.headers) {
        add_line(line);
      }
      for (const std::string& line : target.headers) {
        add_line(line);
      }
      if (!target.user.empty()) {
        set(CURLOPT_USERNAME, target.user.c_str());
        set(CURLOPT_PASSWORD, target.password.c_str());
      }
      if (!target.sigv4.empty()) {
        set(CURLOPT_AWS_SIGV4, target.sigv4.c_str());
      }
    }
    if (fetch.kind != HttpFetch::Kind::document) {
      const std::string range = joined({fetch.begin() + fetch.came, "-", fetch.end() - 1});
      set(CURLOPT_RANGE, range.c_str());
    }
    if (fetch.object && (!detour.empty() || !fetch.object->detour.was_there())) {
      if (const std::string line = fetch.object->if_same(); !line.empty()) {
        add_line(line);
      }
    }
    set(CURLOPT_HTTPHEADER, lines_);
  }

  void fail(const char* cure) {
    fetch_->cure = cure;
    fetch_->state = HttpFetch::State::failed;
  }
  void fail(std::string why, const char* cure) {
    fetch_->why = std::move(why);
    fail(cure);
  }
  void fail_changed() {
    fail("it changed while it was read: it is not the object whose size was asked for",
         "Leave an object alone as long as it is read.");
  }

  // For an answer that brings nothing.
  void end_with(int status) {
    HttpFetch& fetch = *fetch_;
    if (fetch.object && !fetch.object->detour.get().empty() && status >= 400 && status < 500 &&
        status != 412 && status != 416 && status != 429 && status != 408) {
      fetch.object->detour.set({}); // it may have been for some time only
      fetch.why = joined(
          {"where it was redirected to, the server answered ", static_cast<unsigned>(status)});
      return;
    }
    const std::size_t code = body_.find("<Code>");
    const std::string more =
        code == std::string::npos
            ? ""
            : joined({" (", body_.substr(code + 6, body_.find('<', code + 6) - code - 6), ")"});
    fetch.why = joined({"the server answered ", static_cast<unsigned>(status), more});
    switch (status) {
    case 408:
    case 425:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return;
    case 401:
    case 403:
    case 407:
      return fail("Give the right to read it: a user, a token, or a URL that is signed and has not "
                  "expired.");
    case 404:
    case 410:
      return fail("Check the URL: nothing is there, or this user may not see it.");
    case 412:
      return fail_changed();
    case 416:
      return fetch.object ? fail_changed() : fail("Check that the server answers ranges.");
    default:
      return fail("Check the URL and the server.");
    }
  }

  // Whether the body may come, by the answer's head. Else the fetch has its state.
  bool is_wanted() {
    HttpFetch& fetch = *fetch_;
    const HttpAnswer& answer = fetch.answer;
    if (answer.status < 200 || answer.status >= 300 || fetch.kind == HttpFetch::Kind::document) {
      return true; // what an error says of itself is kept apart
    }
    if (fetch.object && !fetch.object->is_in(answer)) {
      fail_changed();
    } else if (fetch.kind == HttpFetch::Kind::size && answer.status == 200 && answer.length == 0U) {
      return true; // an empty object has no range
    } else if (answer.status != 206) {
      fail(joined({"it was asked for a part, and the server answered ",
                   static_cast<unsigned>(answer.status), ", as for the whole"}),
           "Take a server that answers ranges, or copy the file first.");
    } else if (!answer.range || answer.range->first != fetch.begin() + fetch.came ||
               answer.range->end > fetch.end() || answer.range->end == 0) {
      fail(joined({"it was asked for bytes ", fetch.begin() + fetch.came, " to ", fetch.end() - 1,
                   ", and the server answered with others"}),
           "Take a server that answers ranges, or copy the file first.");
    }
    return fetch.state != HttpFetch::State::failed;
  }

  static std::size_t on_head(char* at, std::size_t, std::size_t bytes, void* whose) noexcept {
    auto& mine = *static_cast<HttpTransfer*>(whose);
    mine.heard_ = Clock::now();
    try {
      const bool ends = mine.fetch_->answer.take({at, bytes});
      return ends && !mine.is_wanted() ? 0 : bytes;
    } catch (const std::bad_alloc&) {
      return 0;
    }
  }
  static std::size_t on_body(char* at, std::size_t, std::size_t bytes, void* whose) noexcept {
    auto& mine = *static_cast<HttpTransfer*>(whose);
    mine.heard_ = Clock::now();
    try {
      const int status = mine.fetch_->answer.status;
      if (status >= 200 && status < 300) {
        if (!mine.fetch_->take({at, bytes})) {
          mine.fail("the server sent more than was asked for", "Check the URL and the server.");
          return 0;
        }
        return bytes;
      }
      constexpr std::size_t most = 1024; // where an error has its code
      mine.body_.append(at, std::min(bytes, most - mine.body_.size()));
    } catch (const std::bad_alloc&) {
      return 0;
    }
    return bytes;
  }

  CURL* const easy_;
  curl_slist* lines_{};
  HttpFetch* fetch_{};
  Clock::time_point heard_{};
  std::uint64_t came_before_{};
  std::string body_; // of an error
  char error_[CURL_ERROR_SIZE]{};
};

} // namespace penstock::detail
