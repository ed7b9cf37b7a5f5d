// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
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
#include <penstock/detail/reading/slot_source.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/detail/turns/flush.hpp>
#include <penstock/order/detail/ordered_numbers.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/sources/source.hpp>
#include <penstock/stage.hpp>
#include <penstock/stages/reader_options.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Returns what the threads that read records of so many bytes take of the processors.
[[gnu::cold]] ProcessorShare reading_share(const ReaderOptions& options, std::size_t record_bytes,
                                           bool to_pinned, const Plan& plan);

/// How the records of a Reader lie in its slots.
struct ReadSlots {
  bool in_pieces; // a record takes several slots
  Layout layout;
  Ramp ramp; // of the first epoch
};

/// Returns how many records a slot has: several slots for all that the Reader may be ahead, so that
/// the stages have work side by side. As many on all ranks, also where some read one more.
[[gnu::cold]] std::size_t read_together(const ReaderOptions& options, std::size_t record_bytes,
                                        const RunOrder& order, const Plan& plan);
[[gnu::cold]] ReadSlots slots_to_read(const ReaderOptions& options, const SlotSource& source,
                                      std::span<const std::size_t> extents, const RunOrder& order,
                                      const Plan& plan);

/// What deals out the slots of a Reader with `.ahead` or `.flush`.
struct Dealt {
  Owned<RangeDealer> ranges{}; // null: the number of a slot says what it holds
  Shared<Ahead<>> ahead{};
  std::uint64_t units{}; // that may be read and not used up
  bool whole{};          // a slot that is not an epoch's last is full
};

[[gnu::cold]] Dealt deal_slots(const ReaderOptions& options, const Layout& layout, const Plan& plan,
                               unsigned workers);
/// Says what is known of slots that are dealt out.
[[gnu::cold]] void say_dealt(const ReaderOptions& options, const Dealt& dealt,
                             const SlotRanges& ranges, const Layout& layout, Facts& facts);

/// What ReaderOptions may ask for, as functions that only a Reader with options refers to: a
/// program without such a Reader does not compile them.
struct ReaderExtras {
  /// Throws OptionError for options that cannot work.
  void (*check)(const ReaderOptions&, const SlotSource&, const Plan&);
  RunOrder::Numbers* numbers;
  Dealt (*deal)(const ReaderOptions&, const Layout&, const Plan&, unsigned workers);
  Node* (*make)(const NodeSetup&, const Shared<HostLink>&, Owned<SlotSource>, const SlotRanges&,
                Owned<RangeDealer>, const Flush&, const OnError&);
};

[[gnu::cold]] void check_reader(const ReaderOptions& options, const SlotSource& source,
                                const Plan& plan);

inline constexpr ReaderExtras reader_extras{
    &check_reader, &ordered_numbers, &deal_slots,
    [](const NodeSetup& setup, const Shared<HostLink>& out, Owned<SlotSource> source,
       const SlotRanges& ranges, Owned<RangeDealer> dealt, const Flush& flush,
       const OnError& on_error) -> Node* {
      return new OrderedReaderNode{setup, out,     std::move(source), ranges, std::move(dealt),
                                   flush, on_error};
    }};

/// Makes the node of a source that knows lengths: only what has one compiles it.
using MakeShared = Node*(const NodeSetup&, const Shared<HostLink>&, Owned<SlotSource>,
                         const SlotRanges&, const OnError&);
[[gnu::cold]] Node* make_shared_reader(const NodeSetup& setup, const Shared<HostLink>& out,
                                       Owned<SlotSource> source, const SlotRanges& ranges,
                                       const OnError& on_error);

/// What a Reader is made of, decided before there is a ring or a thread.
struct Reading {
  unsigned workers;
  Layout layout; // of a slot
  SlotRanges ranges;
  Dealt dealt;
};

/// Decides what a Reader of an opened source is made of, and says in `facts`, which have the plan
/// of the chain, what flows from it. Throws OptionError for options that cannot work. `extras`:
/// null if nothing asks for any.
[[gnu::cold]] Reading plan_reading(const ReaderOptions& options, const ReaderExtras* extras,
                                   bool to_pinned, const SlotSource& source, Facts& facts);

