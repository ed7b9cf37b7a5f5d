// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/vector.hpp>
#include <penstock/device/device.hpp>
#include <penstock/ring/ring.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock {

/// The fences of one stream, in the order they were recorded. A fence is an event from a small
/// fixed set and the serial of its recording. So one recording serves everything that one copy
/// covers, and an event can be used again: an event recorded later on the same stream is reached
/// later. Another stream may go on with a timeline if it waits for the newest fence first.
///
/// Where many fences may be outstanding, those next to each other share an event: each is then
/// reached when the last of them is.
///
/// One thread at a time may call record(), any thread the rest. Nothing is created after
/// construction. Policy is the ring's.
template <AnyDevice D, class Policy = RingPolicy> class Timeline {
  using Atomics = typename Policy::Atomics;
  using Serial = typename Atomics::template Atomic<std::uint64_t>;

 public:
  /// `events`: how many fences may be outstanding before the answer about an old one becomes
  /// pessimistic (it is then reached when a later one is), never wrong.
  Timeline(D& device, std::size_t events) : Timeline{device, events, events} {}
  /// As many `uses` as that may be outstanding, each ended by a fence, and there may be fewer
  /// events: about uses / events of them share one.
  [[gnu::cold]] Timeline(D& device, std::size_t events, std::size_t uses)
      : device_{&device}, answers_(uses), spacing_{spacing(events, uses)}, marked_{spacing_} {
    events_.reserve(events);
    for (std::size_t i = 0; i < events; ++i) {
      events_.push_back(device.event());
    }
  }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// Marks the work enqueued on `stream` so far, which must not be captured, as the end of so many
  /// uses; returns the fence's serial, counted from 1.
  std::uint64_t record(Stream<D> stream, std::size_t uses = 1) {
    const std::uint64_t serial = recorded_.load(Atomics::relaxed) + 1;
    const bool shares = marked_ < spacing_;
    const std::size_t at = shares ? newest_ : (newest_ + 1) % events_.size();
    device_->record(events_[at], stream);
    newest_ = at;
    marked_ = uses + (shares ? marked_ : 0);
    // Pairs with answer(): who asks about an older fence may find this event.
    answers_[serial % answers_.size()].event.store(at, Atomics::release);
    recorded_.store(serial, Atomics::release); // pairs with was_recorded()
    return serial;
  }

  /// Returns whether the work before the fence is done. Serial 0 is before all work. A fence never
  /// recorded is never reached, although a device says that an event never recorded is done.
  bool reached(std::uint64_t serial) {
    if (seen(serial)) {
      return true;
    }
    if (serial > was_recorded() || !device_->is_done(event(serial))) {
      return false;
    }
    see(serial);
    return true;
  }
  /// Returns whether the fence is known to be reached, without asking the device.
  bool seen(std::uint64_t serial) const noexcept {
    return serial <= reached_.load(Atomics::acquire); // pairs with see()
  }

  /// Returns the serial of the newest fence that is known to be reached.
  std::uint64_t was_reached() const noexcept { return reached_.load(Atomics::relaxed); }

  /// Returns the oldest fence that is not reached, or 0. Asks the device about the newest, which
  /// answers for all when the stream has run dry, and else about one old fence.
  std::uint64_t oldest_open() {
    const std::uint64_t newest = was_recorded();
    const std::uint64_t oldest = reached_.load(Atomics::relaxed) + 1;
    if (newest < oldest || reached(newest)) {
      return 0;
    }
    return reached(oldest) ? oldest + 1 : oldest;
  }

  /// Makes later work on `stream` wait for the fence; costs no call if it is known to be reached.
  void wait(Stream<D> stream, std::uint64_t serial) {
    if (!seen(serial)) {
      device_->wait(stream, event(serial));
    }
  }

  /// Blocks the calling thread until the fence, which was recorded, is reached.
  [[gnu::cold]] void sync(std::uint64_t serial) {
    if (!seen(serial)) {
      device_->sync(event(serial));
      see(serial);
    }
  }
  /// Blocks the calling thread until every recorded fence is reached.
  void sync() { sync(was_recorded()); }

  /// Returns which of the events, counted from 0, answers for a fence that was recorded.
  std::size_t answer(std::uint64_t serial) const noexcept {
    const Answer& kept = answers_[serial % answers_.size()];
    return kept.event.load(Atomics::acquire); // pairs with record()
  }
  /// Returns the serial of the newest fence. There may be a newer one by the time the caller looks
  /// at it.
  std::uint64_t was_recorded() const noexcept {
    return recorded_.load(Atomics::acquire); // pairs with record()
  }

 private:
  struct Answer {
    Serial event{0};
  };

  // One event is still being shared; the others are enough for all uses but the newest.
  static std::size_t spacing(std::size_t events, std::size_t uses) {
    const std::size_t others = std::max<std::size_t>(events - 1, 1);
    return (uses - 1 + others - 1) / others;
  }
  typename D::event_type& event(std::uint64_t serial) { return events_[answer(serial)]; }
  // Never goes back, whichever of two threads comes last: a serial said to be reached stays
  // reached, though its event may have been recorded again since.
  void see(std::uint64_t serial) noexcept {
    std::uint64_t known = reached_.load(Atomics::relaxed);
    // Pairs with seen().
    while (known < serial &&
           !reached_.compare_exchange_strong(known, serial, Atomics::release, Atomics::relaxed)) {
    }
  }

  D* device_;
  detail::Vector<typename D::event_type> events_;
  detail::Vector<Answer> answers_; // by serial
  const std::size_t spacing_;      // at least so many uses share an event
  alignas(detail::cache_line) Serial recorded_{0};
  std::size_t newest_{}; // event; this and the following are the recording thread's
  std::size_t marked_;   // uses that it ends
  alignas(detail::cache_line) Serial reached_{0};
};

/// A point of a timeline, which a place carries from one stage to the next. By default there is
/// nothing to wait for.
template <AnyDevice D> struct Fence {
  Timeline<D>* line{};    ///< The timeline; null if there is nothing to wait for.
  std::uint64_t serial{}; ///< The point, as Timeline::record() returned it.

  /// Returns whether both are the same point.
  bool operator==(const Fence&) const = default;
  /// Returns whether the work before it is done. Never blocks.
  bool reached() const { return !line || line->reached(serial); }
  /// Makes later work on `stream` wait for it. Never blocks.
  void wait(Stream<D> stream) const {
    if (line) {
      line->wait(stream, serial);
    }
  }
};

} // namespace penstock
