// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::detail {

// Code that throws by these functions compiles to one call, without the code that makes a text and
// an exception.

/// Throws an E (Error or OptionError) with the text of all the pieces.
template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(std::initializer_list<Piece> what) {
  throw E{joined(what)};
}

/// Throws a SourceError with the text of all the pieces, on one line: names of files may have any
/// characters, also such as steer a terminal. A '?' stands for each of those.
template <class E = SourceError>
[[noreturn, gnu::cold, gnu::noinline]] void
throw_source_error(std::initializer_list<Piece> what, std::string_view file, std::uint64_t offset,
                   std::optional<std::uint64_t> record = {}) {
  std::string text = joined(what);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return (c >= '\0' && c < ' ') || c == '\x7f'; }, '?');
  throw E{text, std::string{file}, offset, record};
}

/// Throws `e`, which has no record or another one, as an error about a record, at `offset` of its
/// file.
[[noreturn, gnu::cold, gnu::noinline]] inline void
throw_of_record(const SourceError& e, std::uint64_t offset, std::uint64_t record) {
  throw_source_error({text_of(e), " This was record ", record, "."}, e.file(), offset, record);
}

} // namespace penstock::detail
