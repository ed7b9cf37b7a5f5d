// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/deferred.hpp>
#include <penstock/device/device.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace transformer {

/// Losses on their way to the host, step by step: nobody waits for them. `L` is their type.
template <class L, penstock::AnyDevice D> class LossLog {
 public:
  /// Has room for the losses of `steps` steps, or for `most` if these are fewer: then it waits for
  /// those on their way when it is full.
  LossLog(D& device, std::uint64_t steps, std::size_t most = std::size_t{1} << 20)
      : room_{static_cast<std::size_t>(std::clamp<std::uint64_t>(steps, 1, most))},
        losses_{device, {.results = room_}} {}

  /// Enqueues the copy of a loss in device memory. Calls f(loss) for those before it, in their
  /// order, if there is no room.
  template <class F> void put(const L* loss, penstock::Stream<D> stream, F f) {
    if (losses_.size() == room_) {
      take_all(f);
      clear();
    }
    losses_.put(loss, stream);
  }
  /// Calls f(loss) for each that has arrived, in their order. Waits for none.
  template <class F> void take(F f) {
    while (taken_ != losses_.size() && losses_[taken_].ready()) {
      f(losses_[taken_++].get());
    }
  }
  /// Forgets all, and has room again.
  void clear() {
    losses_.clear();
    taken_ = 0;
  }
  /// Calls f(loss) for all that are left. Waits for them.
  template <class F> void take_all(F f) {
    while (taken_ != losses_.size()) {
      f(losses_[taken_++].get());
    }
  }

 private:
  std::size_t room_;
  penstock::Deferred<L, D> losses_;
  std::size_t taken_ = 0;
};

} // namespace transformer
