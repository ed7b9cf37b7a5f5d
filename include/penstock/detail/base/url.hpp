// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::detail {

/// Returns whether a path is a URL: it begins with a scheme and "://".
bool is_url(std::string_view path) noexcept;

/// Takes out of each URL in a text what may be secret: a user and password before the host, and
/// what stands behind a '?', where signatures are. "..." stands for it.
[[gnu::cold]] void hide_credentials(std::string& text);

#if PENSTOCK_BODIES
PENSTOCK_INLINE bool is_url(std::string_view path) noexcept {
  const std::size_t end = path.find("://");
  return end != std::string_view::npos && end > 1 &&
         std::all_of(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(end), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
         });
}

PENSTOCK_INLINE void hide_credentials(std::string& text) {
  constexpr std::string_view ends = " \t\r\n\"'<>";
  for (std::size_t at = text.find("://"); at != std::string::npos; at = text.find("://", at)) {
    at += 3;
    const std::size_t host_end = std::min(text.find_first_of("/?# \t\r\n\"'<>", at), text.size());
    const std::size_t user_end = text.substr(at, host_end - at).rfind('@');
    if (user_end != std::string::npos) {
      text.replace(at, user_end, "...");
    }
    const std::size_t end = std::min(text.find_first_of(ends, at), text.size());
    const std::size_t query = text.find('?', at);
    if (query < end) {
      // The sentence goes on behind its mark.
      const bool mark = end < text.size() &&
                        std::string_view{":,;"}.find(text[end - 1]) != std::string_view::npos;
      text.replace(query + 1, end - query - 1 - (mark ? 1 : 0), "...");
    }
  }
}
#endif

} // namespace penstock::detail
