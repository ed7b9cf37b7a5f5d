// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/links.hpp>
#include <penstock/detail/meter.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace penstock::detail {

/// The pieces of one copy, together where the device can.
template <AnyDevice D>
void copy_pieces(D& device, std::span<const CopyPiece> pieces, Stream<D> stream) {
  if constexpr (requires { device.copy_to_device(pieces, stream); }) {
    device.copy_to_device(pieces, stream);
  } else {
    for (const CopyPiece& piece : pieces) {
      device.copy_to_device(piece.to, piece.from, piece.bytes, stream);
    }
  }
}

/// Turns slots of a host ring into batches of a device ring, with copies sized for the bus: neither
/// the slot's size nor the batch's is the copy's. Driven in steps by one thread; no step waits for
/// a ring or for the device.
///
/// At most two copies are in flight, one running and one queued; ready slots gather meanwhile. With
/// fewer in flight what is ready is sent at once. A copy ends at `copy_bytes`, where either ring
/// wraps, at a partial slot, before a place still in use, and before a place whose fence the stream
/// would first have to wait for. Slots with a Ragged column are copied one by one, each into a
/// batch of its own.
template <AnyDevice D> class Copier {
 public:
  Copier(D& device, HostLink& in, DeviceLink<D>& out, std::size_t copy_bytes)
      : device_{device}, in_{in}, out_{out}, stream_{device.stream()}, ragged_{in.grain().ragged()},
        most_records_{std::max<std::size_t>(
            copy_bytes / std::max<std::size_t>(in.grain().record_bytes(), 1), 1)},
        most_slots_{ragged_ ? 1 : std::max<std::size_t>(most_records_ / in.grain().records, 1)} {
    next_.reserve(out.ring.slots());
    pieces_.reserve(in.grain().parts.size());
  }

  /// Gives back what was copied and enqueues what can be; true if there was anything to do.
  bool step() {
    const bool returned = give_back();
    bool sent = false;
    while (in_flight_ < flights_.size() && send()) {
      sent = true;
    }
    if (!ended_ && in_.ring.exhausted() && !run_) {
      publish_partial();
      out_.ring.end_at(published_);
      ended_ = true;
      return true;
    }
    return returned || sent;
  }

  /// All that will come was copied and its slots given back.
  bool done() const noexcept { return ended_ && in_flight_ == 0; }

  /// What the copy engine is doing, as far as fences tell.
  Spent doing() {
    if (in_flight_ != 0) {
      const Flight& flight = flights_[oldest_];
      return flight.after.reached() && flight.also_after.reached() ? Spent::busy : Spent::blocked;
    }
    return run_ ? Spent::blocked : Spent::starved;
  }
  bool in_flight() const noexcept { return in_flight_ != 0; }
  std::uint64_t copies() const noexcept { return copies_; }
  std::uint64_t records() const noexcept { return in_.grain().whole_records(0, sent_); }
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Forgets a run, also one that was broken off, and gives back what it held. Blocks until no copy
  /// touches memory any more. If it throws, nothing was given back, and it is to be called again.
  void abandon() {
    if (touches_memory_) {
      device_.sync(stream_);
      touches_memory_ = false;
    }
    for (Flight& flight : flights_) {
      flight.slots = {};
    }
    run_ = {};
    place_ = {};
    next_.clear();
    oldest_ = in_flight_ = begun_ = filled_ = 0;
    published_ = copies_ = sent_ = bytes_ = 0;
    ended_ = false;
  }

 private:
  struct Flight {
    HostRing::Take slots;   // what the copy's end gives back
    std::uint64_t serial{}; // its fence
    Fence<D> after;         // what the stream waits for before it
    Fence<D> also_after;
  };

  bool give_back() {
    bool any = false;
    while (in_flight_ != 0 && out_.copies.reached(flights_[oldest_].serial)) {
      flights_[oldest_].slots.release();
      oldest_ = (oldest_ + 1) % flights_.size();
      --in_flight_;
      any = true;
    }
    return any;
  }

  bool send() {
    gather();
    if (!run_ || !open_place()) {
      return false;
    }
    const std::size_t ready = ready_records();
    const std::size_t records = ragged_ ? ready : make_room(std::min(ready, most_records_));
    Flight& flight = flights_[(oldest_ + in_flight_) % flights_.size()];
    if (filled_ == 0) {
      const Place<D>& place = place_.slot();
      place.free.wait(stream_);
      place.also_free.wait(stream_);
      flight.after = place.free;
      flight.also_after = place.also_free;
    } else {
      flight.after = flight.also_after = {};
    }
    const std::size_t bytes = copy(records);
    flight.serial = out_.copies.record(stream_);
    ++in_flight_;
    ++copies_;
    bytes_ += bytes;

    const bool ends_epoch = records == ready && run_.slot(run_.size() - 1).ends_epoch;
    publish(records, bytes, flight.serial);
    if (ends_epoch || ragged_) {
      publish_partial();
    }
    begun_ += records;
    const std::size_t used = records == ready ? run_.size() : begun_ / in_.grain().records;
    flight.slots = run_.split(used);
    begun_ = run_ ? begun_ - used * in_.grain().records : 0;
    return true;
  }

  void gather() {
    if (run_) {
      // One slot more than a copy holds, since the first may be half done.
      run_.extend(most_slots_ + (begun_ != 0 ? 1 : 0));
      return;
    }
    // Empty slots too: all of an epoch's last records may have been skipped.
    while ((run_ = in_.ring.try_take(most_slots_, Empties::give)) && run_.fill() == Fill::none) {
      const bool ends_epoch = run_.slot().ends_epoch;
      run_.release();
      if (ends_epoch) {
        publish_partial();
      }
    }
  }

  // One copy of each array, from the run to the place. Gives the bytes.
  std::size_t copy(std::size_t records) {
    std::size_t bytes = 0;
    pieces_.clear();
    for (std::size_t part = 0; part < in_.grain().parts.size(); ++part) {
      const std::size_t each = in_.grain().parts[part].each;
      const std::size_t size =
          ragged_ ? in_.places.used(run_.place(), part, records) : records * each;
      if (size != 0) {
        pieces_.push_back({out_.places.data(place_.place(), part) + filled_ * each,
                           in_.places.data(run_.place(), part) + begun_ * each, size});
      }
      bytes += size;
    }
    touches_memory_ = true;
    copy_pieces(device_, pieces_, stream_);
    return bytes;
  }

  std::size_t ready_records() const noexcept {
    return (run_.size() - 1) * in_.grain().records + run_.slot(run_.size() - 1).records - begun_;
  }

  bool open_place() {
    if (!place_) {
      place_ = out_.ring.try_claim();
      filled_ = 0;
    }
    return static_cast<bool>(place_);
  }

  // Claims places after the current one, as far as one copy may go; returns how many records fit.
  std::size_t make_room(std::size_t records) {
    const std::size_t places = out_.ring.slots();
    std::size_t room = out_.grain().records - filled_;
    for (std::size_t i = 0; room < records && place_.place() + i + 1 < places; ++i) {
      if (i == next_.size()) {
        if (PlaceClaim claim = out_.ring.try_claim()) {
          next_.push_back(std::move(claim));
        } else {
          break;
        }
      }
      if (!next_[i].slot().free.reached() || !next_[i].slot().also_free.reached()) {
        break;
      }
      room += out_.grain().records;
    }
    return std::min(room, records);
  }

  // Books `records` into the places and hands the full ones on.
  void publish(std::size_t records, std::size_t bytes, std::uint64_t serial) {
    const std::size_t each = bytes / records;
    std::size_t opened = 0;
    for (std::size_t done = begun_; records != 0;) {
      const std::size_t part = std::min(records, out_.grain().records - filled_);
      Place<D>& place = place_.slot();
      if (filled_ == 0) {
        place.index = sent_;
        place.source = run_.slot(done / in_.grain().records).source_of(done % in_.grain().records);
        place.bytes = 0;
      }
      filled_ += part;
      place.records = filled_;
      place.bytes += ragged_ ? bytes : part * each;
      place.ready = {&out_.copies, serial};
      records -= part;
      sent_ += part;
      done += part;
      if (filled_ == out_.grain().records) {
        out_.ready_serial(published_++) = serial;
        place_.publish();
        filled_ = 0;
        if (opened < next_.size()) {
          place_ = std::move(next_[opened++]);
        }
      }
    }
    next_.erase(next_.begin(), next_.begin() + static_cast<std::ptrdiff_t>(opened));
  }
  void publish_partial() {
    if (place_ && filled_ != 0) {
      out_.ready_serial(published_++) = place_.slot().ready.serial;
      place_.publish(Fill::partial);
      filled_ = 0;
      if (!next_.empty()) {
        place_ = std::move(next_.front());
        next_.erase(next_.begin());
      }
    }
  }

  using PlaceClaim = typename PlaceRing<D>::Claim;

  D& device_;
  HostLink& in_;
  DeviceLink<D>& out_;
  typename D::stream_type stream_;
  const bool ragged_;
  const std::size_t most_records_;
  const std::size_t most_slots_;

  std::array<Flight, 2> flights_;
  std::size_t oldest_{};
  std::size_t in_flight_{};
  HostRing::Take run_; // slots at hand, the first of them begun_ records done
  std::size_t begun_{};
  PlaceClaim place_; // the place being filled, and how far
  std::size_t filled_{};
  std::vector<PlaceClaim> next_; // claimed after it
  std::vector<CopyPiece> pieces_;
  std::uint64_t published_{};
  std::uint64_t copies_{};
  std::uint64_t sent_{}; // units
  std::uint64_t bytes_{};
  bool ended_{};
  bool touches_memory_{}; // as far as nobody has waited for the stream
};

} // namespace penstock::detail
