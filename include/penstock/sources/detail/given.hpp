// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/throwing.hpp>
#include <penstock/error.hpp>
#include <penstock/sources/source.hpp>

#include <string_view>

namespace penstock::detail {

// What sources over sources ask of those that they are given, once these are open. `call` names
// what the user called, `which` the source.

/// Throws OptionError if the source says by itself in which order its records come.
template <Source S>
[[gnu::cold]] void check_no_mix(const char* call, std::string_view which, const S& source) {
  if (abilities_of(source).says_order) {
    throw_error<OptionError>({"penstock: ", call, ": ", which,
                              " is a mix, which has an order of its own, and no first or last "
                              "records: call ",
                              call, "() of its parts, and mix what comes of that."});
  }
}
/// Throws OptionError unless the source knows how many records it has, and has them at hand in any
/// order.
template <Source S>
[[gnu::cold]] void check_at_hand(const char* call, std::string_view which, const S& source) {
  if (source.size() == unknown_size) {
    throw_error<OptionError>({"penstock: ", call, ": nobody knows how many records ", which,
                              " has before its end is reached, and ", call,
                              "() must know: only take() is for such a source."});
  }
  if (comes_in_order(source)) {
    throw_error<OptionError>({"penstock: ", call, ": the records of ", which,
                              " come in order only, from its first on, and ", call,
                              "() reads others first: only take() is for such a source."});
  }
}

} // namespace penstock::detail
