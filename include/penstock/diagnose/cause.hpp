// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// What holds a run back.
enum class Cause : std::uint8_t {
  nothing,         ///< Nothing that is known; as a second cause: there is none.
  too_few_workers, ///< A stage's workers are all at work, and processors are free.
  too_few_units,   ///< Workers without a slot, or more of them than the run has units.
  depth,           ///< A ring has too few slots to keep both its sides at work.
  cores,           ///< All processors are in use.
  disk,            ///< What the Reader reads from gives no more.
  writer,          ///< The file that the Writer writes takes no more.
  bus,             ///< The link between host and device.
  kernel,          ///< The work on the device.
  waits,           ///< A callable waits for the device.
  launches,        ///< A callable launches many kernels for each batch.
  small_batches,   ///< Batches are too small for what each costs the thread that enqueues.
  pageable_memory, ///< A callable copies from or to pageable memory, which keeps the thread.
  allocations,     ///< A callable allocates memory.
  host_work,       ///< A callable that enqueues, or the body of a loop, works itself.
  too_short        ///< The run's beginning and end are most of it: nobody can tell.
};

/// Returns the cause in words, such as "too few workers".
[[gnu::cold]] inline const char* name_of(Cause cause) noexcept {
  switch (cause) {
  case Cause::too_few_workers:
    return "too few workers";
  case Cause::too_few_units:
    return "too few units for the workers";
  case Cause::depth:
    return "depth too small";
  case Cause::cores:
    return "all cores in use";
  case Cause::disk:
    return "disk";
  case Cause::writer:
    return "writer";
  case Cause::bus:
    return "bus";
  case Cause::kernel:
    return "kernel";
  case Cause::waits:
    return "a wait for the device in a callable";
  case Cause::launches:
    return "launch-bound";
  case Cause::small_batches:
    return "batches too small";
  case Cause::pageable_memory:
    return "pageable memory";
  case Cause::allocations:
    return "allocations in a callable";
  case Cause::host_work:
    return "host work in a callable or loop";
  case Cause::too_short:
    return "run too short to tell";
  case Cause::nothing:
    break;
  }
  return "nothing";
}

/// One change, and what it is expected to gain by itself.
struct Advice {
  std::string change; ///< Such as "Decoder: .workers 4 -> 9".
  double gain{1};     ///< The new rate by the old one: what the next limit leaves.
  std::string next;   ///< What binds then, such as "the bus".
  /// Whether the gain may be less, since the run did not tell what something takes by itself.
  bool at_most{};
};

/// What judge() makes of a Report.
struct Verdict {
  std::string stage;           ///< The stage that held the others back; empty if nobody can tell.
  Cause cause{Cause::nothing}; ///< Why.
  Cause or_cause{Cause::nothing}; ///< Or this: one run cannot tell them apart.
  std::string evidence;           ///< The figures that say so: one or two sentences.
  std::string trial;              ///< What would tell, if there is an `or_cause`; else empty.
  /// What to change, the easiest first. What would gain less than a tenth is left out.
  std::vector<Advice> advice;
  /// Whether a change of the pipeline's settings, or of how callables use the device, is expected
  /// to gain a tenth or more. If not, only another kernel or machine, or fewer bytes, will.
  bool worth_it{};
};

} // namespace penstock
