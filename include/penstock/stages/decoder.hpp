// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/each_worker.hpp>
#include <penstock/data/row.hpp>
#include <penstock/data/visit.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/chain/misspelt.hpp>
#include <penstock/detail/decoding/decoder_form.hpp>
#include <penstock/detail/decoding/decoder_node.hpp>
#include <penstock/detail/decoding/returned.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/outputs/output_node.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/source.hpp>
#include <penstock/stage.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock {

/// Options of a Decoder.
struct DecoderOptions {
  /// Threads that decode at once, each with its own copy of the callable; 0: half of the
  /// processors, at most 16.
  unsigned workers = 0;
  /// Slots in flight, at least 2; 0: as many as 48 MiB hold.
  std::size_t depth = 0;
  /// The `dynamic` extents of what it gives, in order; for records of single bytes, the bytes of a
  /// record.
  std::vector<std::size_t> extents = {};
  /// Bytes of each Ragged column's values that a slot holds; 0: 1 MiB.
  std::size_t value_bytes = 0;
  /// For a callable of batches that fills an Output: how many records it gets at a time, the same
  /// whatever sizes the slots have. They follow each other in the order, from a multiple of
  /// `group` in the epoch on; only an epoch's last are fewer, and skipped ones are missing.
  std::size_t group = 0;
  /// What it does when an item fails.
  OnError on_error = {};
};

