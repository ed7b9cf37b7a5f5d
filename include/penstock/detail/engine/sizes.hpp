// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/turns/ramp.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/error.hpp>
#include <penstock/machine/usable.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>

namespace penstock::detail {

/// Reads are sized for the disk, copies for the bus, batches for the kernel. docs/benchmarks.md has
/// the measurements.
inline constexpr std::size_t usual_read = std::size_t{1} << 20;
inline constexpr std::size_t usual_copy = std::size_t{12}
                                          << 20; // two in flight leave half of a ring to fill
inline constexpr std::size_t usual_batch = std::size_t{4} << 20;
/// A ring in host memory stays near the processor's cache.
inline constexpr std::size_t usual_ring = std::size_t{48} << 20;

/// Returns of how many records the bytes are whole pages.
std::size_t page_records(std::size_t record_bytes);
/// Returns how many records share a slot, in every host ring of a chain: about usual_read of them
/// and, if that stays near it, a multiple of a page. At least one, however large.
[[gnu::cold]] std::size_t slot_records(std::size_t record_bytes);

/// Returns how many records share a slot of a chain: as many as the user `asked` for, else a number
/// that suits a run over `records` records of `record_bytes`.
std::size_t records_a_slot(std::size_t asked, std::size_t record_bytes, std::uint64_t records,
                           const Plan& plan);
std::size_t usual_values(std::size_t asked);

unsigned checked_workers(const char* stage, unsigned asked, unsigned usual);
/// What a stage takes of the processors, if nobody says how many.
struct ProcessorShare {
  unsigned of_eight, most;
  unsigned spared = 0; // that each part leaves to others beforehand, but at most a quarter of it
};
/// Returns a share of so many processors, at least one. `parts`: pipelines that run side by side on
/// this host, each of which has its part of them.
unsigned processors_of(unsigned usable, std::uint64_t parts, const ProcessorShare& share);
/// Returns a share of the processors that this process may use, at least one.
unsigned processors(const Plan& plan, const ProcessorShare& share);
/// A callable that is known to do all of a pipeline's work has a share of its own.
template <class F> inline constexpr ProcessorShare decoder_share{4, 16};

std::size_t checked_depth(const char* stage, std::size_t asked);

/// Returns how many slots a whole run could fill, and one more: with so many, no slot is used
/// twice. Every epoch may end in a short slot. `units` may be unknown_size.
std::uint64_t places_of_a_run(std::uint64_t units, std::uint64_t each, std::uint64_t epochs);

/// Returns how the slots of a run's first epoch grow: not at all where nothing works on records, or
/// where the user or a Ragged batch says how many a slot has.
Ramp ramp_of(std::size_t asked, const Layout& layout, const Plan& plan);

/// Returns the slots of a host ring: as many as the user asked for, else as usual_ring holds, but
/// no more than a run could fill, `of_a_run`, nor more than some thousands, since each has a head
/// too. Where slots are large, as many as keep each worker in work. `shares`: several workers fill
/// a slot with a Ragged column.
[[gnu::cold]] std::size_t host_slots(const char* stage, std::size_t asked, const Layout& layout,
                                     std::uint64_t of_a_run, const Plan& plan, bool shares = false);

/// Returns the slots of a host ring in which copies from the device land: at most 1024, since each
/// of many tiny slots has a head too.
std::size_t landing_slots(const Layout& layout, std::uint64_t of_a_run);

/// A place takes time to make, and memory beside its batch. Small batches are slow to launch, not
/// to copy: these suffice for them.
inline constexpr std::size_t usual_places = 4096;

/// Returns the batches of a device ring: at least `depth`, and room for three full copies, but not
/// more places than usual_places, nor than a run could fill.
[[gnu::cold]] std::size_t device_places(std::size_t depth, const Layout& batch, std::uint64_t units,
                                        std::uint64_t epochs);

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::size_t page_records(std::size_t record_bytes) {
  return page / std::gcd(record_bytes, page);
}

PENSTOCK_INLINE std::size_t slot_records(std::size_t record_bytes) {
  const std::size_t near = std::max<std::size_t>(usual_read / record_bytes, 1);
  const std::size_t step = page_records(record_bytes);
  const std::size_t down = near / step * step;
  const std::size_t up = down + step;
  const auto off = [&](std::size_t n) {
    return std::abs(std::log2(static_cast<double>(n) / static_cast<double>(near)));
  };
  const std::size_t paged = down != 0 && off(down) <= off(up) ? down : up;
  return off(paged) <= 0.6 ? paged : near;
}

PENSTOCK_INLINE std::size_t records_a_slot(std::size_t asked, std::size_t record_bytes,
                                           std::uint64_t records, const Plan& plan) {
  constexpr std::size_t usual_ragged = 256;
  if (asked != 0) {
    return asked;
  }
  if (plan.ragged) {
    return plan.batch != 0 ? plan.batch : usual_ragged;
  }
  const std::size_t largest = std::max({record_bytes, plan.largest, std::size_t{1}});
  const std::size_t usual = slot_records(largest);
  if (plan.workers == 0) {
    return usual;
  }
  // Work on few records is to go on in several slots at once.
  const std::size_t step = page_records(largest);
  const std::uint64_t some = records / 8 / step * step + step;
  return some < usual ? static_cast<std::size_t>(some) : usual;
}

PENSTOCK_INLINE std::size_t usual_values(std::size_t asked) {
  return asked != 0 ? asked : usual_read;
}

PENSTOCK_INLINE unsigned checked_workers(const char* stage, unsigned asked, unsigned usual) {
  if (asked > 1024) {
    throw_error<OptionError>(
        {"penstock: ", stage, ": workers is ", asked, "; each is a thread, and 1024 is the most."});
  }
  return asked != 0 ? asked : usual;
}

PENSTOCK_INLINE unsigned processors_of(unsigned usable, std::uint64_t parts,
                                       const ProcessorShare& share) {
  const auto part = static_cast<unsigned>(usable / parts);
  const unsigned left = part - std::min(share.spared, part / 4 + (part % 4 != 0 ? 1 : 0));
  return std::clamp(left * share.of_eight / 8, 1U, share.most);
}

PENSTOCK_INLINE unsigned processors(const Plan& plan, const ProcessorShare& share) {
  return processors_of(usable_processors(), plan.parts(), share);
}

PENSTOCK_INLINE std::size_t checked_depth(const char* stage, std::size_t asked) {
  if (asked == 1) {
    throw_error<OptionError>(
        {"penstock: ", stage, ": depth is 1, so nothing could overlap: give it at least 2."});
  }
  return asked;
}

PENSTOCK_INLINE std::uint64_t places_of_a_run(std::uint64_t units, std::uint64_t each,
                                              std::uint64_t epochs) {
  const std::uint64_t full = units / each;
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  return full > most - epochs - 1 ? most : full + epochs + 1;
}

PENSTOCK_INLINE Ramp ramp_of(std::size_t asked, const Layout& layout, const Plan& plan) {
  constexpr std::uint64_t few = 32; // records, which all workers share
  if (plan.workers == 0 || asked != 0 || (plan.ragged && plan.batch != 0)) {
    return Ramp{layout.units};
  }
  return plan.ragged ? Ramp{layout.units, 1, std::uint64_t{8} * plan.workers}
                     : Ramp{layout.units, few, 1};
}

PENSTOCK_INLINE std::size_t host_slots(const char* stage, std::size_t asked, const Layout& layout,
                                       std::uint64_t of_a_run, const Plan& plan, bool shares) {
  constexpr std::size_t largest_ring = std::size_t{512} << 20;
  constexpr std::size_t most = 4096;
  if (checked_depth(stage, asked) != 0) {
    return asked;
  }
  const std::size_t shared_by = plan.ragged && !shares ? 1 : layout.units; // workers, at most
  const std::size_t busy = plan.workers / shared_by + 1;
  const std::size_t fit = std::max({std::min(usual_ring / layout.bytes(), most),
                                    std::min(largest_ring / layout.bytes(), busy), std::size_t{2}});
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(of_a_run, 2, fit));
}

PENSTOCK_INLINE std::size_t landing_slots(const Layout& layout, std::uint64_t of_a_run) {
  constexpr std::size_t most = 1024;
  return std::min(host_slots("AsyncCopier", 0, layout, of_a_run, {}), most);
}

PENSTOCK_INLINE std::size_t device_places(std::size_t depth, const Layout& batch,
                                          std::uint64_t units, std::uint64_t epochs) {
  const std::size_t copies = 3 * std::max(usual_copy, batch.unit_bytes());
  const std::uint64_t room = std::min((copies + batch.bytes() - 1) / batch.bytes(), usual_places);
  return static_cast<std::size_t>(
      std::max<std::uint64_t>(checked_depth("AsyncCopier", depth),
                              std::min(room, places_of_a_run(units, batch.units, epochs))));
}
#endif

} // namespace penstock::detail
