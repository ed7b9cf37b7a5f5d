// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/run/stage_report.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace penstock::detail {

// Where the stages of a Report lie. Most are a chain, each behind the one before. Those of a
// FanOut are a chain, what hands its slots on, and a copier and a loop for each device.

/// Returns the number of the first stage that one of several devices has for itself; that of all
/// stages if there is none.
[[gnu::cold]] std::size_t first_branch(const std::vector<StageReport>& stages);
/// Returns how many copiers to devices there are from stage `begin` on, before stage `end`.
[[gnu::cold]] std::size_t copiers(const std::vector<StageReport>& stages, std::size_t begin,
                                  std::size_t end);
/// Returns whether two stages do the same, for different devices of a FanOut.
[[gnu::cold]] bool do_the_same(const std::vector<StageReport>& stages, std::size_t a,
                               std::size_t b);
/// Returns whether a stage is the last that records come to.
bool is_end(const std::vector<StageReport>& stages, std::size_t at);
/// Returns the stage that takes from the ring that stage `at` fills. Of a FanOut's copiers it is
/// the one that holds its slots longest: that waits least for others.
[[gnu::cold]] std::size_t behind(const std::vector<StageReport>& stages, std::size_t at);

/// Who counts as binding: whoever is at work for so much of what it could.
inline constexpr double binding = 0.9;
/// Such a share says enough, whatever else went on.
inline constexpr double most_of_a_run = 0.7;
/// A device that was at work for less binds nothing.
inline constexpr double least_of_a_device = 0.45;
/// A ring counts as too small if so much of a run is lost there.
inline constexpr double much_lost = 0.05;

/// Returns whether a stage's busy time is that of a device, as far as fences tell.
bool on_device(const StageReport& stage);

/// Returns whether a device nearly always had a batch more to work on: its thread's calls then wait
/// for room in its queue.
bool device_has_backlog(const StageReport& stage, double seconds);

/// Returns the seconds that all workers of a stage, or the device, were at work. What a worker does
/// now is not booked before it ends, and counts too.
[[gnu::cold]] double worked(const StageReport& stage, double seconds);

/// Returns the slots that a stage has filled, at least; 0 if that is not known.
double slots_filled(const StageReport& stage);
/// Returns how many workers share a slot, on average and at most.
double workers_a_slot(const StageReport& stage);

/// Returns how many of a stage's workers can be at work at once: no more than the slots of the
/// rings that it takes from and fills have room for, nor than a whole run has units for.
[[gnu::cold]] double usable_workers(const std::vector<StageReport>& stages, std::size_t at);

/// Returns whether a copier's ring of small batches is nearly always full. Its copies are then as
/// small as the room that the stage behind leaves, and take the longer. A run whose batches all
/// have a place in the ring never lacks room.
bool copies_into_a_full_ring(const StageReport& stage);

/// Returns whether a copier to the device copied for nearly all of a run, one batch after the
/// other, and lacked no room: a stage behind it then held up no copy, whatever it did.
[[gnu::cold]] bool copies_back_to_back(const StageReport& stage, double seconds);
/// Returns whether anything is known of the calls inside a stage's callable.
bool has_calls(const StageReport& stage);
/// Returns whether the callable of a last stage waits for copies that run back to back. It is
/// called before its batch is there, so a wait for its own work is one for the copy too. A callable
/// of which nothing is known may do something else, but holds up no copy.
[[gnu::cold]] bool waits_for_copies(const std::vector<StageReport>& stages, std::size_t at,
                                    double seconds);
/// Returns the seconds that a last stage's device and thread surely were at work, if its callable
/// waits for copies: in a wait nobody knows which of the two is waited for.
double worked_beside_copies(const StageReport& last);

/// Returns which share of a run a stage was at work, of what its usable workers could.
[[gnu::cold]] double share_at_work(const std::vector<StageReport>& stages, std::size_t at,
                                   double seconds);

