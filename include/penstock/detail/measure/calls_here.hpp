// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/run/stage_report.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// What a callable may ask of a device.
enum class CallKind : std::uint8_t { launch, wait, allocation, copy, pageable_copy };

/// Counts what one worker's callable asks of a device. Only the worker's own thread adds.
class CallCounts {
  template <class T> using Atomic = StdAtomics::Atomic<T>;
  static constexpr auto relaxed = StdAtomics::relaxed;
  static constexpr std::size_t kinds = 5;

 public:
  void clear() noexcept {
    for (std::size_t kind = 0; kind != kinds; ++kind) {
      calls_[kind].store(0, relaxed);
      ns_[kind].store(0, relaxed);
    }
    pageable_bytes_.store(0, relaxed);
  }
  /// Notes a call that kept the thread for `ns`; `bytes` are those of a pageable copy.
  void add(CallKind kind, std::uint64_t ns, std::uint64_t bytes) noexcept {
    const auto at = static_cast<std::size_t>(kind);
    calls_[at].store(calls_[at].load(relaxed) + 1, relaxed);
    ns_[at].store(ns_[at].load(relaxed) + ns, relaxed);
    if (kind == CallKind::pageable_copy) {
      pageable_bytes_.store(pageable_bytes_.load(relaxed) + bytes, relaxed);
    }
  }
  /// Adds these counts to `sum`. Any thread.
  void add_to(DeviceCalls& sum) const noexcept {
    sum.launches += calls(CallKind::launch);
    sum.waits += calls(CallKind::wait);
    sum.allocations += calls(CallKind::allocation);
    sum.copies += calls(CallKind::copy) + calls(CallKind::pageable_copy);
    sum.pageable_copies += calls(CallKind::pageable_copy);
    sum.pageable_bytes += pageable_bytes_.load(relaxed);
    sum.launch_s += seconds(CallKind::launch);
    sum.wait_s += seconds(CallKind::wait);
    sum.allocation_s += seconds(CallKind::allocation);
    sum.copy_s += seconds(CallKind::copy) + seconds(CallKind::pageable_copy);
  }

 private:
  std::uint64_t calls(CallKind kind) const noexcept {
    return calls_[static_cast<std::size_t>(kind)].load(relaxed);
  }
  double seconds(CallKind kind) const noexcept {
    return static_cast<double>(ns_[static_cast<std::size_t>(kind)].load(relaxed)) / 1e9;
  }

  std::array<Atomic<std::uint64_t>, kinds> calls_{};
  std::array<Atomic<std::uint64_t>, kinds> ns_{};
  Atomic<std::uint64_t> pageable_bytes_{0};
};

/// Where this thread's calls of a device count: null, but inside a callable of a stage or the body
/// of a loop.
inline constinit thread_local CallCounts* calls_here = nullptr;

/// While it lives, this thread's calls count there, or nowhere if that is null, unless a later one
/// lives. They may die in any order, as the bodies of two loops end that are walked in turns. It is
/// to die on the thread that made it: if it does not, what that thread does later finds no place
/// that is gone, but from then on calls of all threads count only in places made since.
class [[nodiscard]] CallsCountIn {
 public:
  explicit CallsCountIn(CallCounts* counts) noexcept
      : counts_{counts}, before_{(look_for_dead(), latest)}, on_{&latest} {
    latest = this;
    calls_here = counts;
  }
  CallsCountIn(const CallsCountIn&) = delete;
  CallsCountIn& operator=(const CallsCountIn&) = delete;
  ~CallsCountIn() {
    look_for_dead();
    if (latest == this) {
      latest = before_;
      calls_here = latest != nullptr ? latest->counts_ : nullptr;
    } else {
      end_out_of_turn();
    }
  }

  /// Has this thread's calls count nowhere if one of these may have died on another thread. To be
  /// called before calls_here is followed.
  static void look_for_dead() noexcept {
    // Pairs with end_out_of_turn().
    if (died_elsewhere.load(StdAtomics::acquire) != known_dead) {
      forget();
    }
  }

 private:
  [[gnu::cold, gnu::noinline]] static void forget() noexcept {
    known_dead = died_elsewhere.load(StdAtomics::acquire);
    latest = nullptr;
    calls_here = nullptr;
  }
  [[gnu::cold, gnu::noinline]] void end_out_of_turn() noexcept {
    if (on_ != &latest) {
      died_elsewhere.fetch_add(1, StdAtomics::release); // pairs with look_for_dead()
      return;
    }
    CallsCountIn* later = latest;
    while (later != nullptr && later->before_ != this) {
      later = later->before_;
    }
    if (later != nullptr) {
      later->before_ = before_;
    }
  }

  static inline constinit thread_local CallsCountIn* latest = nullptr;
  static inline constinit StdAtomics::Atomic<std::uint64_t> died_elsewhere{0};
  static inline constinit thread_local std::uint64_t known_dead = 0;

  CallCounts* const counts_;
  CallsCountIn* before_;
  CallsCountIn* const* const on_; // its thread's `latest`
};

/// Returns where a call that this thread makes now is to count; null for nowhere.
inline CallCounts* counts_here() noexcept {
  if (calls_here != nullptr) {
    CallsCountIn::look_for_dead();
  }
  return calls_here;
}

/// One call of a device, from the beginning of its life to the end. It counts where calls_here says
/// at the beginning; outside callables it costs one look at that.
class [[nodiscard]] NotedCall {
  using Clock = std::chrono::steady_clock;

 public:
  explicit NotedCall(CallKind kind, std::uint64_t bytes = 0) noexcept
      : counts_{counts_here()}, bytes_{bytes}, kind_{kind} {
    if (counts_ != nullptr) {
      begin_ = Clock::now();
    }
  }
  NotedCall(const NotedCall&) = delete;
  NotedCall& operator=(const NotedCall&) = delete;
  ~NotedCall() {
    if (counts_ != nullptr) {
      const auto ns = (Clock::now() - begin_) / std::chrono::nanoseconds{1};
      counts_->add(kind_, static_cast<std::uint64_t>(ns), bytes_);
    }
  }

 private:
  CallCounts* const counts_;
  const std::uint64_t bytes_;
  const CallKind kind_;
  Clock::time_point begin_{};
};

} // namespace penstock::detail
