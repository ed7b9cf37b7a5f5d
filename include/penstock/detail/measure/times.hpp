// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/run/stage_report.hpp>

#include <algorithm>
#include <array>
#include <bit>
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
  void clear() noexcept;
  /// Notes a call that kept the thread for `ns`; `bytes` are those of a pageable copy.
  void add(CallKind kind, std::uint64_t ns, std::uint64_t bytes) noexcept;
  /// Adds these counts to `sum`. Any thread.
  void add_to(DeviceCalls& sum) const noexcept;

 private:
  std::uint64_t calls(CallKind kind) const noexcept;
  double seconds(CallKind kind) const noexcept;

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
  explicit CallsCountIn(CallCounts* counts) noexcept;
  CallsCountIn(const CallsCountIn&) = delete;
  CallsCountIn& operator=(const CallsCountIn&) = delete;
  ~CallsCountIn();

  /// Has this thread's calls count nowhere if one of these may have died on another thread. To be
  /// called before calls_here is followed.
  static void look_for_dead() noexcept;

 private:
  [[gnu::cold]] static void forget() noexcept;
  [[gnu::cold]] void end_out_of_turn() noexcept;

  static inline constinit thread_local CallsCountIn* latest = nullptr;
  static inline constinit StdAtomics::Atomic<std::uint64_t> died_elsewhere{0};
  static inline constinit thread_local std::uint64_t known_dead = 0;

  CallCounts* const counts_;
  CallsCountIn* before_;
  CallsCountIn* const* const on_; // its thread's `latest`
};

/// Returns where a call that this thread makes now is to count; null for nowhere.
CallCounts* counts_here() noexcept;

/// One call of a device, from the beginning of its life to the end. It counts where calls_here says
/// at the beginning; outside callables it costs one look at that.
class [[nodiscard]] NotedCall {
  using Clock = std::chrono::steady_clock;

 public:
  explicit NotedCall(CallKind kind, std::uint64_t bytes = 0) noexcept;
  NotedCall(const NotedCall&) = delete;
  NotedCall& operator=(const NotedCall&) = delete;
  ~NotedCall();

 private:
  CallCounts* const counts_;
  const std::uint64_t bytes_;
  const CallKind kind_;
  Clock::time_point begin_{};
};

/// How long a callable keeps its thread, in all its calls. Only that thread adds. It looks at the
/// clock for every call, but where calls are short on average for one of several, which counts for
/// all of them: the clock costs as much as a hundredth of the shortest.
class CallTimes {
  using Number = StdAtomics::Atomic<std::uint64_t>;
  static constexpr auto relaxed = StdAtomics::relaxed;
  using Clock = std::chrono::steady_clock;

 public:
  void clear() noexcept;
  /// A call begins. Calls do not nest.
  void begin() noexcept;
  /// That call ends.
  void end() noexcept;

  std::uint64_t calls() const noexcept { return calls_.load(relaxed); }
  double seconds() const noexcept { return static_cast<double>(ns_.load(relaxed)) / 1e9; }

 private:
  static constexpr std::uint64_t short_ns = 4'096;
  static constexpr std::uint64_t one_of = 16;

  Number calls_{0};
  Number ns_{0};
  std::uint64_t each_{1}; // calls for which the next that is looked at counts
  std::uint64_t skips_{}; // calls until then
  bool looks_{};
  Clock::time_point begin_{};
};

/// While it lives, its thread is in a callable that enqueues work on a device.
class [[nodiscard]] Calling {
 public:
  Calling(CallTimes& times, CallCounts& counts) noexcept;
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;
  ~Calling() { times_.end(); }

 private:
  CallTimes& times_;
  const CallsCountIn here_;
};

/// How long a worker's units took: counts of nanoseconds, by their first three binary digits. Only
/// its own thread adds. Of very many short ones it looks at some, and counts each for several: to
/// count costs as much as a tenth of the shortest.
class UnitTimes {
  template <class T> using Atomic = StdAtomics::Atomic<T>;
  static constexpr auto relaxed = StdAtomics::relaxed;
  static constexpr std::size_t octaves = 42; // up to an hour
  static constexpr std::size_t kinds = 4 * octaves;

