// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/sources/detail/renumbered.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <vector>

namespace penstock::detail {

/// Some sources: a std::tuple of any types, or a std::vector of one.
template <class All> struct Sources;
template <class First, class... More> struct Sources<std::tuple<First, More...>> {
  using schema = typename schema_of<First>::type;
  using Count = CountOf<First, More...>;
  static constexpr bool are_sources = Source<First> && (Source<More> && ...);
  static constexpr bool same_records =
      (std::is_same_v<typename schema_of<More>::type, schema> && ...);
  static constexpr bool no_mix = !(is_a_mix<First> || ... || is_a_mix<More>);
  static constexpr bool refused = (refused_source<First> || ... || refused_source<More>);
  static constexpr bool read_bytes = ReadsBytes<First> && (ReadsBytes<More> && ...);
  static constexpr bool hear = (HearsWhatComes<First> || ... || HearsWhatComes<More>);
  static constexpr bool lengths = KnowsLengths<First> && (KnowsLengths<More> && ...);
  template <class Where>
  static constexpr bool read_at = ReadsAt<First, Where> && (ReadsAt<More, Where> && ...);

  static Count counted(const Filled& filled) noexcept { return count_of<First, More...>(filled); }
  template <class All> static std::size_t number(const All&) noexcept {
    return 1 + sizeof...(More);
  }
  /// Calls f with source number `at`.
  template <class All, class F> static void with(All& all, std::size_t at, F f) {
    std::size_t i = 0;
    std::apply([&](auto&... source) { ((i++ == at ? f(source) : void()), ...); }, all);
  }
};
template <class S> struct Sources<std::vector<S>> : Sources<std::tuple<S>> {
  static std::size_t number(const std::vector<S>& all) noexcept { return all.size(); }
  template <class All, class F> static void with(All& all, std::size_t at, F f) { f(all[at]); }
};

} // namespace penstock::detail
