// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/splitmix.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>
#include <penstock/order/permutation.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/any_source.hpp>
#include <penstock/sources/detail/joined.hpp>
#include <penstock/sources/detail/optional_members.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock {

/// A part of a mix, and how many records of each group are of it: `{source, 7}`.
template <class Schema> struct Share {
  AnySource<Schema> source; ///< Of any type; a mix too.
  std::uint64_t weight = 1; ///< At least 1. All weights of a mix together are at most 2^32.
};

/// Several sources mixed by weights. Its records are numbered as concat() numbers them: all of part
/// 0, then all of part 1. Which one comes when it says itself, in record_of(), and a Reader asks it
/// if it has an Order: without one there is no mixing. Made by mix().
///
/// Of each group of group() visits as many come from each part as its weight says, mixed up anew in
/// each group. Each part goes through its own records in its own epochs: it begins anew when it is
/// used up, whatever the others do. With a shuffle each of its epochs has an order of its own.
template <class Schema> class Mix : public detail::Joined<std::vector<AnySource<Schema>>> {
 public:
  /// Whether it was refused, so that a Reader says no more about it.
  static constexpr bool refused = std::is_same_v<Schema, detail::NotNamed>;

  /// Takes the parts; checks nothing before open().
  explicit Mix(std::vector<Share<Schema>> parts)
      : detail::Joined<std::vector<AnySource<Schema>>>{"mix", sources_of(parts)} {
    for (const Share<Schema>& part : parts) {
      weights_end_.push_back(group() + part.weight);
    }
  }

  /// Opens all parts, one after the other; files are counted over all. Throws what they throw;
  /// OptionError for weights that are 0 or too great, if there is no part, or if one has no known
  /// size, or has its records in order only; SourceError if one has no records, or if records
  /// differ in length or in a dynamic extent.
  void open(const PrepareOptions& preparing = {}) {
    check_weights();
    this->open_all(preparing, [](std::string_view which, const auto& source) {
      if (source.size() == 0 || source.size() > Permutation::max_size) {
        detail::throw_source_error({"penstock: mix: ", which, " has ", source.size(),
                                    " records, and a part of a mix has from 1 to ",
                                    Permutation::max_size, ": leave it out, or give it others."},
                                   {}, 0);
      }
    });
  }

  /// For stages: what all parts can do, and that it says which record comes when.
  detail::Abilities abilities() const {
    detail::Abilities all = detail::Joined<std::vector<AnySource<Schema>>>::abilities();
    all.says_order = true;
    return all;
  }

  /// Returns the number of the record that comes as number `visit`, counted over all epochs. A
  /// function of its arguments alone, which keeps nothing, and takes as long for any visit. After
  /// open(). Any thread.
  std::uint64_t record_of(std::uint64_t visit, Seed shuffle) const {
    const std::uint64_t turn = visit / group();
    // Without a shuffle too: if all groups were alike, each rank might meet some parts only.
    const std::uint64_t place =
        Permutation{group(), detail::splitmix(shuffle.value(), 0), turn}(visit % group());
    const auto part = static_cast<std::size_t>(
        std::upper_bound(weights_end_.begin(), weights_end_.end(), place) - weights_end_.begin());
    const std::uint64_t before = part == 0 ? 0 : weights_end_[part - 1];
    const std::uint64_t its_visit = turn * (weights_end_[part] - before) + (place - before);
    return this->first_of(part) +
           record_of(part, its_visit,
                     shuffle ? Seed{detail::splitmix(shuffle.value(), part + 1)} : Seed{});
  }
  /// Returns a number for its parts and their weights. After open().
  std::uint64_t identity() const {
    std::uint64_t all = detail::Joined<std::vector<AnySource<Schema>>>::identity();
    for (const std::uint64_t end : weights_end_) {
      all = detail::and_then(all, end);
    }
    return all;
  }
  /// Returns how many bytes the values of any `records` records have together at most, or
  /// unknown_size if a part does not tell: a small part may begin anew before they all have come.
  /// After open().
  std::uint64_t value_bytes(std::uint64_t records) const {
    std::uint64_t longest = 0;
    for (const AnySource<Schema>& source : this->sources()) {
      longest = std::max(longest, source.value_bytes(1));
    }
    return detail::repeated_bytes(longest, records);
  }
  /// Returns how many visits belong together: the sum of all weights.
  std::uint64_t group() const noexcept { return weights_end_.empty() ? 0 : weights_end_.back(); }

 private:
  static constexpr std::uint64_t most = std::uint64_t{1} << 32;

  static std::vector<AnySource<Schema>> sources_of(const std::vector<Share<Schema>>& parts) {
    std::vector<AnySource<Schema>> sources;
    for (const Share<Schema>& part : parts) {
      sources.push_back(part.source);
    }
    return sources;
  }

  [[gnu::cold]] void check_weights() const {
    std::uint64_t before = 0;
    for (std::size_t part = 0; part != weights_end_.size(); ++part) {
      const std::uint64_t weight = weights_end_[part] - before;
      if (weight == 0 || weight > most - before) {
        detail::throw_error<OptionError>({"penstock: mix: the weight of source number ", part,
                                          " is ", weight,
                                          ": it must be at least 1, and all together at most ",
                                          most, ": leave out what is not to come."});
      }
      before = weights_end_[part];
    }
  }
  // Which of its records a part gives as number `visit` of those it gives.
  std::uint64_t record_of(std::size_t part, std::uint64_t visit, Seed shuffle) const {
    const AnySource<Schema>& source = this->sources()[part];
    const std::uint64_t records = this->size_of(part);
    return source.abilities().says_order ? source.record_of(visit, shuffle)
           : shuffle ? Permutation{records, shuffle.value(), visit / records}(visit % records)
                     : visit % records;
  }

  std::vector<std::uint64_t> weights_end_; // the sums up to each part's
};

/// Makes a source that mixes others by weights: `mix<Sample>({{web, 7}, {books, 3}})` has 7 records
/// of web among each 10. Write the schema; the parts may be sources of any types. The list may also
/// be a vector that the program has filled. Give the Reader an Order whose `.records` says how many
/// records an epoch has, since a mix has no end of its own.
template <class Schema = detail::NotNamed> Mix<Schema> mix(std::vector<Share<Schema>> parts) {
  constexpr bool named = !std::is_same_v<Schema, detail::NotNamed>;
  static_assert(named, "penstock: mix({{a, 7}, {b, 3}}) does not know what the records are: name "
                       "their type, mix<Sample>({{a, 7}, {b, 3}}).");
  return Mix<Schema>{std::move(parts)};
}

} // namespace penstock
