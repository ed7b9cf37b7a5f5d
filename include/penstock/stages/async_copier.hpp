// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/build.hpp>
#include <penstock/detail/device_thread.hpp>
#include <penstock/detail/sizes.hpp>
#include <penstock/stage.hpp>

#include <algorithm>
#include <cstddef>

namespace penstock {

struct CopierOptions {
  /// Records a batch, for the stages after the copy; 0: about 4 MiB of them.
  std::size_t batch = 0;
  /// Batches that may be on the device at once, at least 2. There may be more: three full copies
  /// always have room.
  std::size_t depth = 3;
};

/// Copies batches from pinned memory to `device`, on a stream of its own, and makes batches of the
/// size that the kernel wants. How much one copy takes is its own affair: about 8 MiB where there
/// is that much, at once where there is less.
template <AnyDevice D> class AsyncCopier : public StageBase {
 public:
  using device_type = D;
  template <class Given> using takes = detail::moved_t<Given, Pinned>;
  template <class Given> using gives = detail::moved_t<Given, Device>;

  /// `device` must outlive the pipeline.
  explicit AsyncCopier(D& device, CopierOptions options = {})
      : device_{&device}, options_{options} {}
  AsyncCopier(const D&&, CopierOptions = {}) = delete;

  D* device() const noexcept { return device_; }

  /// For prepare().
  template <class Given> void build(detail::Build<D>& build) const {
    detail::checked_depth("AsyncCopier", options_.depth);
    const std::size_t bytes = build.host->grain.record_bytes;
    const std::size_t usual = std::max<std::size_t>(detail::batch_bytes / bytes, 1);
    const detail::Grain batch{options_.batch != 0 ? options_.batch : usual, bytes};
    detail::checked_bytes(batch.records, bytes, "AsyncCopier: a batch");
    build.template add<detail::DeviceThread<D>>(
        batch, detail::device_places(options_.depth, batch, build.records), build);
  }

 private:
  D* device_;
  CopierOptions options_;
};

} // namespace penstock
