// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/replayed.hpp>
#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/detail/device_side/captured_groups.hpp>
#include <penstock/detail/device_side/launch_check.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/device/device.hpp>

#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// A Kernel's callable, with the batches in two rings of device memory, or in place in one. Work to
/// be replayed is captured once for each place, which is then the same in both rings.
template <class F, class From, class To, bool InPlace, AnyDevice D> class KernelCall {
 public:
  static constexpr bool replays = is_replayed<F>;

  KernelCall(const F& f, const DeviceLink<D>& in, const DeviceLink<D>& out)
      : f_{f}, in_{in}, out_{out} {}

  /// Return the callable itself.
  /// @{
  auto& callable() noexcept {
    if constexpr (replays) {
      return f_.call;
    } else {
      return f_;
    }
  }
  const auto& callable() const noexcept { return f_; }
  /// @}
  /// Returns how many streams the callable is to have, of `asked` that batches go to in turn.
  unsigned streams(unsigned asked) const {
    if constexpr (replays) {
      return checked_lanes(f_.options.lanes);
    } else {
      return asked;
    }
  }
  /// Captures the work on `lanes`; a batch gives `given` records. Returns why nothing was captured,
  /// or an empty text.
  std::string capture(D& device, std::span<typename D::stream_type> lanes, std::size_t given) {
    if constexpr (replays) {
      DeviceSlot<D> from;
      from.units = in_.layout().units;
      DeviceSlot<D> to;
      to.units = given;
      return groups_.try_capture(device, lanes, in_.ring.slots(), [&](std::size_t place) {
        (*this)(place, from, place, to, lanes[place % lanes.size()]);
      });
    } else {
      return {};
    }
  }

  /// Returns how many of `count` places from `first` on are replayed together, or 0.
  std::size_t largest(std::size_t first, std::size_t count) const noexcept {
    return groups_.largest(first, count);
  }
  void replay(std::size_t first, std::size_t count, Stream<D> stream) const {
    groups_.launch(first, count, stream);
  }
  /// Enqueues the work on one batch, from the first place taken to the place claimed.
  void operator()(const typename DeviceRing<D>::Take& from, const typename DeviceRing<D>::Claim& to,
                  Stream<D> stream) {
    (*this)(from.place(), from.slot(), to.place(), to.slot(), stream);
  }
  /// Calls the callable with the batch in one place, to fill the batch in another.
  void operator()(std::size_t at, const DeviceSlot<D>& from, std::size_t there,
                  const DeviceSlot<D>& to, Stream<D> stream) {
    const Batch<To, Device> out = out_.template batch<To>(there, to);
    if constexpr (InPlace) {
      std::invoke(callable(), given(out, at), stream);
    } else {
      std::invoke(callable(), given(in_.template batch<const From>(at, from), at), given(out, at),
                  stream);
    }
  }

 private:
  template <class S> auto given(const Batch<S, Device>& batch, std::size_t place) const {
    if constexpr (replays) {
      return FrozenBatch<S, Device>{batch, static_cast<unsigned>(place % f_.options.lanes)};
    } else {
      return batch;
    }
  }

  F f_;
  const DeviceLink<D>& in_;
  const DeviceLink<D>& out_;
  std::conditional_t<replays, Groups<D>, NoGroups> groups_;
};

} // namespace penstock::detail
