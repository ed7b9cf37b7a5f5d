// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/memory.hpp>
#include <penstock/sources/source.hpp>

namespace penstock::detail {

enum class SourceFlaw { none, read_not_const, one_space, other };

/// Returns why S is no source, if it is none.
template <class S> consteval SourceFlaw source_flaw() {
  if constexpr (Source<S>) {
    return SourceFlaw::none;
  } else if constexpr (!requires { typename S::schema; } ||
                       (Fills<const S, Pageable> && Fills<const S, Pinned>)) {
    return SourceFlaw::other;
  } else if constexpr (Fills<S, Pageable> && Fills<S, Pinned>) {
    return SourceFlaw::read_not_const;
  } else {
    return Fills<S, Pageable> || Fills<S, Pinned> ? SourceFlaw::one_space : SourceFlaw::other;
  }
}

} // namespace penstock::detail
