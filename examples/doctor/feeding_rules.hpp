// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "watch_figures.hpp"

#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/diagnose/watch_text.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace doctor {

/// The causes by which a GPU waits for the host, or copies and kernels for each other.
class FeedingRules : public WatchFigures {
 public:
  FeedingRules(const WatchSummary& summary, RankedFindings& found)
      : WatchFigures{summary}, found_{found} {}

  void find() {
    whole_loop();
    one_stream();
    pageable_copies();
    page_locking();
    waiting_for_data();
    sync_per_item();
    small_launches();
  }

 private:
  // The three evils of a first training loop, each worth a finding by itself.
  void whole_loop() {
    const bool waits_each_time = 2 * is_.waits.calls >= is_.idle.gaps;
    if (has_gaps() && counts(is_.idle.elsewhere_s) && counts(pageable_s()) && waits_each_time) {
      found_.add(WatchRank::several,
                 {.cause = "everything in turn: load, copy from pageable memory, compute, "
                           "wait",
                  .page = "13_whole_loop",
                  .evidence = elsewhere() + "; " + pageable() + "; " + all_waits() +
                              "; kernels ran in " + percent(share(is_.gpu.kernel_s)) +
                              " of the time",
                  .cost_s = is_.idle.elsewhere_s + pageable_s()});
    }
  }
  // Copies each way and kernels can go on at once: the longest of the three is the least time.
  // Copies within the GPU cannot: they take its memory from the kernels. Nor can a few copies, such
  // as those of what a program loads at its start, take turns with anything.
  void one_stream() {
    const double longest = std::max({is_.gpu.kernel_s, is_.gpu.to_device_s, is_.gpu.to_host_s});
    const double each_s = is_.gpu.kernel_s + is_.gpu.to_device_s + is_.gpu.to_host_s;
    const double turns_s = std::min(is_.gpu.busy_s, each_s) - longest;
    if (is_.gpu.copies_to_device + is_.gpu.copies_to_host >= least_in_a_loop &&
        share(turns_s) >= 0.2 && is_.gpu.overlap_s < turns_s / 4) {
      found_.add(WatchRank::several,
                 {.cause = "copies and kernels take turns",
                  .page = "11_one_stream",
                  .evidence = "copies to the GPU " + figure_ms(is_.gpu.to_device_s) + ", kernels " +
                              figure_ms(is_.gpu.kernel_s) + ", copies back " +
                              figure_ms(is_.gpu.to_host_s) + ", of which " +
                              figure_ms(is_.gpu.overlap_s) + " at once, on " +
                              counted(is_.streams, "stream"),
                  .cost_s = turns_s});
    }
  }
  void pageable_copies() {
    if (counts(pageable_s())) {
      found_.add(WatchRank::one, {.cause = "copies of pageable memory",
                                  .page = "01_pageable_copies",
                                  .evidence = pageable() + "; copies kept threads for " +
                                              figure_ms(is_.copies.seconds),
                                  .cost_s = pageable_s()});
    }
  }
  // Memory that is page-locked for one copy, besides what has the data. The copy into it is part of
  // what the program does elsewhere: at a GB/s at the least, so that more than that is something
  // else.
  void page_locking() {
    const bool for_one_copy = 2 * is_.page_locked >= copied_bytes() && copied_bytes() != 0;
    const bool is_a_copy = is_.host_peak_bytes == 0 || is_.host_peak_bytes >= 2 * is_.page_locked;
    const double filled_s =
        std::min(is_.idle.elsewhere_s, static_cast<double>(is_.page_locked) / 1e9);
    const double locked_s =
        std::min(is_.idle.allocation_s + is_.idle.setup_s, is_.page_locks.seconds);
    const double cost = locked_s + (has_gaps() ? 0 : filled_s);
    if (is_.page_locked >= (1U << 20U) && for_one_copy && is_a_copy && counts(cost)) {
      found_.add(WatchRank::one,
                 {.cause = "memory is page-locked for the copy",
                  .page = "12_pinning_a_copy",
                  .evidence = counted(is_.page_locks.calls, "call") + " page-locked " +
                              figure_bytes(is_.page_locked) + " in " +
                              figure_ms(is_.page_locks.seconds) + ", and copies took " +
                              figure_bytes(copied_bytes()) + "; the process had up to " +
                              figure_bytes(is_.host_peak_bytes) + " of host memory; " + elsewhere(),
                  .cost_s = cost});
    }
  }
  void waiting_for_data() {
    if (!has_gaps() || !counts(is_.idle.elsewhere_s)) {
      return;
    }
    // What the program does between its calls can hide behind the GPU's work, and no more than
    // that.
    const bool too_long = is_.idle.elsewhere_s > is_.gpu.busy_s;
    found_.add(
        WatchRank::one,
        {.cause = too_long ? "too few loaders: one batch takes longer to make than the GPU's work "
                             "on it"
                           : "the GPU waits for its data, and the loader for the GPU",
         .page = too_long ? "03_too_few_loaders" : "02_waiting_for_data",
         .evidence = elsewhere() + ", the longest for " + figure_ms(is_.idle.longest_gap_s) +
                     "; the GPU worked for " + figure_ms(is_.gpu.busy_s) + "; " + cpu() + "; " +
                     all_waits(),
         .cost_s = is_.idle.elsewhere_s});
  }
  void sync_per_item() {
    if ((waits_per_item() && counts(in_calls_s())) || allocates_per_item()) {
      found_.add(
          WatchRank::one,
          {.cause = waits_per_item() ? "a wait for each item" : "memory allocated again and again",
           .page = "10_sync_per_item",
           .evidence = waits() + ", each after " + figure_us(gpu_s_a_wait()) +
                       " of the GPU's work; " + counted(is_.allocations.calls, "allocation") +
                       " (" + figure_ms(is_.allocations.seconds) + "), " +
                       counted(is_.releases.calls, "release") + " (" +
                       figure_ms(is_.releases.seconds) + ")",
           .cost_s = waits_per_item() ? in_calls_s() : loop_allocation_s()});
    }
  }
  // The GPU waits for the thread that launches.
  void small_launches() {
    const double cost = is_.idle.launch_s + is_.idle.copy_s + is_.idle.between_s + is_.idle.other_s;
    if (waits_per_item() || is_.gpu.kernels < 100 || kernel_s_each() > 20e-6 || !counts(cost) ||
        is_.in_a_row.seconds > cost) {
      return;
    }
    const std::string kernels = counted(is_.gpu.kernels, "kernel") + " of " +
                                figure_us(kernel_s_each()) + ", " +
                                counted(is_.launches.calls, "launch", "launches") + " (" +
                                figure_us(each(is_.launches)) + " each)";
    if (4 * copies() >= is_.gpu.kernels &&
        copied_bytes() / std::max<std::uint64_t>(copies(), 1) < std::uint64_t{256} << 10U) {
      found_.add(WatchRank::one, {.cause = "batches too small",
                                  .page = "09_small_batches",
                                  .evidence = kernels + "; " + counted(copies(), "copy", "copies") +
                                              " of " + figure_bytes(copied_bytes() / copies()),
                                  .cost_s = cost});
      return;
    }
    const bool sizes_differ = !is_.kernels.empty() && is_.kernels.front().sizes >= 3;
    found_.add(WatchRank::one,
               {.cause = "kernels launched one by one",
                .page = "04_tiny_kernels",
                .or_cause = sizes_differ ? "an optimiser that takes a step tensor by tensor" : "",
                .or_page = sizes_differ ? "08_optimizer" : "",
                .evidence = kernels + (sizes_differ ? "; the most frequent over " +
                                                          counted(is_.kernels.front().sizes, "size")
                                                    : ""),
                .cost_s = cost});
  }

  RankedFindings& found_;
};

} // namespace doctor