/// Returns whether it is sure that a stage was at work while its fences say so. They tell when a
/// device worked or its thread enqueued work; both may have gone on at once.
bool fences_are_sure(const StageReport& stage, double seconds);
/// Returns the share of a stage, but a little less if that is not sure.
[[gnu::cold]] double surely_at_work(const std::vector<StageReport>& stages, std::size_t at,
                                    double seconds);

/// Returns which share of a run was lost at the ring that a stage fills: its workers waited for
/// room while the stage behind it waited for input. So it is if all slots are in workers' hands, or
/// wait for one whose turn is first.
[[gnu::cold]] double lost_at_ring(const std::vector<StageReport>& stages, std::size_t at,
                                  double seconds);

/// Returns whether a stage and the one behind it wait for each other in turns, each for a good part
/// of the run: work comes in bursts, and the ring between them has too few slots to even them out.
[[gnu::cold]] bool waits_in_turns(const std::vector<StageReport>& stages, std::size_t at,
                                  double seconds);

/// Returns the number of the stage that held the others back, or whose ring did; 0 if there are no
/// stages. `waited_s` are the seconds in which the last stage waited for input.
///
/// - It is the one that was at work nearly all the time; if the device was, as a last stage, it
///   is the device: then all others together cannot gain a tenth. A wait for copies that run back
///   to back is no work.
/// - Else it is the one at whose ring most was lost, or the one that was at work for most of the
/// run.
/// - Else what held back changed in the course of the run: the last stage did while it was at work,
///   and while it waited, the one that was at work then. The longer one counts.
[[gnu::cold]] std::size_t limiting_stage(const std::vector<StageReport>& stages, double seconds,
                                         double waited_s);

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::size_t first_branch(const std::vector<StageReport>& stages) {
  std::size_t i = 0;
  while (i < stages.size() && stages[i].kind != StageKind::fan_out) {
    ++i;
  }
  return i < stages.size() ? i + 1 : i;
}

PENSTOCK_INLINE std::size_t copiers(const std::vector<StageReport>& stages, std::size_t begin,
                                    std::size_t end) {
  std::size_t count = 0;
  for (std::size_t i = begin; i < end; ++i) {
    count += stages[i].kind == StageKind::copy_to_device ? 1U : 0U;
  }
  return count;
}

PENSTOCK_INLINE bool do_the_same(const std::vector<StageReport>& stages, std::size_t a,
                                 std::size_t b) {
  const std::size_t first = first_branch(stages);
  return a != b && a >= first && b >= first && a < stages.size() && b < stages.size() &&
         stages[a].kind == stages[b].kind;
}

PENSTOCK_INLINE bool is_end(const std::vector<StageReport>& stages, std::size_t at) {
  return at + 1 == stages.size() || stages[at].kind == StageKind::loop;
}

PENSTOCK_INLINE std::size_t behind(const std::vector<StageReport>& stages, std::size_t at) {
  std::size_t next = at + 1;
  if (next >= stages.size() || stages[next].kind != StageKind::fan_out) {
    return next;
  }
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = at + 2; i < stages.size(); ++i) {
    const double waits = stages[i].starved_s - stages[i].blocked_s;
    if (stages[i].kind == StageKind::copy_to_device && waits < least) {
      next = i;
      least = waits;
    }
  }
  return next;
}

PENSTOCK_INLINE bool on_device(const StageReport& stage) {
  return stage.kind == StageKind::copy_to_device || stage.kind == StageKind::kernel ||
         stage.kind == StageKind::copy_to_host || stage.calling_s > 0;
}

PENSTOCK_INLINE bool device_has_backlog(const StageReport& stage, double seconds) {
  return stage.queued_s >= binding * seconds;
}

PENSTOCK_INLINE double worked(const StageReport& stage, double seconds) {
  const double left = seconds - stage.busy_s - stage.starved_s - stage.blocked_s;
  const double now = std::max(left, 0.0) * stage.busy_now;
  return std::max(stage.busy_s * std::max(stage.workers, 1U) + now, stage.calling_s);
}

PENSTOCK_INLINE double slots_filled(const StageReport& stage) {
  return stage.slot_bytes != 0 && stage.bytes != 0
             ? std::ceil(static_cast<double>(stage.bytes) / static_cast<double>(stage.slot_bytes))
             : 0;
}

