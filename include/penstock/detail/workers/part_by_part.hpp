// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/detail/turns/parts.hpp>
#include <penstock/ring/ring.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

using PartRange = Parts<>::PartRange;

/// How many parts each of a ring's slots of `units` has: some for each worker, so that a worker
/// whose records take long holds up the others by little. Fewer in a ring of many slots, which keep
/// all workers busy anyway: what is kept for each part stays below a megabyte.
std::size_t parts_a_slot(unsigned workers, std::size_t units, std::size_t slots) noexcept;

/// The units of a slot's part, or of a share of its parts.
struct PartOf {
  PartOf(std::size_t units, std::size_t parts, std::size_t number) noexcept
      : begin{begin_of(units, parts, number)}, end{begin_of(units, parts, number + 1)} {}
  PartOf(std::size_t units, std::size_t parts, const PartRange& share) noexcept
      : begin{begin_of(units, parts, share.first)}, end{begin_of(units, parts, share.end)} {}

  std::size_t size() const noexcept { return end - begin; }

  std::size_t begin;
  std::size_t end;

 private:
  static std::size_t begin_of(std::size_t units, std::size_t parts, std::size_t number) noexcept;
};

/// Which parts one worker gets: one at a time, and more where they are soon done, since to draw a
/// part costs some hundred nanoseconds. Who does a part changes nothing of what comes of it.
class Draws {
 public:
  explicit Draws(Parts<>& parts) noexcept : parts_{parts} {}

  /// Returns what the worker is to do next.
  PartRange next() noexcept;
  /// Notes how long it took, of a slot of so many `units`. If those are fewer than the parts, the
  /// last parts have none: the worker draws all of these, and learns nothing from them.
  void took(const PartRange& share, std::size_t units, Meter::Clock::duration time) noexcept;

 private:
  Parts<>& parts_;
  std::size_t many_{1};
  PartRange rest_{};
};

/// Does the work of a worker that, with others, turns slots of one ring into slots of the next:
/// slot t into slot t, each in parts that several workers do at once. `work(ticket, part, given)`
/// fills a part and returns false if the run is to end. The worker that finishes a slot calls
/// `finish(ticket, given, slot)`, which sets the new slot's units and numbers in the source, and
/// publishes it. Neither may throw.
template <class Work, class Finish>
void part_by_part(HostLink& in, HostLink& out, Parts<>& parts, Meter& meter, Work work,
                  Finish finish) {
  Draws draws{parts};
  for (;;) {
    const PartRange share = draws.next();
    const std::uint64_t ticket = share.ticket;
    const bool filled = in.ring.is_filled(ticket);
    HostSlot* const given = in.ring.await_filled(ticket);
    meter.goes_on(filled, Activity::starved, Activity::blocked);
    const bool free = out.ring.is_free(ticket);
    HostSlot* const slot = given ? out.ring.await_free(ticket) : nullptr;
    meter.goes_on(free, Activity::blocked, Activity::busy);
    if (!slot) {
      break;
    }
    const std::size_t units = given->units;
    for (std::size_t part = share.first; part != share.end; ++part) {
      if (!work(ticket, part, *given)) {
        return;
      }
    }
    if (parts.finish(share)) {
      slot->begin(*given);
      if (slot->units != 0 && !finish(ticket, *given, *slot)) {
        return;
      }
      out.hand_on(in, ticket, *given, *slot);
      // A claim that is dropped is passed over: none is made once the run has failed.
      const HostRing::Take taken = in.ring.take_at(ticket);
      HostRing::Claim claim = taken ? out.ring.claim_at(ticket) : HostRing::Claim{};
      if (!claim) {
        break;
      }
      out.book(claim.place(), *slot, meter);
      out.publish(std::move(claim));
    }
    draws.took(share, units, meter.spent(Activity::busy, Activity::starved));
  }
  if (in.ring.state() == Flow::ended) {
    out.ring.end_at(in.ring.end_ticket());
  }
}

/// Does the work of a worker that turns slots of one ring into slots of the next: slot t into slot
/// t, empty slots too. `work(from, to)` fills a slot, and returns false if the run is to end. The
/// HostSlot of `to` has what that of `from` has, but not the numbers in the source: `work` hands
/// those on itself. `work` must not throw: the slot would be published empty before the rings are
/// closed.
template <class Work>
void slot_by_slot(HostLink& in, HostLink& out, Meter& meter, Work work) {
  for (;;) {
    HostRing::Take from = in.ring.try_take(1, Empties::give);
    if (!from) {
      from = in.ring.take(Empties::give);
      meter.spent(Activity::starved, Activity::blocked);
      if (!from) {
        break;
      }
    }
    const bool at_once = out.ring.is_free(from.ticket());
    HostRing::Claim to = out.ring.claim_at(from.ticket());
    meter.goes_on(at_once, Activity::blocked, Activity::busy);
    if (!to) {
      break;
    }
    const HostSlot& given = from.slot();
    HostSlot& slot = to.slot();
    slot.begin(given);
    if (slot.units != 0 && !work(from, to)) {
      slot.units = 0; // it goes on, empty, to a thread that did not see the ring fail
      return;
    }
    out.hand_on(in, from.ticket(), given, slot);
    meter.spent(Activity::busy, Activity::starved);
    out.book(to.place(), slot, meter);
    out.publish(std::move(to));
  }
  if (in.ring.state() == Flow::ended) {
    out.ring.end_at(in.ring.end_ticket());
  }
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::size_t parts_a_slot(unsigned workers, std::size_t units,
                                         std::size_t slots) noexcept {
  constexpr std::size_t in_all = 16'384;
  const std::size_t most =
      std::min(std::size_t{4} * workers, std::max<std::size_t>(in_all / slots, 1));
  return workers == 1 ? 1 : std::clamp<std::size_t>(units, 1, most);
}

PENSTOCK_INLINE std::size_t PartOf::begin_of(std::size_t units, std::size_t parts,
                                             std::size_t number) noexcept {
  if (number == 0 || number == parts) { // spares a slot of one part the divisions
    return number == 0 ? 0 : units;
  }
  return units / parts * number + std::min(units % parts, number);
}

PENSTOCK_INLINE PartRange Draws::next() noexcept {
  return rest_.first != rest_.end ? std::exchange(rest_, {}) : parts_.draw(many_);
}

PENSTOCK_INLINE void Draws::took(const PartRange& share, std::size_t units,
                                 Meter::Clock::duration time) noexcept {
  if (share.end >= units && share.end != parts_.parts()) {
    rest_ = parts_.draw_rest(share.ticket);
  }
  if (time < std::chrono::microseconds{50} && share.first < units) {
    many_ = std::min(2 * many_, parts_.parts());
  } else if (time > std::chrono::microseconds{200}) {
    many_ = std::max<std::size_t>(many_ / 2, 1);
  }
}
#endif

} // namespace penstock::detail
