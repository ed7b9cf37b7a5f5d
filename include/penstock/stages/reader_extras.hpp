// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/engine/plan.hpp>
#include <penstock/detail/engine/run_control.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/links/layout.hpp>
#include <penstock/detail/reading/make_order.hpp>
#include <penstock/detail/reading/ordered_reader_node.hpp>
#include <penstock/detail/reading/range_dealer.hpp>
#include <penstock/detail/reading/ranges.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/detail/turns/flush.hpp>
#include <penstock/order/detail/ordered_numbers.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/source.hpp>
#include <penstock/stages/reader_options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Returns what an order needs to know of a source, opened, whose records have so many bytes.
template <Source From>
[[gnu::cold]] OrderedSource ordered_source(const From& source, std::size_t bytes,
                                           const std::vector<std::size_t>& extents) {
  OrderedSource of{.size = source.size(),
                   .in_order = comes_in_order(source),
                   .record_bytes = std::max<std::size_t>(bytes, 1),
                   .ragged = schema_traits<typename From::schema>::ragged,
                   .extents = extents,
                   .identity = identity_of(source)};
  if constexpr (SaysOrder<From>) {
    if (!abilities_of(source).says_order) {
      return of;
    }
    of.mix = [](const void* mix, std::uint64_t visit, Seed shuffle) -> std::uint64_t {
      return static_cast<const From*>(mix)->record_of(visit, shuffle);
    };
    of.group = source.group();
  }
  return of;
}

/// What deals out the slots of a Reader with `.ahead` or `.flush`.
struct Dealt {
  Owned<RangeDealer> ranges{}; // null: the number of a slot says what it holds
  Shared<Ahead<>> ahead{};
  std::uint64_t units{}; // that may be read and not used up
  bool whole{};          // a slot that is not an epoch's last is full
};

/// What ReaderOptions may ask for, as functions that only a Reader with options refers to: a
/// program without such a Reader does not compile them.
template <class From, class Where> struct ReaderExtras {
  /// Throws OptionError for options that cannot work.
  void (*check)(const ReaderOptions&, const OrderedSource&, const Plan&);
  RunOrder::Numbers* numbers;
  Dealt (*deal)(const ReaderOptions&, const Layout&, const Plan&, unsigned workers);
  Node* (*make)(const NodeSetup&, const Shared<HostLink>&, From&&, const SlotRanges&,
                Owned<RangeDealer>, const Flush&, const OnError&);
};

[[gnu::cold]] inline void check_reader(const ReaderOptions& options, const OrderedSource& of,
                                       const Plan& plan) {
  check_epochs(options, of.size);
  check_ranks(options, plan);
  check_order(options.order, of);
}

[[gnu::cold]] inline Dealt deal_slots(const ReaderOptions& options, const Layout& layout,
                                      const Plan& plan, unsigned workers) {
  if (options.ahead == 0 && options.flush == never) {
    return {};
  }
  check_flush(options);
  const std::size_t bound = options.ahead != 0 ? options.ahead : unknown_size;
  const std::uint64_t units =
      std::min(bound, unknown_size / layout.units_a_record) * layout.units_a_record;
  auto ahead = new_shared<Ahead<>>(units, layout.units_a_record, workers);
  const bool whole = options.flush == never && (layout.ragged() || plan.group != 1 ||
                                                (options.batch != 0 && !plan.to_device));
  Owned<RangeDealer> ranges{new DealtRanges{ahead, whole}};
  return {std::move(ranges), std::move(ahead), units, whole};
}

template <class From, class Where>
inline constexpr ReaderExtras<From, Where> reader_extras{
    &check_reader, &ordered_numbers, &deal_slots,
    [](const NodeSetup& setup, const Shared<HostLink>& out, From&& source, const SlotRanges& ranges,
       Owned<RangeDealer> dealt, const Flush& flush, const OnError& on_error) -> Node* {
      return new OrderedReaderNode<From, Where>{
          setup, out, std::move(source), ranges, std::move(dealt), flush, on_error};
    }};

} // namespace penstock::detail
