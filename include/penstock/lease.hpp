// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/data/visit.hpp>
#include <penstock/detail/base/origin.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/order/position.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

namespace penstock {

namespace detail {

/// Returns S as the compiler spells it: the same in every shared library. An object's address is
/// not, where a library hides what it does not export.
template <class S> consteval std::string_view name_of() {
  constexpr std::string_view text = __PRETTY_FUNCTION__; // "... S = penstock::HostStream; ...]"
  constexpr std::size_t begin = text.find("S = ") + 4;
  return text.substr(begin, text.find_first_of(";]", begin) - begin);
}
/// The kind of a stream, which may be a pointer to a type that has a name.
template <class S>
inline constexpr std::string_view stream_kind =
    name_of<std::remove_cv_t<std::remove_pointer_t<std::remove_cv_t<S>>>>();

/// A stream of any device, without its type; of no kind: no stream. Null is a stream, CUDA's
/// default one.
struct StreamHandle {
  const void* stream{};
  std::string_view kind{};

  bool operator==(const StreamHandle&) const = default;
  explicit operator bool() const noexcept { return !kind.empty(); }

  template <class S> static StreamHandle of(S& stream) noexcept {
    if constexpr (std::is_pointer_v<std::remove_cv_t<S>>) {
      return {stream, stream_kind<S>};
    } else if constexpr (requires { stream.get(); }) {
      auto&& native = stream.get();
      return of(native);
    } else {
      return {&stream, stream_kind<S>};
    }
  }
  /// Returns whether a device can take it as S; a null that is written out fits any pointer.
  template <class S> bool is() const noexcept {
    return kind == stream_kind<std::remove_reference_t<S>> ||
           (std::is_pointer_v<S> && kind == stream_kind<std::nullptr_t>);
  }
  /// Returns the stream as S.
  template <class S> S as() const noexcept {
    if constexpr (std::is_pointer_v<S>) {
      return static_cast<S>(const_cast<void*>(stream));
    } else {
      return *static_cast<std::remove_reference_t<S>*>(const_cast<void*>(stream));
    }
  }
};

/// Lends the batches that leases hold, and takes their places back. One thread at a time, and while
/// a loop goes on its thread only: what comes back on another one is lost until the next run.
class Lender {
 public:
  virtual ~Lender() = default;
  virtual void give_back(std::uint64_t ticket) noexcept = 0;

  /// Say that a loop of the calling thread begins, and that it is over.
  /// @{
  void belong_here() noexcept { owner_.store(std::this_thread::get_id(), StdAtomics::relaxed); }
  void belong_to_all() noexcept { owner_.store({}, StdAtomics::relaxed); }
  /// @}
  /// Returns whether the calling thread may use the leases. Any thread.
  bool is_owner() const noexcept;
  /// Notes that a lease has come back on a thread that may not use it. Any thread.
  [[gnu::cold]] void note_stray() noexcept;
  /// Throws Error if that has happened.
  void check_no_strays() const;
  /// Returns how many leases are lost; the second forgets them.
  /// @{
  std::size_t strays() const noexcept { return strays_.load(StdAtomics::relaxed); }
  std::size_t forget_strays() noexcept;
  /// @}
  /// Gives the places back that came back before and wait for others.
  virtual void record_given() noexcept {}
  virtual void used_on(std::uint64_t ticket, StreamHandle stream) = 0;
  /// Return where the run stands behind a batch, and which record of it is which.
  /// @{
  virtual Position position(std::uint64_t ticket) = 0;
  virtual Visit visit(std::uint64_t ticket, std::size_t i) = 0;
  /// @}

  const Origin origin;

 private:
  [[noreturn, gnu::cold]] static void throw_strayed();

  StdAtomics::Atomic<std::thread::id> owner_{}; // none: no loop goes on
  StdAtomics::Atomic<std::size_t> strays_{0};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE bool Lender::is_owner() const noexcept {
  const std::thread::id owner = owner_.load(StdAtomics::relaxed);
  return owner == std::this_thread::get_id() || owner == std::thread::id{};
}

PENSTOCK_INLINE void Lender::note_stray() noexcept {
  strays_.fetch_add(1, StdAtomics::release); // pairs with forget_strays()
}

PENSTOCK_INLINE void Lender::check_no_strays() const {
  if (strays_.load(StdAtomics::relaxed) != 0) [[unlikely]] {
    throw_strayed();
  }
}

PENSTOCK_INLINE std::size_t Lender::forget_strays() noexcept {
  return strays_.exchange(0, StdAtomics::acquire); // pairs with note_stray()
}

PENSTOCK_INLINE void Lender::throw_strayed() {
  throw Error{"penstock: a lease was released on another thread than the loop's, which takes no "
              "lock: hand it back, and release it on the loop's thread."};
}
#endif

} // namespace detail

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
/// Later, one thread at a time may use the leases of one pipeline.
template <class B> class Lease : public B {
 public:
  Lease() = default;
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
    if (!lender.is_owner()) {
      throw OptionError{"penstock: used_on() was called on another thread than the loop's: call it "
                        "in the loop, before the work is handed on."};
    }
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
      throw OptionError{"penstock: used_on(), position() or visit() was called on a lease that has "
                        "been released: call it before."};
    }
    return *lender_;
  }

  detail::Shared<detail::Lender> lender_;
  std::uint64_t ticket_{};
  std::uint64_t epoch_{};
};

} // namespace penstock
