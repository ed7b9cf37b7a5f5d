// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace penstock {

/// Where an object lies, and by which right it is read. No error, Report or note shows any of it.
struct HttpTarget {
  /// http:// or https://
  std::string url;
  /// How requests are signed: the text that libcurl's CURLOPT_AWS_SIGV4 takes, such as
  /// "aws:amz:eu-west-1:s3". Empty: not.
  std::string sigv4;
  /// The user, or the key's number, and the password, or the key. Empty: none but the URL's own.
  /// @{
  std::string user;
  std::string password;
  /// @}
  /// Lines of the request's head, "Name: value", such as a session token. Of a redirect's two hosts
  /// only the first gets them.
  std::vector<std::string> headers;
};

/// Options of HttpIo.
struct HttpOptions {
  /// Requests at once, of all threads, at least 1. Fewer are made while servers say that they are
  /// too many. As many connections are kept for later ones.
  unsigned connections = 16;
  /// A try is given up when nothing has come for so long, and the next one is made.
  std::chrono::milliseconds silence = std::chrono::seconds{10};
  /// A read fails if, in all its tries, no byte has come for so long.
  std::chrono::milliseconds deadline = std::chrono::seconds{60};
  /// Lines for the head of each request, "Name: value": `{"Authorization: Bearer …"}`. A redirect
  /// to another host does not get them.
  std::vector<std::string> headers = {};
  /// Turns the name of an object, which a source was given, into what is asked for; called for
  /// each request, by any thread. Without it a name is the URL.
  std::function<HttpTarget(const std::string& name)> target = {};
};

/// What an HttpIo has done so far, in all its copies.
struct HttpCounts {
  unsigned long long bytes{};    ///< Of bodies, that were kept.
  unsigned long long requests{}; ///< That were sent, retries among them.
  unsigned long long retries{};  ///< That followed one which failed.
  unsigned connections{};        ///< The most requests at once.
  unsigned limit{};              ///< How many it makes at once now: see HttpOptions::connections.
  /// From a request to its answer's first byte, on an average.
  std::chrono::microseconds first_byte{};
};

} // namespace penstock
