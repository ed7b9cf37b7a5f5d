// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/data/output.hpp>
#include <penstock/data/row.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/decoding/decoder_form.hpp>
#include <penstock/detail/decoding/decoder_node.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/links/layout.hpp>
#include <penstock/detail/outputs/output_buffer.hpp>
#include <penstock/detail/outputs/output_run.hpp>
#include <penstock/detail/outputs/output_worker.hpp>
#include <penstock/detail/turns/parts.hpp>
#include <penstock/detail/turns/ramp.hpp>
#include <penstock/detail/workers/part_by_part.hpp>
#include <penstock/error.hpp>
#include <penstock/ring/ring_types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace penstock::detail {

/// The groups of a slot's units: those of `each` turns that follow each other from a multiple of
/// `each` on. Units that were left out are missing in their group, and move no other.
class TurnGroups {
 public:
  TurnGroups(const HostSlot& slot, std::uint64_t each) noexcept;

  std::size_t count() const noexcept { return count_; }
  /// Returns the first unit of a group; of group count(), the slot's units.
  std::size_t begin(std::size_t group) const noexcept;
  /// Returns the turn with which a group begins.
  std::uint64_t turn(std::size_t group) const noexcept;

 private:
  const HostSlot& slot_;
  const std::uint64_t each_;
  std::uint64_t first_{}; // of all the source's groups
  std::size_t count_{};
  bool none_missing_{};
};

/// Turns what its callable is given into outputs, in order, which lie in a buffer until it is known
/// where they go: into any number, or, with Ragged columns, also each record into one. All workers
/// share the groups of a slot. `Single`: a group is a record, and the callable is called with that;
/// a callable that makes a batch of a batch gets the slot.
template <bool Single, class F, class From, class To>
class OutputNode final : public DecodingNode<F, From, To> {
  using Base = DecodingNode<F, From, To>;
  using typename Base::Item;
  using typename Base::P;
  using S = typename To::schema;
  static constexpr bool ragged = schema_traits<S>::ragged;
  static constexpr bool same = shape_at<1, P>::shape != Shape::output;
  using Worker = OutputWorker<S, same>;
  using Turn = OutputRun::Turn;

 public:
  OutputNode(const NodeSetup& setup, const Shared<HostLink>& in, const Shared<HostLink>& out,
             const F& f, const OutputForm& form, const Layout& chunk, const OnError& on_error)
      : Base{setup, in, out, f, on_error}, form_{form},
        parts_{in->ring.slots(),
               same && !Single
                   ? 1
                   : std::clamp<std::size_t>(in->layout().units / form.group, 1, most_parts)},
        shared_{in, out, form, setup.workers}, workers_(setup.workers) {
    setup.control.watch(shared_.openings);
    for (std::size_t i = 0; i != workers_.size(); ++i) {
      workers_[i] = Owned<Worker>{new Worker{shared_, chunk}};
    }
  }

  bool recounts() const noexcept override { return !same; }

 private:
  static constexpr std::size_t most_parts = 1024;
  // Of a slot: a run goes on from one of these groups.
  static constexpr std::size_t sections = 64;

  void reset() override {
    Base::reset();
    working_.store(this->workers(), StdAtomics::relaxed);
    shared_.reset();
    parts_.reset();
  }

  void work(unsigned worker, Meter& meter) override {
    Worker& mine = *workers_[worker];
    Draws draws{parts_};
    for (;;) {
      const PartRange share = draws.next();
      const bool filled = in_->ring.is_filled(share.ticket);
      const HostSlot* const given = in_->ring.await_filled(share.ticket);
      meter.goes_on(filled, Activity::starved, Activity::busy);
      if (!given) {
        const Turn turn = turn_of(share);
        shared_.openings.leave(in_->ring, turn.number, turn.next);
        break;
      }
      const TurnGroups groups{*given, form_.group};
      if (!decode(this->call_of(worker), mine, share, *given, groups, meter)) {
        return;
      }
      draws.took(share, groups.count(), meter.spent(Activity::busy, Activity::starved));
      if (parts_.finish(share)) {
        in_->ring.take_at(share.ticket).release();
      }
    }
    // Pairs with itself: the last to leave sees what the others opened, and nobody opens more.
    if (working_.fetch_sub(1, StdAtomics::acq_rel) == 1 && in_->ring.state() == Flow::ended) {
      shared_.end();
    }
  }

  Turn turn_of(const PartRange& share) const noexcept {
    const std::uint64_t number = share.ticket * parts_.parts();
    return {number + share.first, number + share.end, share.end == parts_.parts()};
  }

