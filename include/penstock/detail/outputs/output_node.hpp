// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/data/output.hpp>
#include <penstock/data/row.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/outputs/output_buffer.hpp>
#include <penstock/detail/outputs/output_run.hpp>
#include <penstock/detail/outputs/output_worker.hpp>
#include <penstock/detail/outputs/turn_groups.hpp>
#include <penstock/detail/turns/parts.hpp>
#include <penstock/detail/workers/calling_node.hpp>
#include <penstock/detail/workers/part_by_part.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace penstock::detail {

/// Turns what its callable is given into any number of outputs, in order. All workers share the
/// groups of a slot; `Single`: a group is a record, and the callable is called with that.
template <bool Single, class F, class From, class To>
class OutputNode final : public CallingNode<F> {
  using P = called_parameters<F>;
  using S = typename To::schema;
  using Item = Node::Item;
  using Worker = OutputWorker<S>;
  using Turn = OutputRun::Turn;
  static constexpr bool ragged = schema_traits<S>::ragged;

 public:
  OutputNode(const NodeSetup& setup, const Shared<HostLink>& in, const Shared<HostLink>& out,
             const F& f, const OutputForm& form, const Layout& chunk, const OnError& on_error)
      : CallingNode<F>{setup, f}, on_error_{on_error}, in_{in}, form_{form},
        parts_{in->ring.slots(),
               std::clamp<std::size_t>(in->layout().units / form.group, 1, most_parts)},
        shared_{in, out, form, setup.workers}, workers_(setup.workers) {
    setup.control.watch(shared_.openings);
    this->fills(out->memory, out->ring.slots());
    for (std::size_t i = 0; i != workers_.size(); ++i) {
      workers_[i] = Owned<Worker>{new Worker{shared_, chunk}};
    }
  }

  bool recounts() const noexcept override { return true; }

 private:
  static constexpr std::size_t most_parts = 1024;
  // Of a slot: a run goes on from one of these groups.
  static constexpr std::size_t sections = 64;

  void reset() override {
    working_.store(this->workers(), StdAtomics::relaxed);
    shared_.reset();
    parts_.reset();
  }

  void work(unsigned worker, Meter& meter) override {
    Worker& mine = *workers_[worker];
    Draws draws{parts_};
    for (;;) {
      const Share share = draws.next();
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

  Turn turn_of(const Share& share) const noexcept {
    const std::uint64_t number = share.ticket * parts_.parts();
    return {number + share.first, number + share.end, share.end == parts_.parts()};
  }

  // Returns false if the run is to end.
  template <class Call>
  bool decode(Call& call, Worker& mine, const Share& share, const HostSlot& given,
              const TurnGroups& groups, Meter& meter) {
    const PartOf part{groups.count(), parts_.parts(), share};
    const bool tries_once = on_error_.skips == 0 && on_error_.retries == 0;
    mine.begin(turn_of(share), *in_, given, share.ticket % in_->ring.slots(),
               part.size() == 1 && tries_once && !ragged, meter);
    const std::size_t section = groups.count() / sections + 1;
    const TraceRange range = this->trace(in_->index_of(given, 0));
    std::size_t units = 0;
    for (std::size_t group = part.begin; group != part.end; ++group) {
      const std::size_t begin = groups.begin(group);
      const std::size_t end = groups.begin(group + 1);
      if (begin == end) {
        continue;
      }
      if (group % section == 0 && !this->attempt(record_of(given, begin), [&] {
            mine.note(in_->order->place(given.epoch, groups.turn(group)));
          })) {
        return false;
      }
      const Item item = this->attempt_item(
          on_error_, meter, record_of(given, begin), end - begin, [&](unsigned tries) {
            mine.begin_group(tries);
            call_for(call, mine, given, share.ticket % in_->ring.slots(), begin, end);
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
    }
    bool good = false;
    const HostLink& out = shared_.slots.link();
    const bool handed_on = this->attempt(record_of(given, 0), [&] { good = mine.hand_on(); });
    meter.did(units, mine.outputs() * out.layout().unit_bytes());
    meter.found_in_use(out.ring.was_in_use());
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
  void call_for(Call& call, Worker& mine, const HostSlot& given, std::size_t place,
                std::size_t begin, std::size_t end) const {
    Output<S> output{mine};
    try {
      if constexpr (!Single) {
        call_with(call,
                  in_->template part<const typename From::schema, typename From::space>(
                      place, given, in_->index_of(given, begin), begin, end - begin),
                  output);
      } else {
        const auto view =
            in_->memory.template view<typename From::schema>(place, given.units, given.index, 0);
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

  const OnError on_error_;
  const Shared<HostLink> in_;
  const OutputForm form_;
  Parts<> parts_;
  OutputRun shared_;
  Vector<Owned<Worker>> workers_;
  StdAtomics::Atomic<unsigned> working_{0}; // that have not come to the end of what is given
};

} // namespace penstock::detail
