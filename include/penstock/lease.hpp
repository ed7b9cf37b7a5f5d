// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/visit.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/lending/lender.hpp>
#include <penstock/detail/lending/stream_handle.hpp>
#include <penstock/error.hpp>
#include <penstock/order/position.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace penstock {

template <class B> class SharedLease;

/// A batch of your own loop, with its place: what `for (auto batch : pipeline.on(stream))` and
/// Batches::next() give. It is a Batch to everything that takes one. When you release it or it dies
/// its place goes back; for a device batch this records an event on the loop's stream, and never
/// waits. Small batches whose leases die, or are assigned over, one after the other may share an
/// event, which the loop's next step records. Move-only.
///
/// You may give leases back in any order, but the places are used in turn. A lease kept while the
/// loop goes on holds up the ring when its place comes round again; the loop's next step then
/// throws an error. Leases keep their memory alive past the pipeline, not past the device and the
/// stream. While the loop goes on, only its thread may release, assign over or destroy its leases:
/// what another thread releases is not given back, and the loop's next step throws an error.
/// Later, one thread at a time may use the leases of one pipeline. What travels to other threads is
/// what share() gives.
template <class B> class Lease : public B {
 public:
  Lease() = default;
  Lease(const Lease&) = delete; // share() it, or let work take its data(), size() or columns
  /// Moves the lease; `other` then has no place.
  Lease(Lease&& other) noexcept
      : B{other}, lender_{std::move(other.lender_)}, ticket_{other.ticket_}, epoch_{other.epoch_} {}
  /// Gives back what this one held first, as the destructor does.
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      give_back(false);
      B::operator=(other);
      lender_ = std::move(other.lender_);
      ticket_ = other.ticket_;
      epoch_ = other.epoch_;
    }
    return *this;
  }
  ~Lease() { give_back(false); }

  /// Returns whether it still has its place.
  explicit operator bool() const noexcept { return static_cast<bool>(lender_); }

  /// Returns the epoch of its records, from 0. A batch never spans two.
  std::uint64_t epoch() const noexcept { return epoch_; }

  /// Returns where the run stands when this batch is used up: `pipeline.run({.from = position})`
  /// goes on behind it. Throws OptionError after the release, and if the run has no such place: the
  /// source's records come in order only, or a batch in host memory holds what a stage made of
  /// another number of records.
  Position position() const { return held().position(ticket_); }
  /// Returns which record of the source the `i`-th of the batch is, or is made of, with its epoch
  /// and its step, whatever was left out of the batch. Throws OptionError after the release, for a
  /// record that the batch does not have, and where a stage gives another number of records than it
  /// takes.
  Visit visit(std::size_t i) const {
    detail::Lender& lender = held();
    check_index(i);
    return lender.visit(ticket_, i);
  }

  /// Gives the place back now. Never blocks; the loop's next step throws what goes wrong.
  void release() noexcept { give_back(true); }

  /// Says that work on `stream`, one besides the loop's, uses the batch too. The place is then free
  /// when everything enqueued there until you release the lease is done. That work itself must wait
  /// for the loop's stream, or for an event on it, to see the batch. Throws OptionError for a
  /// stream of another device's kind, for a third stream, and after the release; DeviceError for a
  /// stream that captures a graph.
  template <class S>
    requires(!std::is_integral_v<std::remove_cvref_t<S>>)
  void used_on(S&& stream) {
    use(detail::StreamHandle::of(stream));
  }
  /// Says that work on CUDA's default stream, written 0 or nullptr, uses the batch too.
  void used_on(std::nullptr_t) { use({nullptr, detail::stream_kind<std::nullptr_t>}); }

  /// Returns the lease in a form that may be copied, and that any thread may release; this one then
  /// has no place. Allocates some 40 bytes. Throws OptionError after the release, and on another
  /// thread than the loop's.
  [[nodiscard]] SharedLease<B> share();

  /// For the loop.
  Lease(const B& batch, detail::Shared<detail::Lender> lender, std::uint64_t ticket,
        std::uint64_t epoch) noexcept
      : B{batch}, lender_{std::move(lender)}, ticket_{ticket}, epoch_{epoch} {}

 private:
  void give_back(bool now) noexcept {
    if (lender_ && !lender_->origin.is_here()) {
      std::construct_at(&lender_); // in a forked child: what it kept alive stays
    } else if (const detail::Shared<detail::Lender> lender = std::move(lender_)) {
      if (!lender->is_owner()) {
        lender->note_stray();
        return;
      }
      lender->give_back(ticket_);
      if (now) {
        lender->record_given();
      }
    }
  }
  [[gnu::cold]] void use(detail::StreamHandle stream) {
    detail::Lender& lender = held();
    lender.check_owner("used_on()");
    lender.used_on(ticket_, stream);
  }
  [[gnu::cold]] void check_index(std::size_t i) const {
    std::size_t records = 0;
    if constexpr (requires { this->capacity(); }) {
      records = this->capacity();
    } else {
      records = this->size();
    }
    if (i >= records) {
      detail::throw_error<OptionError>(
          {"penstock: visit() was asked for record ", i, " of a batch of ", records,
           ": the first has the number 0, and the last ", records - 1, "."});
    }
  }
  detail::Lender& held() const {
    if (!lender_) {
      throw OptionError{"penstock: share(), used_on(), position() or visit() was called on a lease "
                        "that has been released: call it before."};
    }
    return *lender_;
  }

  detail::Shared<detail::Lender> lender_;
  std::uint64_t ticket_{};
  std::uint64_t epoch_{};
};