PENSTOCK_INLINE double workers_a_slot(const StageReport& stage) {
  const double slots = slots_filled(stage);
  const double units = static_cast<double>(stage.units);
  return slots > 0 && units > 0 ? std::clamp<double>(units / slots, 1, std::max(stage.workers, 1U))
                                : 1;
}

PENSTOCK_INLINE double usable_workers(const std::vector<StageReport>& stages, std::size_t at) {
  const StageReport& stage = stages[at];
  double usable = std::max(stage.workers, 1U);
  if (on_device(stage)) {
    return usable;
  }
  // Times are equal for most units: so many go round the workers in whole rounds.
  if (stage.units != 0 && static_cast<double>(stage.units) < 4 * usable) {
    const double units = static_cast<double>(stage.units);
    usable = units / std::ceil(units / usable);
  }
  const double share = workers_a_slot(stage);
  const bool takes_from_host =
      at != 0 && stages[at - 1].depth != 0 &&
      (!on_device(stages[at - 1]) || stages[at - 1].kind == StageKind::copy_to_host);
  for (const std::size_t depth : {stage.depth, takes_from_host ? stages[at - 1].depth : 0}) {
    usable = depth != 0 ? std::min(usable, share * static_cast<double>(depth)) : usable;
  }
  return usable;
}

PENSTOCK_INLINE bool copies_into_a_full_ring(const StageReport& stage) {
  return (stage.kind == StageKind::copy_to_device || stage.kind == StageKind::copy_to_host) &&
         stage.slot_bytes < std::size_t{1} << 20 && stage.depth >= 8 &&
         stage.bytes > stage.depth * stage.slot_bytes &&
         stage.depth_in_use >= 0.85 * static_cast<double>(stage.depth);
}

PENSTOCK_INLINE bool copies_back_to_back(const StageReport& stage, double seconds) {
  return stage.kind == StageKind::copy_to_device && !copies_into_a_full_ring(stage) &&
         worked(stage, seconds) >= binding * seconds && stage.blocked_s < 0.03 * seconds;
}

PENSTOCK_INLINE bool has_calls(const StageReport& stage) {
  const DeviceCalls& calls = stage.calls;
  return calls.launches + calls.waits + calls.allocations + calls.copies != 0;
}

PENSTOCK_INLINE bool waits_for_copies(const std::vector<StageReport>& stages, std::size_t at,
                                      double seconds) {
  const StageReport& last = stages[at];
  const auto is_part = [&](double part) { return 4 * part >= last.calling_s; };
  // Copies from pageable memory have the bus meanwhile, and the copier's wait for them.
  if (last.calling_s < 0.5 * seconds || (has_calls(last) && !is_part(last.calls.wait_s)) ||
      (last.calls.pageable_copies != 0 && is_part(last.calls.copy_s))) {
    return false;
  }
  double by_device_thread = 0; // while it is in a Kernel's callable it sees no copy end
  for (std::size_t i = at; i-- != 0;) {
    if (stages[i].kind == StageKind::copy_to_device) {
      return by_device_thread < 0.1 * seconds && copies_back_to_back(stages[i], seconds);
    }
    by_device_thread += stages[i].calling_s;
  }
  return false;
}

PENSTOCK_INLINE double worked_beside_copies(const StageReport& last) {
  const double called = has_calls(last) ? last.calling_s - last.calls.wait_s : 0;
  return std::max({called, last.busy_s - last.calling_s, 0.0});
}

PENSTOCK_INLINE double share_at_work(const std::vector<StageReport>& stages, std::size_t at,
                                     double seconds) {
  if (seconds <= 0) {
    return 0;
  }
  const bool for_copies = is_end(stages, at) && waits_for_copies(stages, at, seconds);
  const double time = for_copies ? worked_beside_copies(stages[at]) : worked(stages[at], seconds);
  const double share = std::min(time / usable_workers(stages, at) / seconds, 1.0);
  return at + 1 < stages.size() && copies_into_a_full_ring(stages[at])
             ? std::min(share, share_at_work(stages, at + 1, seconds))
             : share;
}