 public:
  void clear() noexcept;
  void add(std::uint64_t ns) noexcept;

  /// The units of several workers.
  class Sum {
   public:
    /// Returns how many units those are.
    std::uint64_t add(const UnitTimes& times) noexcept;
    /// Returns the seconds that this share of all units took at most, to within an eighth of them;
    /// 0 if there are none.
    double at_most(double share) const noexcept;

   private:
    std::array<std::uint64_t, kinds> counts_{};
    std::uint64_t all_{};
  };

 private:
  static constexpr std::uint64_t short_ns = 4096;
  static constexpr std::uint64_t all_looked_at = 1024;
  static constexpr std::uint32_t one_of = 32;

  void count(std::uint64_t ns, std::uint32_t times) noexcept;
  // Times of fewer than three digits count as if they had them.
  static std::size_t kind_of(std::uint64_t ns) noexcept;
  static double middle_of(std::size_t kind) noexcept;

  std::uint64_t short_{};
  std::array<Atomic<std::uint32_t>, kinds> counts_{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void CallCounts::clear() noexcept {
  for (std::size_t kind = 0; kind != kinds; ++kind) {
    calls_[kind].store(0, relaxed);
    ns_[kind].store(0, relaxed);
  }
  pageable_bytes_.store(0, relaxed);
}

PENSTOCK_INLINE void CallCounts::add(CallKind kind, std::uint64_t ns,
                                     std::uint64_t bytes) noexcept {
  const auto at = static_cast<std::size_t>(kind);
  calls_[at].store(calls_[at].load(relaxed) + 1, relaxed);
  ns_[at].store(ns_[at].load(relaxed) + ns, relaxed);
  if (kind == CallKind::pageable_copy) {
    pageable_bytes_.store(pageable_bytes_.load(relaxed) + bytes, relaxed);
  }
}

PENSTOCK_INLINE void CallCounts::add_to(DeviceCalls& sum) const noexcept {
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

PENSTOCK_INLINE std::uint64_t CallCounts::calls(CallKind kind) const noexcept {
  return calls_[static_cast<std::size_t>(kind)].load(relaxed);
}

PENSTOCK_INLINE double CallCounts::seconds(CallKind kind) const noexcept {
  return static_cast<double>(ns_[static_cast<std::size_t>(kind)].load(relaxed)) / 1e9;
}

PENSTOCK_INLINE CallsCountIn::CallsCountIn(CallCounts* counts) noexcept
    : counts_{counts}, before_{(look_for_dead(), latest)}, on_{&latest} {
  latest = this;
  calls_here = counts;
}

PENSTOCK_INLINE CallsCountIn::~CallsCountIn() {
  look_for_dead();
  if (latest == this) {
    latest = before_;
    calls_here = latest != nullptr ? latest->counts_ : nullptr;
  } else {
    end_out_of_turn();
  }
}

PENSTOCK_INLINE void CallsCountIn::look_for_dead() noexcept {
  // Pairs with end_out_of_turn().
  if (died_elsewhere.load(StdAtomics::acquire) != known_dead) {
    forget();
  }
}

PENSTOCK_NOINLINE void CallsCountIn::forget() noexcept {
  known_dead = died_elsewhere.load(StdAtomics::acquire);
  latest = nullptr;
  calls_here = nullptr;
}

PENSTOCK_NOINLINE void CallsCountIn::end_out_of_turn() noexcept {
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

PENSTOCK_INLINE CallCounts* counts_here() noexcept {
  if (calls_here != nullptr) {
    CallsCountIn::look_for_dead();
  }
  return calls_here;
}

PENSTOCK_INLINE NotedCall::NotedCall(CallKind kind, std::uint64_t bytes) noexcept
    : counts_{counts_here()}, bytes_{bytes}, kind_{kind} {
  if (counts_ != nullptr) {
    begin_ = Clock::now();
  }
}

PENSTOCK_INLINE NotedCall::~NotedCall() {
  if (counts_ != nullptr) {
    const auto ns = (Clock::now() - begin_) / std::chrono::nanoseconds{1};
    counts_->add(kind_, static_cast<std::uint64_t>(ns), bytes_);
  }
}

PENSTOCK_INLINE void CallTimes::clear() noexcept {
  calls_.store(0, relaxed);
  ns_.store(0, relaxed);
  each_ = 1;
  skips_ = 0;
}

PENSTOCK_INLINE void CallTimes::begin() noexcept {
  looks_ = skips_ == 0;
  if (looks_) {
    begin_ = Clock::now();
  } else {
    --skips_;
  }
}

PENSTOCK_INLINE void CallTimes::end() noexcept {
  calls_.store(calls() + 1, relaxed);
  if (looks_) {
    const auto ns =
        static_cast<std::uint64_t>((Clock::now() - begin_) / std::chrono::nanoseconds{1});
    const std::uint64_t sum = ns_.load(relaxed) + ns * each_;
    ns_.store(sum, relaxed);
    each_ = sum < short_ns * calls() ? one_of : 1;
    skips_ = each_ - 1;
  }
}

PENSTOCK_INLINE Calling::Calling(CallTimes& times, CallCounts& counts) noexcept
    : times_{times}, here_{&counts} {
  times_.begin();
}

PENSTOCK_INLINE void UnitTimes::clear() noexcept {
  short_ = 0;
  for (Atomic<std::uint32_t>& count : counts_) {
    count.store(0, relaxed);
  }
}

PENSTOCK_INLINE void UnitTimes::add(std::uint64_t ns) noexcept {
  if (ns >= short_ns) {
    count(ns, 1);
  } else if (const std::uint64_t number = short_++; number < all_looked_at) {
    count(ns, 1);
  } else if (number % one_of == 0) {
    count(ns, one_of);
  }
}

PENSTOCK_INLINE std::uint64_t UnitTimes::Sum::add(const UnitTimes& times) noexcept {
  const std::uint64_t before = all_;
  for (std::size_t kind = 0; kind != kinds; ++kind) {
    const std::uint64_t count = times.counts_[kind].load(relaxed);
    counts_[kind] += count;
    all_ += count;
  }
  return all_ - before;
}

PENSTOCK_INLINE double UnitTimes::Sum::at_most(double share) const noexcept {
  const auto wanted = static_cast<std::uint64_t>(static_cast<double>(all_) * share);
  std::uint64_t before = 0;
  for (std::size_t kind = 0; kind != kinds; ++kind) {
    before += counts_[kind];
    if (before > wanted || (before == all_ && before != 0)) {
      return middle_of(kind) / 1e9;
    }
  }
  return 0;
}

PENSTOCK_NOINLINE void UnitTimes::count(std::uint64_t ns, std::uint32_t times) noexcept {
  Atomic<std::uint32_t>& count = counts_[kind_of(ns)];
  count.store(count.load(relaxed) + times, relaxed);
}

PENSTOCK_INLINE std::size_t UnitTimes::kind_of(std::uint64_t ns) noexcept {
  const std::uint64_t at_least = std::max<std::uint64_t>(ns, 4);
  const auto digits = 64 - static_cast<std::size_t>(std::countl_zero(at_least));
  return std::min(4 * (digits - 3) + (at_least >> (digits - 3)) - 4, kinds - 1);
}

PENSTOCK_INLINE double UnitTimes::middle_of(std::size_t kind) noexcept {
  const auto from = static_cast<double>((4 + kind % 4) << (kind / 4));
  const auto width = static_cast<double>(std::uint64_t{1} << (kind / 4));
  return from + width / 2;
}
#endif

} // namespace penstock::detail