/// A lease that travels: a batch whose place goes back when the last copy is gone. Copies may die,
/// be released and be assigned over on any thread, also there in the middle of a stream's capture,
/// after the run, and after the pipeline. That throws nothing, blocks nobody and calls no device:
/// the place goes back with the loop's next step, or with the next run, which records an event on
/// the loop's stream. That covers all work enqueued by then, the batch's and later one.
///
/// A step of the loop that needs a place which a shared lease has waits for it, as long as
/// RunOptions::lease_wait says; so does a next run. Host work on a batch must be done when its last
/// copy dies, and work on another stream than the loop's must be known: used_on(). The device, the
/// loop's stream and those streams must outlive the copies, and the next run after them, or the
/// pipeline. If the pipeline is gone, the last copy of its last batch frees the memory, which calls
/// the device, and may wait for it.
///
/// Any thread may read the batch. An object is used by one thread at a time, as a std::shared_ptr.
template <class B> class SharedLease : public B {
 public:
  /// Is empty.
  SharedLease() = default;
  /// Shares the place with `other`. Any thread that may use `other`.
  SharedLease(const SharedLease& other) noexcept
      : B{other}, ticket_{other.ticket_}, epoch_{other.epoch_} {
    if (ticket_) {
      ticket_->add_owner();
    }
  }
  /// Moves it; `other` is then empty.
  SharedLease(SharedLease&& other) noexcept
      : B{other}, ticket_{std::exchange(other.ticket_, nullptr)}, epoch_{other.epoch_} {}
  /// Releases what this one held, as the destructor does.
  SharedLease& operator=(SharedLease other) noexcept {
    B::operator=(other);
    std::swap(ticket_, other.ticket_);
    epoch_ = other.epoch_;
    return *this;
  }
  ~SharedLease() { release(); }

  /// Returns whether it holds a place.
  explicit operator bool() const noexcept { return ticket_ != nullptr; }
  /// Returns the epoch of its records, from 0.
  std::uint64_t epoch() const noexcept { return epoch_; }

  /// Makes this copy empty; the last one gives the place back. Any thread; never blocks.
  void release() noexcept {
    if (detail::SharedTicket* const ticket = std::exchange(ticket_, nullptr)) {
      ticket->leave();
    }
  }

  /// Says that work on `stream`, one besides the loop's, uses the batch too, as Lease::used_on()
  /// does: the place is free when everything is done that was enqueued there until the loop's
  /// thread takes it back. Throws what that does; OptionError too while a loop goes on, and this is
  /// not its thread.
  template <class S>
    requires(!std::is_integral_v<std::remove_cvref_t<S>>)
  void used_on(S&& stream) {
    use(detail::StreamHandle::of(stream));
  }
  /// Says that work on CUDA's default stream, written 0 or nullptr, uses the batch too.
  void used_on(std::nullptr_t) { use({nullptr, detail::stream_kind<std::nullptr_t>}); }

  /// For Lease::share().
  SharedLease(const B& batch, detail::Owned<detail::SharedTicket> ticket,
              std::uint64_t epoch) noexcept
      : B{batch}, ticket_{ticket.release()}, epoch_{epoch} {}

 private:
  [[gnu::cold]] void use(detail::StreamHandle stream) {
    if (!ticket_) {
      throw OptionError{"penstock: used_on() was called on a shared lease that is empty: call it "
                        "before it is released."};
    }
    detail::Lender& lender = ticket_->lender();
    lender.check_owner("used_on()");
    lender.used_on(ticket_->number(), stream);
  }

  detail::SharedTicket* ticket_{};
  std::uint64_t epoch_{};
};

template <class B> SharedLease<B> Lease<B>::share() {
  detail::Lender& lender = held();
  lender.check_owner("share()");
  detail::Owned<detail::SharedTicket> ticket{new detail::SharedTicket{lender_, ticket_}};
  lender.share();
  lender_ = {};
  return {*this, std::move(ticket), epoch_};
}

} // namespace penstock

/// @cond
// As of its Batch.
template <class B>
inline constexpr bool std::ranges::disable_sized_range<penstock::Lease<B>> = true;
/// @endcond