PENSTOCK_INLINE bool fences_are_sure(const StageReport& stage, double seconds) {
  return std::max(stage.calling_s, stage.busy_s - stage.calling_s) >= binding * seconds;
}

PENSTOCK_INLINE double surely_at_work(const std::vector<StageReport>& stages, std::size_t at,
                                      double seconds) {
  const double share = share_at_work(stages, at, seconds);
  const bool unsure = stages[at].calling_s > 0 && !fences_are_sure(stages[at], seconds);
  return unsure ? std::min(share, 0.95) : share;
}

PENSTOCK_INLINE double lost_at_ring(const std::vector<StageReport>& stages, std::size_t at,
                                    double seconds) {
  // A Kernel in place holds the slots that the stages behind it hold: it shares their memory.
  const std::size_t next = behind(stages, at);
  const bool in_place = next < stages.size() && stages[next].kind == StageKind::kernel &&
                        stages[next].depth != 0 && stages[next].ring_bytes == 0;
  return next < stages.size() && !in_place && stages[at].depth != 0 && seconds > 0
             ? std::max((stages[at].blocked_s + stages[next].starved_s - stages[next].blocked_s) /
                                seconds -
                            1,
                        0.0)
             : 0;
}

PENSTOCK_INLINE bool waits_in_turns(const std::vector<StageReport>& stages, std::size_t at,
                                    double seconds) {
  const std::size_t taker = behind(stages, at);
  if (taker >= stages.size() || stages[at].depth == 0) {
    return false;
  }
  const StageReport& stage = stages[at];
  const StageReport& next = stages[taker];
  const double holders = std::max(stage.workers, 1U) / workers_a_slot(stage) +
                         std::max(next.workers, 1U) / workers_a_slot(next);
  return static_cast<double>(stage.depth) <= 2 * holders && stage.blocked_s >= 0.1 * seconds &&
         next.starved_s >= 0.1 * seconds &&
         share_at_work(stages, at, seconds) + share_at_work(stages, taker, seconds) >= 1;
}

PENSTOCK_INLINE std::size_t limiting_stage(const std::vector<StageReport>& stages, double seconds,
                                           double waited_s) {
  std::size_t most = 0;
  std::size_t ring = 0;
  std::size_t turns = stages.size();
  std::size_t end = stages.size();
  for (std::size_t i = 1; i < stages.size(); ++i) {
    most = surely_at_work(stages, i, seconds) >= surely_at_work(stages, most, seconds) ? i : most;
    ring = lost_at_ring(stages, i, seconds) > lost_at_ring(stages, ring, seconds) ? i : ring;
  }
  for (std::size_t i = stages.size(); i-- != 0;) {
    turns = waits_in_turns(stages, i, seconds) ? i : turns;
    if (is_end(stages, i) && on_device(stages[i]) && fences_are_sure(stages[i], seconds) &&
        surely_at_work(stages, i, seconds) >=
            (end == stages.size() ? binding : surely_at_work(stages, end, seconds))) {
      end = i;
    }
  }
  if (end != stages.size()) {
    return end;
  }
  const double share = stages.empty() ? 1 : surely_at_work(stages, most, seconds);
  const bool lost = share < binding && lost_at_ring(stages, ring, seconds) >= much_lost;
  if (lost || (share < binding && turns != stages.size())) {
    return lost ? ring : turns;
  }
  if (share >= most_of_a_run) {
    return most;
  }
  std::size_t longest = stages.size() - 1;
  double held_back = worked(stages[longest], seconds) / usable_workers(stages, longest);
  for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
    const double usable = usable_workers(stages, i);
    const double in_waits = stages[i].busy_in_waits_s * std::max(stages[i].workers, 1U) / usable;
    const double time =
        is_end(stages, i) ? worked(stages[i], seconds) / usable : std::min(in_waits, waited_s);
    if (time > held_back) {
      held_back = time;
      longest = i;
    }
  }
  return longest;
}
#endif

} // namespace penstock::detail