  // Returns false if the run is to end.
  template <class Call>
  bool decode(Call& call, Worker& mine, const PartRange& share, const HostSlot& given,
              const TurnGroups& groups, Meter& meter) {
    const PartOf part{groups.count(), parts_.parts(), share};
    const bool tries_once = on_error_.skips == 0 && on_error_.retries == 0;
    mine.begin(turn_of(share), *in_, given, share.ticket % in_->ring.slots(),
               groups.begin(part.end), part.size() == 1 && tries_once && !ragged, meter);
    const std::size_t section = groups.count() / sections + 1;
    const TraceRange range = this->trace(in_->index_of(given, 0));
    std::size_t units = 0;
    for (std::size_t group = part.begin; group != part.end; ++group) {
      const std::size_t begin = groups.begin(group);
      const std::size_t end = same && !Single ? given.units : groups.begin(group + 1);
      if (begin == end) {
        continue;
      }
      if (!same && group % section == 0 && !this->attempt(record_of(given, begin), [&] {
            mine.note(in_->order->place(given.epoch, groups.turn(group)));
          })) {
        return false;
      }
      const Item item = this->attempt_item(
          on_error_, meter, record_of(given, begin), end - begin, [&](unsigned tries) {
            mine.begin_group(tries);
            call_for_group(call, mine, given, share.ticket % in_->ring.slots(), begin, end);
          });
      if (item == Item::failed || mine.ended()) {
        return false;
      }
      if (item == Item::skipped) {
        mine.leave_out_group();
      }
      if (!this->attempt(record_of(given, begin), [&] { mine.end_group(begin, end); })) {
        return false;
      }
      units += end - begin;
      if constexpr (same && !Single) {
        break;
      }
    }
    bool good = false;
    const bool handed_on = this->attempt(record_of(given, 0), [&] { good = mine.hand_on(); });
    meter.did(same ? mine.outputs() : units, mine.bytes());
    meter.found_in_use(out_->ring.was_in_use());
    return handed_on && good;
  }
  auto record_of(const HostSlot& given, std::size_t unit) const noexcept {
    return [this, &given, unit] { return in_->visit(given, unit).record; };
  }

  // Apart from what catches its errors: among handlers a callable's loops keep what they count in
  // memory, and take half as long again.
  template <class Call, class Given>
  [[gnu::noinline]] static void call_with(Call& call, const Given& given, Output<S>& output) {
    std::invoke(call, given, output);
  }

  template <class Call>
  void call_for_group(Call& call, Worker& mine, const HostSlot& given, std::size_t place,
                      std::size_t begin, std::size_t end) const {
    Output<S> output{mine};
    const auto view =
        in_->memory.template view<typename From::schema>(place, given.units, given.index, 0);
    try {
      if constexpr (same && Single) {
        const std::size_t at = mine.add(in_->visit(given, begin).record);
        this->call_for(call, given, view, begin, mine.view, at);
      } else if constexpr (same) {
        const auto in = in_->template batch<const typename From::schema, typename From::space>(
            place, given, given.index);
        mine.add_whole(given.units, in_->visit(given, begin).record, [&](auto filled) {
          filled.index = given.index;
          std::invoke(call, in, Batch<S, typename To::space>{filled});
        });
      } else if constexpr (!Single) {
        call_with(call,
                  in_->template part<const typename From::schema, typename From::space>(
                      place, given, in_->index_of(given, begin), begin, end - begin),
                  output);
      } else {
        auto&& from = record_at<parameter_t<0, P>>(view, begin);
        if constexpr (P::count == 3) {
          std::invoke(call, from, output, in_->visit(given, begin));
        } else {
          std::invoke(call, from, output);
        }
      }
    } catch (const RunEnded&) {
      return;
    }
    if (!mine.ended()) {
      mine.check_group();
    }
  }

  using Base::in_;
  using Base::on_error_;
  using Base::out_;
  const OutputForm form_;
  Parts<> parts_;
  OutputRun shared_;
  Vector<Owned<Worker>> workers_;
  StdAtomics::Atomic<unsigned> working_{0}; // that have not come to the end of what is given
};

/// Says what a Decoder of another number of records needs, for prepare(). `single`: its callable
/// gets one record after the other.
[[gnu::cold]] void plan_outputs(Plan& plan, std::size_t record_bytes, std::size_t group,
                                bool single);

/// Returns how many records a slot has that a Decoder of another number fills.
template <class Schema, class D>
[[gnu::cold]] std::size_t output_records(const Build<D>& build, std::size_t record_bytes,
                                         std::size_t given) {
  if (build.facts.fixed_slots || build.facts.ahead || build.facts.flush) {
    return given;
  }
  Plan plan = build.facts.plan;
  plan.ragged = schema_traits<Schema>::ragged;
  plan.batch = plan.recounted;
  return records_a_slot(0, record_bytes, unknown_size, plan);
}

/// Returns the layout of the chunks in which workers keep what they make, of `bytes` a record.
template <class S, class Options>
[[gnu::cold]] Layout chunk_of(std::size_t units, std::size_t bytes, const Options& options) {
  constexpr std::size_t usual = std::size_t{64} << 10;
  return layout_of<S>(std::clamp<std::size_t>(usual / std::max<std::size_t>(bytes, 1), 1, units),
                      options.extents, usual_values(options.value_bytes), "Decoder");
}

