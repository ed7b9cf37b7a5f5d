// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/device/fence.hpp>
#include <penstock/sources/source.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// The fences of the work that a Kernel enqueued on one of its streams. Only the device thread uses
/// it, but for open_index().
template <AnyDevice D> class KernelLane {
 public:
  KernelLane(D& device, std::size_t most)
      : line_{new Timeline<D>{device, most + 1}}, begins_(most + 1), indices_(most + 1) {}

  /// Returns whether one more batch may be enqueued: a full queue would block the call.
  bool room() {
    const std::uint64_t next = line_->was_recorded() + 1;
    return next < begins_.size() || line_->reached(next + 1 - begins_.size());
  }
  /// Returns the fence of the work just enqueued, whose input is there at `begins`.
  Fence<D> record(Stream<D> stream, const Fence<D>& begins, std::uint64_t index) {
    const std::uint64_t serial = line_->was_recorded() + 1;
    begins_[serial % begins_.size()] = begins;
    indices_[serial % indices_.size()].store(index, StdAtomics::relaxed);
    return {line_.get(), line_->record(stream)};
  }
  /// Returns whether the GPU works on what was enqueued, waits for its input, or has nothing to do.
  Activity doing() {
    const std::uint64_t oldest = line_->oldest_open();
    return oldest == 0                                  ? Activity::resting
           : begins_[oldest % begins_.size()].reached() ? Activity::busy
                                                        : Activity::starved;
  }
  bool has_open_fence() const noexcept { return !line_->seen(line_->was_recorded()); }
  /// Brings the fences up to date, after the stream was waited for.
  void settle() { line_->sync(); }
  /// Returns the first record of the oldest batch that is not known to be done, or `none`. Any
  /// thread.
  std::uint64_t open_index(std::uint64_t none) const noexcept {
    const std::uint64_t oldest = line_->was_reached() + 1;
    return oldest <= line_->was_recorded()
               ? indices_[oldest % indices_.size()].load(StdAtomics::relaxed)
               : none;
  }

 private:
  Owned<Timeline<D>> line_;
  Vector<Fence<D>> begins_; // by serial: what each waits for
  Vector<StdAtomics::Atomic<std::uint64_t>> indices_;
};

/// How many records a batch gives: `gives` for each `per` of its records, rounded up to whole
/// groups; or for the whole batch, if `per` is 0.
struct Recount {
  std::size_t gives{1};
  std::size_t per{1};

  bool same() const noexcept { return gives == 1 && per == 1; }
  std::size_t of(std::size_t records) const {
    return per == 0 ? gives
                    : checked_bytes(records / per + (records % per != 0 ? 1 : 0), gives, "Kernel");
  }
  /// Returns how many a run of `units`, or unknown_size, gives in batches of `batch`; each epoch
  /// ends its last batch. Returns unknown_size if that is more than can be counted.
  std::uint64_t of_run(std::uint64_t units, std::uint64_t epochs, std::size_t batch) const {
    if (units == unknown_size || same()) {
      return units;
    }
    const std::uint64_t epoch = units / epochs;
    const std::size_t last = epoch % batch;
    std::uint64_t all = epoch / batch;
    const bool fits = !__builtin_mul_overflow(all, of(batch), &all) &&
                      !__builtin_add_overflow(all, last != 0 ? of(last) : 0, &all) &&
                      !__builtin_mul_overflow(all, epochs, &all);
    return fits ? all : unknown_size;
  }
};

} // namespace penstock::detail
