// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/plan.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/links/layout.hpp>
#include <penstock/detail/outputs/output_node.hpp>
#include <penstock/detail/turns/ramp.hpp>
#include <penstock/error.hpp>
#include <penstock/ring/ring_types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Says what a Decoder of another number of records needs, for prepare(). `single`: its callable
/// gets one record after the other.
[[gnu::cold]] inline void plan_outputs(Plan& plan, std::size_t record_bytes, std::size_t group,
                                       bool single) {
  if (single != (group == 0)) {
    throw OptionError{single ? "penstock: Decoder: group is how many records a callable of batches "
                               "gets, and this one is called for each record: leave it out."
                             : "penstock: Decoder: a callable of batches that fills an Output is "
                               "called for groups of records: say of how many by .group."};
  }
  constexpr std::size_t most_group = std::size_t{1} << 32;
  if (group > most_group) {
    throw_error<OptionError>({"penstock: Decoder: group is ", group,
                              ", and no slot holds so many records: make it smaller."});
  }
  if (!single && (plan.to_device || plan.recounts != 0)) {
    throw OptionError{
        "penstock: Decoder: a group is of records as the Reader's order has them, and "
        "here they come from a device, or from a Decoder that gives another number: "
        "combine them before that, or take single records."};
  }
  ++plan.recounts;
  plan.batched = false;
  plan.group = single ? plan.group : group;
  plan.largest = plan.to_device ? plan.largest : std::max(plan.largest, record_bytes);
}

/// Returns how many records a slot has that a Decoder of another number fills.
template <class Schema, class D>
[[gnu::cold]] std::size_t output_records(const Build<D>& build, std::size_t record_bytes,
                                         std::size_t given) {
  if (build.fixed_slots || build.ahead || build.flush) {
    return given;
  }
  Plan plan = build.plan;
  plan.ragged = schema_traits<Schema>::ragged;
  plan.batch = plan.recounted;
  return records_a_slot(0, record_bytes, unknown_size, plan);
}

/// Says what follows from a Decoder that gives any number of records of each `group`.
template <class D> [[gnu::cold]] void count_outputs(Build<D>& build, std::uint64_t group) {
  build.needs.leave_out();
  build.needs.recount(group, 1);
  build.one_for_one = build.one_for_one && !build.outputs; // of two, nobody knows where to go on
  build.units = build.records = build.slots_of_a_run = unknown_size;
  build.slots_read = 0;
  build.count_outputs();
}

/// Builds a Decoder of another number of records.
template <bool Single, class F, class From, class To, class D, class Options>
[[gnu::cold]] void build_outputs(Build<D>& build, const F& f, const Options& options,
                                 unsigned workers) {
  using S = typename To::schema;
  constexpr std::size_t usual_chunk = std::size_t{64} << 10;
  const auto in = build.host_input();
  const std::size_t group = std::max<std::size_t>(options.group, 1);
  if (in->layout().units % group != 0) {
    throw_error<OptionError>({"penstock: Decoder: group is ", group,
                              ", and a slot of the Reader "
                              "has ",
                              in->layout().units,
                              " records by .batch: make .batch a "
                              "multiple of the group."});
  }
  if (group != 1 && build.flush) {
    throw OptionError{"penstock: Decoder: .flush hands on what has come when its time is up, and a "
                      "group waits for its last record: leave out one of them."};
  }
  const bool sized = build.fixed_slots || (schema_traits<S>::ragged && build.plan.recounted != 0);
  if (build.drop_last && !build.plan.fills_up && !sized) {
    throw OptionError{"penstock: Reader: drop_last leaves out short batches, and here a batch is a "
                      "slot, which has no size of yours: give the Reader a .batch."};
  }
  if (build.drop_last && !build.plan.fills_up && build.ahead) {
    throw OptionError{
        "penstock: Reader: drop_last leaves out an epoch's short batch, and behind a Decoder of "
        "another number of records .ahead makes some at any time: choose one of them."};
  }
  const std::size_t bytes = fixed_bytes<S>(options.extents, "Decoder");
  const std::size_t values = usual_values(options.value_bytes);
  const Layout layout = layout_of<S>(output_records<S>(build, bytes, in->layout().units),
                                     options.extents, values, "Decoder");
  const Layout chunk = layout_of<S>(
      std::clamp<std::size_t>(usual_chunk / std::max<std::size_t>(bytes, 1), 1, layout.units),
      options.extents, checked_bytes(2, values, "Decoder"), "Decoder");
  count_outputs(build, group);
  const std::size_t slots =
      host_slots("Decoder", options.depth, layout, build.slots_of_a_run, build.plan);
  const auto out =
      build.template host_output<typename To::space>("Decoder", slots, layout, Side::many);
  Plan plan = build.plan;
  plan.ragged = layout.ragged();
  plan.batch = plan.recounted;
  const bool as_asked = build.fixed_slots || build.ahead || build.flush;
  const OutputForm form{.group = group,
                        .size = as_asked ? Ramp{layout.units} : ramp_of(0, layout, plan),
                        .cuts = build.ahead || build.flush,
                        .drop_last = build.drop_last && !build.plan.fills_up &&
                                     build.recounts == build.plan.recounts,
                        .has_positions = build.one_for_one};
  if (form.drop_last) {
    build.whole_batches.leave_out_short(layout.units, false);
  }
  build.template add<OutputNode<Single, F, From, To>>(
      build.setup("Decoder", workers, StageKind::decoder), in, out, f, form, chunk,
      options.on_error);
}

} // namespace penstock::detail
