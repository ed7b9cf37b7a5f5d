// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/ring/ring.hpp>

#include <utility>

namespace penstock::detail {

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
    slot.index = given.index;
    slot.epoch = given.epoch;
    slot.units = given.units;
    slot.ends_epoch = given.ends_epoch;
    if (slot.units != 0 && !work(from, to)) {
      slot.units = 0; // it goes on, empty, to a thread that did not see the ring fail
      return;
    }
    out.hand_on(in, from.ticket(), given, slot);
    slot.bytes = 0;
    meter.spent(Activity::busy, Activity::starved);
    if (slot.units != 0) {
      slot.bytes = out.memory.used(to.place(), slot.units);
      meter.did(out.layout().whole_records(slot.source[0], slot.units), slot.bytes);
    }
    meter.found_in_use(out.ring.was_in_use());
    const Fill fill = slot.units == 0            ? Fill::none
                      : slot.units < given.units ? Fill::partial
                                                 : from.fill();
    out.publish(std::move(to), fill);
  }
  if (in.ring.state() == Flow::ended) {
    out.ring.end_at(in.ring.end_ticket());
  }
}

} // namespace penstock::detail
