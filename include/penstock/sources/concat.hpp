// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/joined.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace penstock {

/// The records of several sources, one source after the other. `All` is a std::tuple of sources or
/// a std::vector of them. Made by concat().
template <class All> class Concat : public detail::Joined<All> {
  using They = detail::Sources<All>;
  static_assert(They::are_sources, "penstock: concat(a, b, ...) joins sources, such as "
                                   "ps::records<T>(path), and one of them is none: see All.");
  static_assert(They::same_records, "penstock: concat(a, b, ...) joins sources of one schema, and "
                                    "these have several, see All: give all the same records.");
  static_assert(They::no_mix, "penstock: a mix has no first or last records: call concat() of its "
                              "parts, and mix what comes of that.");

 public:
  /// Whether it was refused, so that a Reader says no more about it.
  static constexpr bool refused =
      !They::are_sources || !They::same_records || !They::no_mix || They::refused;

  /// Takes the sources in order.
  explicit Concat(All sources) : detail::Joined<All>{"concat", std::move(sources)} {}

  /// Opens all sources, one after the other; files are counted over all. Throws what they throw;
  /// SourceError if their records differ in length or in a dynamic extent; OptionError if there is
  /// none, or if one is a mix, has no known size, or has its records in order only.
  void open(const PrepareOptions& preparing = {}) {
    this->open_all(preparing, [](std::string_view which, const auto& source) {
      detail::check_no_mix("concat", which, source);
    });
  }
  /// Returns how many bytes the values of any `records` records have together at most, or
  /// unknown_size if one of the sources does not tell. After open().
  std::uint64_t value_bytes(std::uint64_t records) const {
    std::uint64_t all = 0;
    std::uint64_t longest = 0;
    for (std::size_t i = 0; i != They::number(this->sources()); ++i) {
      They::with(this->sources(), i, [&](const auto& source) {
        const std::uint64_t its = detail::value_bytes_of(source, records);
        all = its > unknown_size - all ? unknown_size : all + its;
        longest = std::max(longest, detail::value_bytes_of(source, 1));
      });
    }
    return std::min(all, detail::repeated_bytes(longest, records));
  }
};

/// Makes a source of all records of some sources, one after the other, numbered through:
/// `concat(a, b, c)`. They may be of any types, but have one schema. One may have no records.
template <class First, class... More>
Concat<std::tuple<First, More...>> concat(First first, More... more) {
  return Concat<std::tuple<First, More...>>{{std::move(first), std::move(more)...}};
}
/// Makes a source of all records of a list of sources: of one type, or, as AnySource, of any.
template <class S> Concat<std::vector<S>> concat(std::vector<S> sources) {
  return Concat<std::vector<S>>{std::move(sources)};
}

} // namespace penstock
