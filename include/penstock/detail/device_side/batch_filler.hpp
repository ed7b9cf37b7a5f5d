// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/order/detail/origins.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// Fills the places of a device ring in order, unit after unit, and hands on the full ones. No step
/// waits for the ring or for the device.
template <AnyDevice D> class BatchFiller {
  using Claim = typename DeviceRing<D>::Claim;

 public:
  /// `drop_last`: an epoch's last batch is left out if it is short.
  [[gnu::cold]] BatchFiller(DeviceLink<D>& out, bool drop_last) : out_{out}, drop_last_{drop_last} {
    next_.reserve(out.ring.slots());
    full_.reserve(out.ring.slots());
  }

  /// Opens a place for units of an epoch, if none is open; returns false if there is none to fill.
  bool try_open(std::uint64_t epoch) {
    if (filled_ != 0 && place_.slot().epoch != epoch) {
      close(true);
    }
    lacking_ = epoch == first_epoch_ ? lacking_ : 0;
    if (!place_) {
      place_ = out_.ring.try_claim();
      filled_ = 0;
    }
    return static_cast<bool>(place_);
  }
  /// Returns whether nothing is in the open place yet: its last use is then to be waited for.
  bool untouched() const noexcept { return filled_ == 0; }
  const DeviceSlot<D>& place() const noexcept { return place_.slot(); }
  /// Returns where the next unit goes in an array.
  std::byte* at(std::size_t part) const noexcept {
    return out_.memory.data(place_.place(), part) + filled_ * out_.layout().parts[part].each;
  }

  /// Claims places after the open one, as far as `units` more go without a wrap and without
  /// waiting; returns how many of them fit.
  std::size_t make_room(std::size_t units) {
    const std::size_t places = out_.ring.slots();
    std::size_t room = left();
    for (std::size_t i = 0; room < units && lacking_ == 0 && place_.place() + i + 1 < places; ++i) {
      if (i == next_.size()) {
        if (Claim claim = out_.ring.try_claim()) {
          next_.push_back(std::move(claim));
        } else {
          break;
        }
      }
      if (!next_[i].slot().free.reached() || !next_[i].slot().also_free.reached()) {
        break;
      }
      room += out_.layout().units;
    }
    return std::min(room, units);
  }
  /// Books `units` of one epoch, of `bytes`, that are there at `ready`, and hands the full places
  /// on. `ends_epoch`: the last unit ends an epoch. describe(place, i, count) adds to a place what
  /// is known of `count` of them from the i-th on; the place has no units yet if they are its
  /// first.
  template <class F>
  void book(std::size_t units, std::size_t bytes, const Fence<D>& ready, std::uint64_t epoch,
            bool ends_epoch, F describe) {
    booked_bytes_ += bytes;
    std::size_t opened = 0;
    for (std::size_t done = 0; done != units;) {
      const std::size_t part = std::min(units - done, left());
      DeviceSlot<D>& place = place_.slot();
      if (filled_ == 0) {
        place.index = booked_;
        place.epoch = epoch;
        place.units = 0;
        place.bytes = 0;
        place.credits = 0;
      }
      describe(place, done, part);
      filled_ += part;
      place.units = filled_;
      place.bytes += bytes / units * part + (part == units ? bytes % units : 0);
      place.ready = ready;
      done += part;
      booked_ += part;
      if (left() == 0) {
        count_out();
        full_.push_back(std::move(place_));
        if (opened < next_.size()) {
          place_ = std::move(next_[opened++]);
        }
      }
    }
    // Published last first: they are taken in order, and therefore all at once and not as they
    // trickle.
    for (bool last = ends_epoch && filled_ == 0; !full_.empty(); last = false) {
      DeviceSlot<D>& place = full_.back().slot();
      place.ends_epoch = last;
      full_.back().publish(last || place.units != out_.layout().units ? Fill::partial : Fill::full);
      full_.pop_back();
    }
    next_.pop_front(opened);
  }
  /// Returns whether units in the open place wait for others.
  bool waits() const noexcept { return place_ && filled_ != 0; }
  /// Returns whether all that was handed on is used up.
  bool is_idle() {
    const DeviceSlot<D>* const last =
        handed_on_ != 0 ? out_.ring.look_free(handed_on_ - 1 + out_.ring.slots()) : nullptr;
    return handed_on_ == 0 || (last && last->free.reached() && last->also_free.reached());
  }
  /// Hands on the units in the open place, if there are any, as a short batch, or leaves them out.
  [[gnu::cold]] void close(bool ends_epoch) {
    if (!waits()) {
      return;
    }
    if (drop_last_) {
      booked_ -= filled_;
      booked_bytes_ -= place_.slot().bytes;
      filled_ = 0;
      if (out_.ahead) {
        out_.ahead->give_back(place_.slot().credits);
      }
    } else {
      place_.slot().ends_epoch = ends_epoch;
      count_out();
      place_.publish(Fill::partial);
      if (!next_.empty()) {
        place_ = std::move(next_.front());
        next_.pop_front(1);
      }
    }
  }
  /// Says that nothing more will come.
  void end() {
    close(true);
    out_.ring.end_at(handed_on_);
  }

  /// Return what was booked, without what was left out.
  /// @{
  std::uint64_t booked() const noexcept { return booked_; }
  std::uint64_t booked_bytes() const noexcept { return booked_bytes_; }
  /// @}

  /// Begins a run at an epoch. `begun`: units of the first batch that an earlier run has given.
  void reset(std::uint64_t epoch, std::uint64_t begun) {
    place_ = {};
    next_.clear();
    full_.clear();
    filled_ = 0;
    first_epoch_ = epoch;
    lacking_ = begun % out_.layout().units;
    handed_on_ = booked_ = booked_bytes_ = 0;
  }

 private:
  void count_out() {
    out_.ready(handed_on_++) = place_.slot().ready;
    filled_ = lacking_ = 0;
  }
  // Returns how many more units the open place is to have.
  std::size_t left() const noexcept { return out_.layout().units - lacking_ - filled_; }

  DeviceLink<D>& out_;
  const bool drop_last_;
  Claim place_; // the open place, and how far it is filled
  std::size_t filled_{};
  std::size_t lacking_{}; // units that it will never have: an earlier run has given them
  std::uint64_t first_epoch_{};
  Vector<Claim> next_; // claimed after it
  Vector<Claim> full_; // before it, while they are handed on
  std::uint64_t handed_on_{};
  std::uint64_t booked_{};
  std::uint64_t booked_bytes_{};
};

