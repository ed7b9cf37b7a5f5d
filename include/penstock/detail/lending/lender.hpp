// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/data/visit.hpp>
#include <penstock/detail/base/interrupt.hpp>
#include <penstock/detail/base/origin.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/lending/returns.hpp>
#include <penstock/detail/lending/stream_handle.hpp>
#include <penstock/error.hpp>
#include <penstock/order/position.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace penstock::detail {

/// Lends the batches that leases hold, and takes their places back. One thread at a time, and while
/// a loop goes on its thread only: a plain lease that comes back on another one is lost until the
/// next run. Shared ones come back into a box, on any thread, and that thread empties it.
class Lender {
 public:
  virtual ~Lender() = default;
  virtual void give_back(std::uint64_t ticket) noexcept = 0;
  /// Returns whether the next batch can come while those leases are out that are.
  virtual bool has_room() noexcept = 0;
  /// Returns how many leases are out, shared or not.
  virtual std::size_t lent() const noexcept = 0;

  /// Say that a loop of the calling thread begins, which waits so long for shared leases, and that
  /// it is over.
  /// @{
  void belong_here(std::chrono::milliseconds patience) noexcept;
  void belong_to_all() noexcept { owner_.store({}, StdAtomics::relaxed); }
  /// @}
  /// Returns whether the calling thread may use the leases. Any thread.
  bool is_owner() const noexcept;
  /// Throws OptionError if it may not; `what` names the call.
  void check_owner(const char* what) const {
    if (!is_owner()) [[unlikely]] {
      throw_elsewhere(what);
    }
  }
  /// Notes that a lease has come back on a thread that may not use it. Any thread.
  [[gnu::cold]] void note_stray() noexcept;
  /// Throws Error if that has happened.
  void check_no_strays() const {
    if (strays_.load(StdAtomics::relaxed) != 0) [[unlikely]] {
      throw_strayed();
    }
  }
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

  /// Notes that one more lease is shared.
  void share() noexcept { ++shared_; }
  /// Returns whether shared leases are out, or lie in the box.
  bool has_shared() const noexcept { return shared_ != 0; }
  /// Where a shared lease comes back. Any thread.
  Returns<>& returns() noexcept { return returns_; }
  /// Gives back what lies in the box.
  void take_back() noexcept;
  /// Does so, and blocks until the next batch can come, or no shared lease is out, or the loop's
  /// patience is over. Returns false if the run ends meanwhile.
  [[gnu::cold]] bool await_room(const Interrupt& run) noexcept;
  /// Does so before a run, until all that are out are back; not if leases are out that nobody
  /// shares.
  [[gnu::cold]] void await_all(const Interrupt& run) noexcept;

  const Origin origin;

 private:
  using Clock = std::chrono::steady_clock;

  [[noreturn, gnu::cold]] static void throw_strayed();
  [[noreturn, gnu::cold]] static void throw_elsewhere(const char* what);
  template <class Ready> bool await(Ready ready, const Interrupt& run) noexcept {
    // A stop rings no bell here.
    constexpr std::chrono::nanoseconds look_again = std::chrono::milliseconds{5};
    std::optional<Clock::time_point> due;
    for (;;) {
      const std::uint32_t seen = returns_.count();
      take_back();
      if (shared_ == 0 || ready()) {
        return true;
      }
      if (run.raised()) {
        return false;
      }
      const Clock::time_point now = Clock::now();
      due = due ? due : now + patience_;
      record_given(); // who fills places need not wait too
      if (now >= *due) {
        return true;
      }
      returns_.wait(seen, std::min<std::chrono::nanoseconds>(*due - now, look_again));
    }
  }

  StdAtomics::Atomic<std::thread::id> owner_{}; // none: no loop goes on
  StdAtomics::Atomic<std::size_t> strays_{0};
  std::size_t shared_{}; // of the leases that are out
  std::chrono::milliseconds patience_{};
  Returns<> returns_;
};

/// What the copies of a shared lease have in common. The last of them puts it into the lender's
/// box.
class SharedTicket : Return {
 public:
  /// Has one owner.
  SharedTicket(Shared<Lender> lender, std::uint64_t number) noexcept
      : Return{number}, lender_{std::move(lender)} {}

  Lender& lender() const noexcept { return *lender_; }
  std::uint64_t number() const noexcept { return ticket; }

  void add_owner() noexcept { owners_.fetch_add(1, StdAtomics::relaxed); }
  /// Any thread; calls no device, unless nobody but this has the lender any more.
  void leave() noexcept;

 private:
  friend void Lender::take_back() noexcept;

  Shared<Lender> lender_;
  StdAtomics::Atomic<std::size_t> owners_{1};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void Lender::belong_here(std::chrono::milliseconds patience) noexcept {
  // A time point must be able to hold now and as much.
  patience_ = std::clamp<std::chrono::milliseconds>(patience, std::chrono::milliseconds{0},
                                                    std::chrono::hours{24 * 365});
  owner_.store(std::this_thread::get_id(), StdAtomics::relaxed);
}

PENSTOCK_INLINE bool Lender::is_owner() const noexcept {
  const std::thread::id owner = owner_.load(StdAtomics::relaxed);
  return owner == std::this_thread::get_id() || owner == std::thread::id{};
}

PENSTOCK_INLINE void Lender::note_stray() noexcept {
  strays_.fetch_add(1, StdAtomics::release); // pairs with forget_strays()
}

PENSTOCK_INLINE std::size_t Lender::forget_strays() noexcept {
  return strays_.exchange(0, StdAtomics::acquire); // pairs with note_stray()
}

PENSTOCK_INLINE bool Lender::await_room(const Interrupt& run) noexcept {
  return await([this] { return has_room(); }, run);
}

PENSTOCK_INLINE void Lender::await_all(const Interrupt& run) noexcept {
  await([this] { return lent() - strays() != shared_; }, run);
}

PENSTOCK_INLINE void Lender::throw_strayed() {
  throw Error{"penstock: a lease was released on another thread than the loop's, which takes no "
              "lock: hand it back, and release it on the loop's thread, or hand on what "
              "lease.share() gives instead, which any thread may release."};
}

PENSTOCK_INLINE void Lender::throw_elsewhere(const char* what) {
  throw OptionError{std::string{"penstock: "} + what +
                    " was called on another thread than the loop's: call it in the loop, before "
                    "the work is handed on."};
}

PENSTOCK_INLINE void SharedTicket::leave() noexcept {
  // In a forked child it stays as it is, with what it keeps alive. Pairs with itself: the last
  // owner puts into the box what all others did.
  if (lender_->origin.is_here() && owners_.fetch_sub(1, StdAtomics::acq_rel) == 1) {
    const Shared<Lender> lender = std::move(lender_); // the box, or what has it, may be the last
    lender->returns().put(*this);
  }
}

PENSTOCK_INLINE void Lender::take_back() noexcept {
  for (Return* back = returns_.take(); back != nullptr;) {
    const Owned<SharedTicket> ticket{static_cast<SharedTicket*>(std::exchange(back, back->next))};
    --shared_;
    give_back(ticket->ticket);
  }
}
#endif

} // namespace penstock::detail