/// Makes the ring of a Reader, in Where, and the node that fills it from an opened source.
/// `extras`: see plan_reading(). `make_shared`: null unless the source knows lengths.
template <class Where, class D>
[[gnu::cold]] void build_reader(const ReaderOptions& options, const ReaderExtras* extras,
                                MakeShared* make_shared, Owned<SlotSource> source,
                                Build<D>& build) {
  if (source->waits()) {
    build.control.interrupt().connect();
  }
  build.control.name_by({source.get(), [](const void* from, std::uint64_t record) {
                           return static_cast<const SlotSource*>(from)->name(record);
                         }});
  const Abilities can = source->abilities();
  Facts& facts = build.facts;
  Reading reading = plan_reading(options, extras, std::is_same_v<Where, Pinned>, *source, facts);
  const SlotRanges& ranges = reading.ranges;
  const unsigned workers = reading.workers;
  const bool knows = make_shared && can.lengths && !can.for_now && ranges.known();
  const bool shares = knows && !reading.dealt.ranges && workers > 1 &&
                      options.on_error.skips == 0 && facts.order->plain();
  const auto out = build.template host_output<Where>(
      "Reader",
      host_slots("Reader", options.depth, reading.layout, facts.slots_of_a_run, facts.plan, shares),
      reading.layout, workers == 1 ? Side::one : Side::many);
  const NodeSetup setup = build.setup("Reader", workers, StageKind::reader);
  if (shares) {
    build.add(make_shared(setup, out, std::move(source), ranges, options.on_error));
  } else if (extras) {
    build.add(extras->make(setup, out, std::move(source), ranges, std::move(reading.dealt.ranges),
                           facts.flush, options.on_error));
  } else {
    build.template add<ReaderNode>(setup, out, std::move(source), ranges,
                                   std::move(reading.dealt.ranges), facts.flush, options.on_error);
  }
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE ProcessorShare reading_share(const ReaderOptions& options, std::size_t record_bytes,
                                             bool to_pinned, const Plan& plan) {
  // Small records at random places take most of the processors to read.
  constexpr std::size_t small = 8192;
  if (options.order.shuffle && record_bytes < small) {
    return {7, 24};
  }
  // A link takes all that slow processors can read, but not those of the two threads that drive the
  // device. bench/host_bench.cu has the rates by the number of readers.
  const bool feeds_link = to_pinned && plan.to_device && !plan.decodes;
  return feeds_link ? ProcessorShare{8, 14, 2} : ProcessorShare{4, 12};
}

PENSTOCK_INLINE std::size_t read_together(const ReaderOptions& options, std::size_t record_bytes,
                                          const RunOrder& order, const Plan& plan) {
  const std::size_t usual = records_a_slot(options.batch, record_bytes, order.most_of_run(), plan);
  const bool fixed = options.ahead == 0 || options.batch != 0 || plan.ragged;
  const std::size_t some = fixed ? usual : std::clamp<std::size_t>(options.ahead / 8, 1, usual);
  const std::size_t group = options.batch != 0 ? 1 : plan.group;
  return (some + group - 1) / group * group;
}

PENSTOCK_INLINE ReadSlots slots_to_read(const ReaderOptions& options, const SlotSource& source,
                                        std::span<const std::size_t> extents, const RunOrder& order,
                                        const Plan& plan) {
  const std::size_t bytes = source.fixed_bytes(extents);
  const std::uint64_t records = order.records_of_run();
  // Large ones, which nothing on the host must see whole.
  const bool may_go_in_pieces = bytes > usual_read && plan.to_device && !plan.whole &&
                                options.batch == 0 && options.on_error.skips == 0;
  if (may_go_in_pieces && source.abilities().read_bytes && records != unknown_size &&
      records < unknown_size / bytes) {
    const Layout layout = Layout{1, bytes}.pieces(usual_read);
    return {true, layout, Ramp{layout.units}};
  }
  const bool fixed = options.batch != 0 || plan.group != 1 || (plan.ragged && plan.batch != 0);
  // Where ranks have equally many, one rank may read a record twice.
  const std::uint64_t times = order.one_rank() ? 1 : 2;
  const RaggedRoom room = ragged_room(source, read_together(options, bytes, order, plan), fixed,
                                      options.value_bytes, times);
  const Layout layout = source.layout(room.records, extents, room.value_bytes);
  // Batches of all ranks are equally large.
  const bool grows = order.one_rank() && plan.group == 1;
  return {false, layout, grows ? ramp_of(options.batch, layout, plan) : Ramp{layout.units}};
}

PENSTOCK_INLINE Dealt deal_slots(const ReaderOptions& options, const Layout& layout,
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

PENSTOCK_INLINE void say_dealt(const ReaderOptions& options, const Dealt& dealt,
                               const SlotRanges& ranges, const Layout& layout, Facts& facts) {
  if (!dealt.ranges) {
    return;
  }
  facts.ahead = options.ahead != 0 ? dealt.ahead : nullptr;
  facts.flush = {options.flush, facts.ahead.get()};
  if (dealt.whole) {
    facts.needs.whole(layout.units);
  }
  facts.slots_of_a_run = std::min(facts.slots_of_a_run, dealt.units);
  // Nobody knows how many slots, and with flush batches, there will be.
  facts.slots_read = dealt.whole ? ranges.slots() : unknown_size;
  facts.units = facts.flush ? unknown_size : facts.units;
}

PENSTOCK_INLINE void check_reader(const ReaderOptions& options, const SlotSource& source,
                                  const Plan& plan) {
  check_epochs(options, source.size());
  check_ranks(options, plan);
  check_order(options.order, source);
}

PENSTOCK_INLINE Node* make_shared_reader(const NodeSetup& setup, const Shared<HostLink>& out,
                                         Owned<SlotSource> source, const SlotRanges& ranges,
                                         const OnError& on_error) {
  return new SharedReaderNode{setup, out, std::move(source), ranges, on_error};
}

PENSTOCK_INLINE Reading plan_reading(const ReaderOptions& options, const ReaderExtras* extras,
                                     bool to_pinned, const SlotSource& source, Facts& facts) {
  const Plan& plan = facts.plan;
  if (plan.batch == 0) {
    facts.plan.batch = source.together();
  }
  check_skips(options.on_error, source);
  facts.epochs = options.epochs;
  const bool drops_slots = options.drop_last && !plan.fills_up && plan.recounts == 0;
  facts.drop_last = options.drop_last;
  facts.skip(drops_slots || options.on_error.skips != 0);
  const std::vector<std::size_t> extents = source.extents();
  const std::size_t bytes = source.fixed_bytes(extents);
  const unsigned usual = processors(plan, reading_share(options, bytes, to_pinned, plan));
  const unsigned most = checked_workers("Reader", options.workers, std::max(usual, 2U));
  // A slot that is cut moves those after it, and is to be the only one that is read.
  const bool cuts = source.abilities().for_now && options.flush != never;
  const unsigned workers = cuts || source.in_order() ? 1 : most;
  if (extras) {
    extras->check(options, source, plan);
  }
  facts.order =
      make_order(options.order, source, extents, facts.epochs, extras ? extras->numbers : nullptr);
  facts.records = facts.order->records_of_run();
  if (facts.records != unknown_size && plan.recounts == 0) {
    check_left(options, facts.order->turns(), drops_slots ? options.batch : plan.batch);
  }
  const ReadSlots slots = slots_to_read(options, source, extents, *facts.order, plan);
  const Layout& layout = slots.layout;
  facts.units = slots.in_pieces ? facts.records * bytes : facts.records;
  facts.slots_of_a_run =
      places_of_a_run(facts.units, layout.units, facts.epochs) + slots.ramp.slots();
  facts.fixed_slots = options.batch != 0;
  SlotRanges ranges{layout.units, slots.ramp, drops_slots};
  ranges.begin(*facts.order, layout.units_a_record);
  facts.slots_read = ranges.slots();
  Dealt dealt = extras ? extras->deal(options, layout, plan, workers) : Dealt{};
  say_dealt(options, dealt, ranges, layout, facts);
  if (drops_slots) {
    check_slots(options, plan);
    facts.drop_short(layout.units);
    facts.whole_batches.leave_out_short(layout.units, false);
    facts.slots_read = ranges.known() ? facts.units / layout.units : 0;
  }
  return {workers, layout, ranges, std::move(dealt)};
}
#endif

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
      extras_ = &detail::reader_extras;
    }
  }
  Reader(From source, ReaderOptions options)
      : source_{std::move(source)}, options_{options}, extras_{&detail::reader_extras} {}
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
    detail::Owned<detail::SlotSource> source{new detail::SlotSourceOf<From, Where>{
        detail::opened(source_, build.preparing, options_.on_error.retries)}};
    detail::MakeShared* make_shared = nullptr;
    if constexpr (detail::KnowsLengths<From>) {
      make_shared = &detail::make_shared_reader;
    }
    detail::build_reader<Where>(options_, extras_, make_shared, std::move(source), build);
  }

 private:
  From source_;
  ReaderOptions options_;
  const detail::ReaderExtras* extras_{}; // null if nothing asks for any
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