/// Builds a Decoder of another number of records.
template <bool Single, class F, class From, class To, class D, class Options>
[[gnu::cold]] void build_outputs(Build<D>& build, const F& f, const Options& options,
                                 unsigned workers) {
  using S = typename To::schema;
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
  if (group != 1 && build.facts.flush) {
    throw OptionError{"penstock: Decoder: .flush hands on what has come when its time is up, and a "
                      "group waits for its last record: leave out one of them."};
  }
  const bool sized =
      build.facts.fixed_slots || (schema_traits<S>::ragged && build.facts.plan.recounted != 0);
  if (build.facts.drop_last && !build.facts.plan.fills_up && !sized) {
    throw OptionError{"penstock: Reader: drop_last leaves out short batches, and here a batch is a "
                      "slot, which has no size of yours: give the Reader a .batch."};
  }
  if (build.facts.drop_last && !build.facts.plan.fills_up && build.facts.ahead) {
    throw OptionError{
        "penstock: Reader: drop_last leaves out an epoch's short batch, and behind a Decoder of "
        "another number of records .ahead makes some at any time: choose one of them."};
  }
  const std::size_t bytes = fixed_bytes<S>(options.extents, "Decoder");
  const std::size_t values = usual_values(options.value_bytes);
  const Layout layout = layout_of<S>(output_records<S>(build, bytes, in->layout().units),
                                     options.extents, values, "Decoder");
  build.facts.recount_outputs(group);
  const std::size_t slots =
      host_slots("Decoder", options.depth, layout, build.facts.slots_of_a_run, build.facts.plan);
  const auto out =
      build.template host_output<typename To::space>("Decoder", slots, layout, Side::many);
  Plan plan = build.facts.plan;
  plan.ragged = layout.ragged();
  plan.batch = plan.recounted;
  const bool as_asked = build.facts.fixed_slots || build.facts.ahead || build.facts.flush;
  const OutputForm form{.group = group,
                        .size = as_asked ? Ramp{layout.units} : ramp_of(0, layout, plan),
                        .cuts = build.facts.ahead || build.facts.flush,
                        .drop_last = build.facts.drop_last && !build.facts.plan.fills_up &&
                                     build.facts.recounts == build.facts.plan.recounts,
                        .has_positions = build.facts.one_for_one};
  if (form.drop_last) {
    build.facts.whole_batches.leave_out_short(layout.units, false);
  }
  build.template add<OutputNode<Single, F, From, To>>(
      build.setup("Decoder", workers, StageKind::decoder), in, out, f, form,
      chunk_of<S>(layout.units, bytes, options), options.on_error);
}

/// Builds a Decoder that makes each record one with Ragged columns, of slots `out` as long as those
/// of `in`: one ends where the slot does of which it is made, or when its values are full.
template <bool Single, class F, class From, class To, class D, class Options>
[[gnu::cold]] void build_ragged(Build<D>& build, const F& f, const Options& options,
                                const NodeSetup& setup, const Shared<HostLink>& in,
                                const Shared<HostLink>& out) {
  using S = typename To::schema;
  const std::size_t units = out->layout().units;
  build.template add<OutputNode<Single, F, From, To>>(
      setup, in, out, f, OutputForm{.size = Ramp{units}, .cuts = true},
      chunk_of<S>(units, Single ? fixed_bytes<S>(options.extents, "Decoder") : 0, options),
      options.on_error);
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE TurnGroups::TurnGroups(const HostSlot& slot, std::uint64_t each) noexcept
    : slot_{slot}, each_{each} {
  if (slot.units == 0) {
    return;
  }
  const std::uint64_t last = slot.source[slot.units - 1];
  none_missing_ = last - slot.source[0] == slot.units - 1;
  if (each == 1) {
    count_ = slot.units;
  } else {
    first_ = slot.source[0] / each;
    count_ = last / each - first_ + 1;
  }
}

PENSTOCK_INLINE std::size_t TurnGroups::begin(std::size_t group) const noexcept {
  if (each_ == 1 || group == 0 || group == count_) {
    return group == count_ ? slot_.units : group;
  }
  const std::uint64_t turn = (first_ + group) * each_;
  if (none_missing_) {
    return turn - slot_.source[0];
  }
  std::size_t begin = 0;
  for (std::size_t end = slot_.units; begin != end;) {
    const std::size_t middle = begin + (end - begin) / 2;
    slot_.source[middle] < turn ? begin = middle + 1 : end = middle;
  }
  return begin;
}

PENSTOCK_INLINE std::uint64_t TurnGroups::turn(std::size_t group) const noexcept {
  return each_ == 1 ? slot_.source[group] : (first_ + group) * each_;
}

PENSTOCK_INLINE void plan_outputs(Plan& plan, std::size_t record_bytes, std::size_t group,
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
#endif

} // namespace penstock::detail
