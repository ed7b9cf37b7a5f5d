// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/splitmix.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/url.hpp>
#include <penstock/sources/source.hpp>

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <string_view>

namespace penstock::detail {

// What a source may tell of itself, and what stands for it where it does not: see Source.

template <class S> std::uint64_t identity_of(const S& source) {
  if constexpr (requires { source.identity(); }) {
    return source.identity();
  } else {
    return 0;
  }
}
/// Returns an empty text where the source names no records.
template <class S> std::string name_of(const S& source, std::uint64_t record) {
  if constexpr (requires { source.name(record); }) {
    return source.name(record);
  } else {
    return {};
  }
}
/// Returns the identity of what is made of one of identity `all` and another.
constexpr std::uint64_t and_then(std::uint64_t all, std::uint64_t another) noexcept {
  return splitmix(splitmix(all, 1), another);
}
/// Returns unknown_size where the source does not tell.
template <class S> std::uint64_t value_bytes_of(const S& source, std::uint64_t records) {
  if constexpr (requires { source.value_bytes(records); }) {
    return source.value_bytes(records);
  } else {
    return unknown_size;
  }
}
/// Returns 0 where the source does not tell.
template <class S> std::uint64_t together_of(const S& source) {
  if constexpr (requires { source.together(); }) {
    return source.together();
  } else {
    return 0;
  }
}
/// Returns how many bytes `records` values of one column have together at most if one has no more
/// than `longest`, and any may come again and again. unknown_size stands for itself.
constexpr std::uint64_t repeated_bytes(std::uint64_t longest, std::uint64_t records) noexcept {
  return longest != 0 && records > unknown_size / longest ? unknown_size : records * longest;
}
/// Adds words to a note, unless it has them: of several sources, many tell the same.
[[gnu::cold]] void add_note(std::string& to, std::string_view words);
/// Appends what a source notes, for a source that reads through it.
template <class S> void note_of(const S& source, std::string& to) {
  if constexpr (requires { source.note(to); }) {
    source.note(to);
  }
}
/// Appends what a source notes, or how that failed: a note is no reason to end a run, or to lose a
/// Report. Nothing if there is no memory for that.
template <class S> [[gnu::cold]] void add_note_of(const S& source, std::string& to) noexcept {
  try {
    note_of(source, to);
    hide_credentials(to);
  } catch (const std::exception& e) {
    try {
      add_note(to, joined({"its note() threw: ", text_of(e)}));
    } catch (const std::bad_alloc&) {
    }
  } catch (...) {
  }
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE void add_note(std::string& to, std::string_view words) {
  if (to.find(words) == std::string::npos) {
    to += to.empty() ? "" : "; ";
    to += words;
  }
}
#endif

} // namespace penstock::detail
