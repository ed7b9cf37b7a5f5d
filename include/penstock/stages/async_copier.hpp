// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/build.hpp>
#include <penstock/detail/copier_node.hpp>
#include <penstock/detail/sizes.hpp>
#include <penstock/error.hpp>
#include <penstock/stage.hpp>

#include <algorithm>
#include <cstddef>
#include <string>

namespace penstock {

/// What an AsyncCopier may be told.
struct CopierOptions {
  /// Records a batch, for the stages after the copy; 0: about 4 MiB of them. With a Ragged column a
  /// batch is a slot, and 0 the Reader's.
  std::size_t batch = 0;
  /// Batches that may be on the device at once, at least 2. There may be more: three full copies
  /// always have room.
  std::size_t depth = 3;
};

/// Copies batches from pinned memory to `device`, on a stream of its own, and makes batches of the
/// size that the kernel wants. How much one copy takes is its own affair: about 12 MiB where there
/// is that much, at once where there is less.
template <class D> class AsyncCopier : public StageBase {
 public:
  /// Whether D is no device, so that `|` says no more of it.
  static constexpr bool refused = !AnyDevice<D>;
  /// The pipeline's device.
  using device_type = D;
  /// The batch it takes: Given's records, in pinned memory.
  template <class Given> using takes = detail::moved_t<Given, Pinned>;
  /// The batch it gives: the same records, on the device.
  template <class Given> using gives = detail::moved_t<Given, Device>;

  /// `device` must outlive the pipeline.
  template <bool IsADevice = AnyDevice<D>>
  explicit AsyncCopier(D& device, CopierOptions options = {})
      : device_{&device}, options_{options} {
    static_assert(IsADevice,
                  "penstock: an AsyncCopier copies to a device: give it a ps::CudaDevice "
                  "or a ps::HostDevice, and no stream: it has its own.");
  }
  AsyncCopier(const D&&, CopierOptions = {}) = delete;

  /// For prepare().
  D* device() const noexcept { return device_; }

  /// For prepare().
  template <class Given> void plan(detail::Plan& plan) const {
    plan.to_device = true;
    plan.batch = options_.batch;
  }
  /// For prepare().
  template <class Given, class On> void build(detail::Build<On>& build) const {
    detail::checked_depth("AsyncCopier", options_.depth);
    const detail::Grain batch = this->batch(build.host->grain());
    build.depth = options_.depth;
    build.template add<detail::CopierNode<On>>(
        batch, detail::device_places(options_.depth, batch, build.units, build.epochs), build);
  }

 private:
  // A slot with a Ragged column is a batch.
  detail::Grain batch(const detail::Grain& slot) const {
    if (!slot.ragged()) {
      const std::size_t record = slot.record_bytes() * slot.units;
      const std::size_t usual = std::max<std::size_t>(detail::batch_bytes / record, 1);
      return slot.of(detail::checked_bytes(options_.batch != 0 ? options_.batch : usual, slot.units,
                                           "AsyncCopier: a batch"));
    }
    if (options_.batch != 0 && options_.batch != slot.records) {
      throw OptionError{"penstock: AsyncCopier: batch is " + std::to_string(options_.batch) +
                        ", but a batch with a Ragged column is a slot, and the Reader's has " +
                        std::to_string(slot.records) + " records: give both the same batch."};
    }
    return slot;
  }

  D* device_;
  CopierOptions options_;
};

} // namespace penstock
