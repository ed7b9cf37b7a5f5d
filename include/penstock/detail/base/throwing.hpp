// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::detail {

// A place that throws by these has a call there, and none of the code that makes an exception and
// takes half a text apart again.

/// Throws an E, which is an Error or an OptionError, that says all the pieces.
template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(std::initializer_list<Piece> what) {
  throw E{joined(what)};
}

/// Throws a SourceError that says all the pieces.
[[noreturn, gnu::cold, gnu::noinline]] inline void
throw_source_error(std::initializer_list<Piece> what, std::string_view file, std::uint64_t offset,
                   std::optional<std::uint64_t> record = {}) {
  throw SourceError{joined(what), std::string{file}, offset, record};
}

} // namespace penstock::detail
