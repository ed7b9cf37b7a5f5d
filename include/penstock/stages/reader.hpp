// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/chain/misspelt.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/engine/run_control.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/links/layout.hpp>
#include <penstock/detail/reading/opened.hpp>
#include <penstock/detail/reading/ordered_reader_node.hpp>
#include <penstock/detail/reading/ranges.hpp>
#include <penstock/detail/reading/reader_node.hpp>
#include <penstock/detail/reading/shared_reader_node.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/detail/turns/flush.hpp>
#include <penstock/order/detail/ordered_numbers.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/source.hpp>
#include <penstock/stage.hpp>
#include <penstock/stages/reader_options.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
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

namespace penstock {

/// Reads a source with several threads, in order, into pageable memory, or with `to_pinned`
/// straight into pinned memory, from where an AsyncCopier fetches it. The first stage of a
/// pipeline.
template <class From, class Where = Pageable> class Reader : public StageBase {
  using T = typename detail::schema_of<From>::type;
  static constexpr detail::SourceFlaw flaw = detail::source_flaw<From>();
  static constexpr bool is_a_source = flaw != detail::SourceFlaw::other;
  static constexpr bool reads_const = flaw != detail::SourceFlaw::read_not_const;
  static constexpr bool reads_both = flaw != detail::SourceFlaw::one_space;
  static constexpr bool reads_bytes = detail::copies_as_bytes<T>;
  static_assert(is_a_source,
                "penstock: a Reader reads a source, such as ps::records<T>(path); From "
                "is not one: it is copyable and has a schema, size() const, and read(batch) const, "
                "or read(batch, const ps::Patience&) const, for ps::Pageable and ps::Pinned.");
  static_assert(reads_const, "penstock: many threads call a source's read() at once, and From's is "
                             "not const: make it const.");
  static_assert(reads_both, "penstock: a source's read() takes batches in ps::Pageable and in "
                            "ps::Pinned, and From's those in one space: make it template "
                            "<ps::HostSpace W> std::size_t read(ps::Batch<schema, W> into) const.");
  static_assert(reads_bytes,
                "penstock: records are copied byte by byte, so what a Reader reads must "
                "be trivially copyable: no std::string or std::vector in it, but arrays, "
                "or a column of ps::Ragged.");

 public:
  /// Whether From is no source, so that `|` says no more of it.
  static constexpr bool refused =
      flaw != detail::SourceFlaw::none || !reads_bytes || detail::refused_source<From>;
  /// Nothing: a Reader is the first stage.
  template <class> using takes = void;
  /// The batch it gives.
  template <class> using gives = Batch<T, Where>;

  /// Copies `source`; prepare() opens a copy of it.
  /// @{
  explicit Reader(From source) : source_{std::move(source)} {
    if constexpr (detail::SaysOrder<From>) { // it has records in an order of its own
      extras_ = &detail::reader_extras<From, Where>;
    }
  }
  Reader(From source, ReaderOptions options)
      : source_{std::move(source)}, options_{options},
        extras_{&detail::reader_extras<From, Where>} {}
  /// @}
  /// Reads straight into pinned memory.
  /// @{
  Reader(From source, to_pinned_t) : Reader{std::move(source)} {}
  Reader(From source, to_pinned_t, ReaderOptions options) : Reader{std::move(source), options} {}
  /// @}

  /// For prepare().
  template <class Given> void plan(detail::Plan& plan) const {
    plan.gives<T>(0);
    plan.local_world = std::max(options_.order.ranks.local_world, 1U);
  }
  /// For prepare(): opens the source, makes the ring.
  template <class Given, class D> [[gnu::cold]] void build(detail::Build<D>& build) const {
    detail::checked_depth("Reader", options_.depth);
    From source = detail::opened(source_, build.preparing, options_.on_error.retries);
    const detail::Abilities can = detail::abilities_of(source);
    // A slot that is cut moves those after it, and is to be the only one that is read.
    const bool cuts = can.for_now && options_.flush != never;
    if constexpr (detail::TakesPatience<const From, Where>) {
      build.control.interrupt().connect();
    }
    if (options_.on_error.skips != 0 && detail::comes_in_order(source)) {
      throw OptionError{"penstock: Reader: the records of this source come in order only, so skips "
                        "cannot say which it left out: let a Decoder leave out bad ones."};
    }
    build.epochs = options_.epochs;
    const bool drops_slots = options_.drop_last && !build.plan.fills_up && build.plan.recounts == 0;
    build.drop_last = options_.drop_last;
    build.skip(drops_slots || options_.on_error.skips != 0);
    const std::vector<std::size_t> extents = detail::extents_of(source);
    const std::size_t bytes = detail::fixed_bytes<T>(extents, "Reader");
    const unsigned most = this->most(bytes, build.plan);
    const unsigned workers = cuts || detail::comes_in_order(source) ? 1 : most;
    const detail::OrderedSource of = detail::ordered_source(source, bytes, extents);
    if (extras_) {
      extras_->check(options_, of, build.plan);
    }
    build.order =
        detail::make_order(options_.order, of, build.epochs, extras_ ? extras_->numbers : nullptr);
    build.records = build.order->records_of_run();
    if (build.records != unknown_size && build.plan.recounts == 0) {
      detail::check_left(options_, build.order->turns(),
                         drops_slots ? options_.batch : build.plan.batch);
    }
    const bool pieces = can.read_bytes && in_pieces(bytes, build.plan) &&
                        build.records != unknown_size && build.records < unknown_size / bytes;
    const bool fixed = options_.batch != 0 || build.plan.group != 1 ||
                       (build.plan.ragged && build.plan.batch != 0);
    // Where ranks have equally many, one rank may read a record twice.
    const detail::RaggedRoom room =
        detail::ragged_room(source, records_a_slot(bytes, build), fixed, options_.value_bytes,
                            build.order->one_rank() ? 1 : 2);
    const detail::Layout layout =
        pieces ? detail::Layout{1, bytes}.pieces(detail::usual_read)
               : detail::layout_of<T>(room.records, extents, room.value_bytes, "Reader");
    // Batches of all ranks are equally large.
    const detail::Ramp ramp = build.order->one_rank() && build.plan.group == 1
                                  ? detail::ramp_of(options_.batch, layout, build.plan)
                                  : detail::Ramp{layout.units};
    build.units = pieces ? build.records * bytes : build.records;
    build.slots_of_a_run =
        detail::places_of_a_run(build.units, layout.units, build.epochs) + ramp.slots();
    build.fixed_slots = options_.batch != 0;
    detail::SlotRanges ranges{layout.units, ramp, drops_slots};
    ranges.begin(*build.order, layout.units_a_record);
    build.slots_read = ranges.slots();
    detail::Owned<detail::RangeDealer> dealt = deal(ranges, layout, workers, build);
    const std::size_t slots =
        detail::host_slots("Reader", options_.depth, layout, build.slots_of_a_run, build.plan);
    const auto out = build.template host_output<Where>("Reader", slots, layout,
                                                       workers == 1 ? Side::one : Side::many);
    const detail::NodeSetup setup = build.setup("Reader", workers, StageKind::reader);
    if (drops_slots) {
      detail::check_slots(options_, build.plan);
      build.drop_short(layout.units);
      build.whole_batches.leave_out_short(layout.units, false);
      build.slots_read = ranges.known() ? build.units / layout.units : 0;
    }
    if constexpr (detail::KnowsLengths<From>) {
      const bool shared = can.lengths && !can.for_now && !dealt && ranges.known();
      if (shared && workers > 1 && options_.on_error.skips == 0 && build.order->plain()) {
        build.template add<detail::SharedReaderNode<From, Where>>(setup, out, std::move(source),
                                                                  ranges, options_.on_error);
        return;
      }
    }
    if (extras_) {
      build.add(extras_->make(setup, out, std::move(source), ranges, std::move(dealt), build.flush,
                              options_.on_error));
      return;
    }
    build.template add<detail::ReaderNode<From, Where>>(
        setup, out, std::move(source), ranges, std::move(dealt), build.flush, options_.on_error);
  }

 private:
  // Returns what deals slots out where these are not all as `ranges` says; null if they are.
  template <class D>
  [[gnu::cold]] detail::Owned<detail::RangeDealer>
  deal(const detail::SlotRanges& ranges, const detail::Layout& layout, unsigned workers,
       detail::Build<D>& build) const {
    detail::Dealt dealt =
        extras_ ? extras_->deal(options_, layout, build.plan, workers) : detail::Dealt{};
    if (dealt.ranges) {
      build.ahead = options_.ahead != 0 ? dealt.ahead : nullptr;
      build.flush = {options_.flush, build.ahead.get()};
      if (dealt.whole) {
        build.needs.whole(layout.units);
      }
      build.slots_of_a_run = std::min(build.slots_of_a_run, dealt.units);
      // Nobody knows how many slots, and with flush batches, there will be.
      build.slots_read = dealt.whole ? ranges.slots() : unknown_size;
      build.units = build.flush ? unknown_size : build.units;
    }
    return std::move(dealt.ranges);
  }
  // Small records at random places take most of the processors to read.
  unsigned most(std::size_t record_bytes, const detail::Plan& plan) const {
    constexpr std::size_t small = 8192;
    const bool many = options_.order.shuffle && record_bytes < small;
    // A small part of the processors must still read as fast as a link copies.
    constexpr detail::ProcessorShare pinned{5, 12, 6};
    constexpr detail::ProcessorShare pageable{4, 12};
    const detail::ProcessorShare share = many ? detail::ProcessorShare{7, 24}
                                         : std::is_same_v<Where, Pinned> ? pinned
                                                                         : pageable;
    return detail::checked_workers("Reader", options_.workers,
                                   std::max(detail::processors(plan, share), 2U));
  }
  // Several slots for all that the Reader may be ahead, so that the stages have work side by side.
  // As many records on all ranks, also where some read one more than others.
  template <class D>
  [[gnu::cold]] std::size_t records_a_slot(std::size_t record_bytes,
                                           const detail::Build<D>& build) const {
    const std::size_t usual = detail::records_a_slot(options_.batch, record_bytes,
                                                     build.order->most_of_run(), build.plan);
    const bool fixed = options_.ahead == 0 || options_.batch != 0 || build.plan.ragged;
    const std::size_t some = fixed ? usual : std::clamp<std::size_t>(options_.ahead / 8, 1, usual);
    const std::size_t group = options_.batch != 0 ? 1 : build.plan.group;
    return (some + group - 1) / group * group;
  }
  // Whether records go in pieces: large ones, which nothing on the host must see whole.
  bool in_pieces(std::size_t record_bytes, const detail::Plan& plan) const {
    return record_bytes > detail::usual_read && plan.to_device && !plan.whole &&
           options_.batch == 0 && options_.on_error.skips == 0;
  }

  From source_;
  ReaderOptions options_;
  const detail::ReaderExtras<From, Where>* extras_{}; // null if nothing asks for any
};
/// Refuses options that fit no list.
template <class From> class Reader<From, detail::Misspelt> : public detail::RefusedStage {
  static constexpr bool options_fit = !sizeof(From);
  static_assert(options_fit, "penstock: these are no ReaderOptions. By name, in this order: "
                             ".workers, .depth, .epochs, .order, .batch, .drop_last, .ahead, "
                             ".flush, .value_bytes, .on_error.");

 public:
  /// Takes any arguments.
  Reader(const From&, ...) {}
};
/// Deduce, without the tag, a Reader into pageable memory.
/// @{
template <class S> Reader(S&&) -> Reader<std::decay_t<S>, Pageable>;
template <class S> Reader(S&&, ReaderOptions) -> Reader<std::decay_t<S>, Pageable>;
/// @}
/// Deduce, with the tag, a Reader into pinned memory.
/// @{
template <class S> Reader(S&&, to_pinned_t) -> Reader<std::decay_t<S>, Pinned>;
template <class S> Reader(S&&, to_pinned_t, ReaderOptions) -> Reader<std::decay_t<S>, Pinned>;
/// @}
/// Deduce the refusal.
/// @{
template <detail::Object S> Reader(const volatile S&&, ...) -> Reader<S, detail::Misspelt>;
template <detail::Object S> Reader(const volatile S&, ...) -> Reader<S, detail::Misspelt>;
/// @}

} // namespace penstock