/// Turns each record into another, of another type or size, or into any number of them, in order,
/// with several threads. Its types are its callable's parameters, written out: what it reads, and
/// what it fills.
///
/// A callable of single records is called for each: `void(const In& in, Out& out)`. A record of
/// columns is a Row: `void(Row<const In> in, Row<Out> out)`, and the two may be mixed. As a third
/// parameter it may take a Visit, which says which record that is. If it throws, that record alone
/// fails. It may also return what it makes, `Out(const In& in)`, if that has no columns, or leave
/// records out by `std::optional<Out>(const In& in)`. A callable of batches, `void(Batch<const In,
/// Pageable> in, Batch<Out, Pageable> out)`, is called for many records at once, which fail
/// together; `out` has in's size.
///
/// To give another number of records than it takes, a callable fills an Output: `void(const In& in,
/// Output<Out>& out)` gives as many of each as it adds; with `.group = n`, `void(Batch<const In,
/// Pageable> in, Output<Out>& out)` gives as many as it adds of n records together. How many come
/// out is then unknown, so that ranks are no longer in step behind it, and index() counts what
/// comes out.
///
/// Batches may lie in Pinned memory too, so that nothing decoded need be copied there; with a
/// callable of single records, ask for that by the tag: `Decoder{f, to_pinned}`. Each worker has
/// its own copy of the callable; each_worker() makes one for each, std::ref shares one. What it
/// throws ends the run, unless `.on_error` says otherwise.
template <class F, class Where = void> class Decoder : public StageBase {
  using P = detail::called_parameters<F>;
  static constexpr detail::DecoderForm form = detail::decoder_form_of<F, P, Where>();
  static constexpr bool single =
      form == detail::DecoderForm::records || form == detail::DecoderForm::outputs_of_records;
  static constexpr bool recounts = form == detail::DecoderForm::outputs_of_records ||
                                   form == detail::DecoderForm::outputs_of_batches;
  using Types = detail::decoder_types<P, Where, form>;

 public:
  /// Whether the callable was refused, so that `|` says no more of it.
  static constexpr bool refused = !detail::is_good(form);
  /// The batch that it takes.
  template <class Given> using takes = typename Types::template takes<Given>;
  /// The batch that it gives.
  template <class Given> using gives = typename Types::template gives<Given>;

  /// Copies `f`, once for each worker. Its parameters, written out, are the stage's types.
  template <class Takes = detail::called_parameters<F>,
            detail::DecoderForm Form = detail::decoder_form_of<F, Takes, Where>()>
  explicit Decoder(F f, DecoderOptions options = {})
      : f_{std::move(f)}, options_{std::move(options)} {
    using detail::DecoderForm;
    constexpr bool written_out = Form != DecoderForm::not_written_out;
    constexpr bool two_batches_or_records = Form != DecoderForm::other_parameters;
    constexpr bool columns_as_rows = Form != DecoderForm::columns_as_record;
    constexpr bool one_or_many = Form != DecoderForm::one_and_many;
    constexpr bool visits_records = Form != DecoderForm::visit_of_batch;
    constexpr bool takes_a_visit = Form != DecoderForm::other_visit;
    constexpr bool fills_the_output = Form != DecoderForm::output_copied;
    constexpr bool reads_first = Form != DecoderForm::writes_input;
    constexpr bool fills_second = Form != DecoderForm::reads_output;
    constexpr bool fills_bytes = Form != DecoderForm::not_bytes;
    constexpr bool copies = Form != DecoderForm::not_copyable;
    constexpr bool lets_errors_pass = Form != DecoderForm::never_throws;
    static_assert(written_out,
                  "penstock: a Decoder learns its types from its callable's parameters, so write "
                  "them out (no auto, no overloads): [](ps::Batch<const In, ps::Pageable> in, "
                  "ps::Batch<Out, ps::Pageable> out) {...}.");
    static_assert(
        two_batches_or_records,
        "penstock: a Decoder's callable takes two host batches, or two records, one to "
        "read and one to fill: [](ps::Batch<const In, ps::Pageable> in, ps::Batch<Out, "
        "ps::Pageable> out) {...}, or [](const In& in, Out& out) {...} (columns: ps::Row<const In> "
        "in, ps::Row<Out> out). Or it reads one record, const In&, and returns an Out.");
    static_assert(columns_as_rows,
                  "penstock: a record of columns lies in several places, so there is no reference "
                  "to it: take it as a row, ps::Row<const In> in, and fill ps::Row<Out> out.");
    static_assert(one_or_many,
                  "penstock: a Decoder makes one record of each: take two records, [](const In& "
                  "in, Out& out) {...}, or two batches, not one of each.");
    static_assert(visits_records,
                  "penstock: a Decoder's callable of batches has two parameters: in.index() and "
                  "in.source_index() are the numbers of its first record. A ps::Visit is for a "
                  "callable of single records.");
    static_assert(takes_a_visit,
                  "penstock: the third parameter of a Decoder's callable says which record it is "
                  "called for: take a ps::Visit, which has record, epoch and step.");
    static_assert(fills_the_output,
                  "penstock: a Decoder that gives another number of records fills the one Output "
                  "that it is handed: take it as ps::Output<Out>& out.");
    static_assert(reads_first, "penstock: a Decoder only reads what it takes first: make it "
                               "ps::Batch<const In, ...>, ps::Row<const In>, or const In&.");
    static_assert(fills_second, "penstock: a Decoder fills what it takes second: make it "
                                "ps::Batch<Out, ...>, ps::Row<Out>, or Out&, without const.");
    static_assert(fills_bytes,
                  "penstock: records are copied byte by byte, so what a Decoder fills must be "
                  "trivially copyable: no std::string or std::vector in it, but arrays, or a "
                  "column of ps::Ragged.");
    static_assert(copies,
                  "penstock: each worker has its own copy of a Decoder's callable, and this "
                  "one cannot be copied: ps::each_worker([] { return F{...}; }) makes one for "
                  "each; std::ref(f) shares one, which several threads then call.");
    static_assert(lets_errors_pass,
                  "penstock: an Output, and a Ragged column, may throw what ends a run or fills a "
                  "slot anew, and out of a noexcept callable that ends the process: take the "
                  "noexcept away.");
  }
  /// Takes an `f` that fills pinned memory.
  Decoder(F f, to_pinned_t, DecoderOptions options = {})
      : Decoder{std::move(f), std::move(options)} {
    constexpr bool fills_pinned = form != detail::DecoderForm::other_space;
    static_assert(fills_pinned, "penstock: this Decoder is to give pinned memory, and its callable "
                                "fills a batch in pageable: make that ps::Batch<Out, ps::Pinned>.");
  }

  /// For prepare().
  template <class Given> void plan(detail::Plan& plan) const {
    using To = typename detail::batch_of<gives<Given>>::schema;
    if (!detail::HasColumns<To> && !options_.extents.empty() &&
        (sizeof(To) != 1 || options_.extents.size() != 1 || options_.extents[0] == 0)) {
      throw OptionError{
          "penstock: Decoder: extents are given, but what it gives has none: they are "
          "for columns with ps::dynamic, and one, not 0, for records of bytes."};
    }
    plan.works(workers(plan));
    plan.decodes = true;
    const std::size_t bytes = detail::fixed_bytes<To>(options_.extents, "Decoder");
    if constexpr (recounts) {
      detail::plan_outputs(plan, bytes, options_.group, single);
    } else if (options_.group != 0) {
      throw OptionError{"penstock: Decoder: group is for a callable of batches that fills a "
                        "ps::Output: leave it out."};
    } else {
      plan.gives<To>(bytes);
    }
  }
  /// For prepare().
  template <class Given, class D> [[gnu::cold]] void build(detail::Build<D>& build) const {
    using From = detail::batch_of<takes<Given>>;
    using To = detail::batch_of<gives<Given>>;
    detail::checked_depth("Decoder", options_.depth);
    if (P::count == 3 && build.facts.outputs) {
      throw OptionError{
          "penstock: Decoder: its callable takes a ps::Visit, and the records here are "
          "made by a Decoder that gives another number: none is one of the source's. "
          "Take the Visit there."};
    }
    if constexpr (recounts) {
      detail::build_outputs<single, F, From, To>(build, f_, options_, workers(build.facts.plan));
    } else {
      build_same<From, To>(build);
    }
  }

 private:
  // One record of each.
  template <class From, class To, class D> [[gnu::cold]] void
  build_same(detail::Build<D>& build) const {
    build.facts.skip(options_.on_error.skips != 0);
    const auto in = build.host_input();
    const detail::Layout layout = detail::layout_of<typename To::schema>(
        in->layout().units, options_.extents, detail::usual_values(options_.value_bytes),
        "Decoder");
    const std::size_t slots = detail::host_slots("Decoder", options_.depth, layout,
                                                 build.facts.slots_of_a_run, build.facts.plan);
    const auto out =
        build.template host_output<typename To::space>("Decoder", slots, layout, Side::many);
    const detail::NodeSetup setup =
        build.setup("Decoder", workers(build.facts.plan), StageKind::decoder);
    if constexpr (detail::schema_traits<typename To::schema>::ragged) {
      detail::build_ragged<single, F, From, To>(build, f_, options_, setup, in, out);
    } else {
      // A batch with a Ragged column is one from its first record on.
      const bool whole = !single && (build.facts.fixed_slots ||
                                     detail::schema_traits<typename From::schema>::ragged);
      build.template add<detail::DecoderNode<single, F, From, To>>(setup, in, out, f_, whole,
                                                                   options_.on_error);
    }
  }
  unsigned workers(const detail::Plan& plan) const {
    return detail::checked_workers("Decoder", options_.workers,
                                   detail::processors(plan, detail::decoder_share<F>));
  }

  F f_;
  DecoderOptions options_;
};
/// Refuses options that fit no list.
template <class F> class Decoder<F, detail::Misspelt> : public detail::RefusedStage {
  static constexpr bool options_fit = !sizeof(F);
  static_assert(options_fit, "penstock: these are no DecoderOptions. By name, in this order: "
                             ".workers, .depth, .extents, .value_bytes, .group, .on_error.");

 public:
  /// Takes any arguments.
  Decoder(...) {}
};
/// Deduce, without the tag, a Decoder whose callable says where its output lies.
/// @{
template <class F> Decoder(F&&) -> Decoder<detail::filling_t<F>, void>;
template <class F> Decoder(F&&, DecoderOptions) -> Decoder<detail::filling_t<F>, void>;
/// @}
/// Deduce, with the tag, a Decoder that fills pinned memory.
/// @{
template <class F> Decoder(F&&, to_pinned_t) -> Decoder<detail::filling_t<F>, Pinned>;
template <class F> Decoder(F&&, to_pinned_t, DecoderOptions)
    -> Decoder<detail::filling_t<F>, Pinned>;
/// @}
/// Deduce the refusal.
/// @{
template <detail::Object F> Decoder(const volatile F&&, ...) -> Decoder<F, detail::Misspelt>;
template <detail::Object F> Decoder(const volatile F&, ...) -> Decoder<F, detail::Misspelt>;
Decoder(bool, ...) -> Decoder<bool, detail::Misspelt>; // a function's name
/// @}

} // namespace penstock