/// Calls f(i, at, part, done) for `count` units of adjacent slots, each of `units` but perhaps the
/// last, from unit `first` on: `part` of them, after `done` others, lie in slot number `i` from its
/// unit `at` on.
template <class F>
[[gnu::cold]] void each_slot(std::size_t units, std::size_t first, std::size_t count, F f) {
  for (std::size_t done = 0; done != count;) {
    const std::size_t from = first + done;
    const std::size_t part = std::min(count - done, units - from % units);
    f(from / units, from % units, part, done);
    done += part;
  }
}

/// Returns how many of a run's slots, from its first on, are of one epoch. An epoch's last slot may
/// be full and say nothing of the end, if an earlier copier has left out what came after it.
std::size_t slots_of_one_epoch(const HostRing::Take& run) noexcept;

/// Adds to a batch on a device what is known of `count` units of adjacent slots, from unit `first`
/// on. `gaps`: some may have been left out. May then throw std::bad_alloc.
template <AnyDevice D>
void describe(DeviceSlot<D>& place, const HostLink& in, const HostRing::Take& slots,
              std::size_t first, std::size_t count, bool gaps) {
  const std::size_t units = in.layout().units;
  if (place.units == 0) {
    place.source = slots.slot(first / units).source[first % units];
    place.read = in.was_read(slots.place() + first / units);
  }
  const std::size_t last = first + count - 1;
  const SourceNumbers& turns = slots.slot(last / units).source;
  // A batch that is a slot ends behind what was left out of it; others are filled up.
  place.until = in.layout().in_records(in.layout().ragged() ? turns[last % units + 1]
                                                            : turns[last % units] + 1);
  if (gaps) {
    each_slot(units, first, count,
              [&](std::size_t slot, std::size_t at, std::size_t part, std::size_t done) {
                place.turns.go_on(place.units + done, slots.slot(slot).source, at, part);
              });
  }
  if (in.ahead) {
    each_slot(units, first, count,
              [&](std::size_t slot, std::size_t at, std::size_t part, std::size_t) {
                const std::uint64_t credits = in.credits(slots.place() + slot);
                const std::uint64_t of = slots.slot(slot).units;
                place.credits += credits_of(credits, of, at + part) - credits_of(credits, of, at);
              });
  }
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::size_t slots_of_one_epoch(const HostRing::Take& run) noexcept {
  std::size_t slots = run.size();
  while (run.slot(slots - 1).epoch != run.slot().epoch) {
    --slots;
  }
  return slots;
}
#endif

} // namespace penstock::detail
