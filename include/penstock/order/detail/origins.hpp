// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/ring/ring.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

/// A place in a run's order, and how many of the outputs made from there on come before another.
struct MadeFrom {
  std::uint64_t place;
  std::uint64_t made;
};

/// What knows of which places in a run's order outputs are made, where a Decoder gives another
/// number of records than it takes.
struct OutputOrigins {
  OutputOrigins() = default;
  OutputOrigins(const OutputOrigins&) = delete;
  OutputOrigins& operator=(const OutputOrigins&) = delete;
  virtual ~OutputOrigins() = default;
  /// Begins a run, whose first `dropped` outputs an earlier run has given.
  virtual void reset(std::uint64_t dropped) noexcept = 0;
  /// Returns where what follows the first `outputs` comes from. Any thread.
  virtual MadeFrom origin(std::uint64_t outputs) const noexcept = 0;
};

/// The numbers in their source of units that travel together, some of which may have been skipped,
/// and, behind the last, the number at which the source goes on: it is behind what was skipped
/// there. The numbers follow each other but for jumps, which it keeps in a list. The list's memory
/// grows to the largest number of jumps so far, and stays.
class SourceNumbers {
  // From unit `at` on, a unit's number is its place among the others plus `shift`, modulo 2^64.
  struct Jump {
    std::uint64_t at, shift;
  };
  struct Jumps {
    Vector<Jump> list;  // in order
    std::size_t past{}; // of them: forgotten
  };

 public:
  SourceNumbers() = default;
  SourceNumbers(const SourceNumbers&) = delete;
  SourceNumbers& operator=(const SourceNumbers&) = delete;
  /// Gives unit 0 this number, and the units after it the next ones. Forgets all known before.
  void start(std::uint64_t number) noexcept;
  /// Takes over what `from` has, and leaves it with contents that nobody needs. Writes to `from`
  /// only if it has jumps, since it may lie in another processor's cache.
  void take(SourceNumbers& from) noexcept;

  /// Returns the number of a unit.
  std::uint64_t operator[](std::uint64_t unit) const noexcept {
    return unit + (jumps_ ? shift_before(after(unit)) : shift_);
  }

  /// Gives unit `at` this number, and the units after it the next ones, whatever they had. May
  /// throw std::bad_alloc.
  void go_on(std::uint64_t at, std::uint64_t number);
  /// Gives `count` units from `at` on the numbers of the units of `from` from `first` on.
  void go_on(std::uint64_t at, const SourceNumbers& from, std::uint64_t first, std::uint64_t count);

  /// Forgets the units before this one: nobody will ask for them.
  void forget_before(std::uint64_t unit) noexcept;

 private:
  const Jump* begin() const noexcept { return jumps_ ? list_->list.data() + list_->past : nullptr; }
  const Jump* end() const noexcept;
  const Jump* after(std::uint64_t unit) const noexcept;
  std::uint64_t shift_before(const Jump* jump) const noexcept;

  std::uint64_t shift_{}; // before the first jump
  Owned<Jumps> list_;     // none before the first, so that slots are small
  bool jumps_{};          // whether there are any, in the list: else that is an older one
};

/// The numbers in the source of what a copier has sent to the device and has not come back, in the
/// order in which it was sent: kept if a stage wants them. Only the device thread uses it.
class OnTheWay {
 public:
  /// Says that a stage wants them. Only a program with such a stage compiles what keeps them.
  void want() noexcept;
  bool is_wanted() const noexcept { return keep_ != nullptr; }
  /// Gives units that are wanted their numbers: see SourceNumbers::go_on().
  void go_on(std::uint64_t at, const SourceNumbers& from, std::uint64_t first, std::uint64_t count);

  SourceNumbers numbers{};

 private:
  void (*keep_)(SourceNumbers& kept, std::uint64_t at, const SourceNumbers& from,
                std::uint64_t first, std::uint64_t count){};
};

/// From where in its run's order a Decoder made which of its outputs: a list of places, each with
/// the number of the first output behind it. One thread at a time notes them, in order; any thread
/// asks. Its memory is fixed: of places long ago it keeps fewer and fewer, and one that it forgot
/// is told by one before it and more outputs.
template <class Policy = RingPolicy> class OutputLog {
  using Atomics = typename Policy::Atomics;
  using Number = typename Atomics::template Atomic<std::uint64_t>;

 public:
  /// Keeps at most so many places, a multiple of 4.
  explicit OutputLog(std::size_t most = 4096) : list_(most) { reset(0); }

  /// Begins a run, whose first `dropped` outputs an earlier run has given. No other thread may be
  /// inside.
  [[gnu::cold]] void reset(std::uint64_t dropped) noexcept {
    dropped_ = dropped;
    set(0, 0, 0);
    count_.store(1, Atomics::relaxed);
  }
  /// Says that output number `output`, and those after it, are made from this place on.
  void note(std::uint64_t output, std::uint64_t place) noexcept {
    const std::uint64_t version = version_.load(Atomics::relaxed);
    version_.store(version + 1, Atomics::relaxed);
    std::uint64_t count = count_.load(Atomics::relaxed);
    if (list_[count - 1].output.load(Atomics::relaxed) == output) {
      --count; // nothing was made from there
    } else if (count == list_.size()) {
      count = thin_out();
    }
    set(count, output, place);
    count_.store(count + 1, Atomics::relaxed);
    version_.store(version + 2, Atomics::release); // pairs with origin()
  }
  /// Returns where what follows the first `outputs` comes from. Waits while note() runs.
  MadeFrom origin(std::uint64_t outputs) const noexcept {
    outputs = outputs < dropped_ ? dropped_ : outputs;
    for (;;) {
      const std::uint64_t version = version_.load(Atomics::acquire); // pairs with note()
      if (version % 2 == 0) {
        const MadeFrom found = search(outputs);
        if (version_.load(Atomics::relaxed) == version) {
          return found;
        }
      }
      Policy::Parking::pause();
    }
  }

 private:
  struct Entry {
    Number output{0};
    Number place{0};
  };

  // Pairs with search(): who sees what was stored after the version became odd does not see it
  // even, as it was.
  void set(std::size_t at, std::uint64_t output, std::uint64_t place) noexcept {
    list_[at].output.store(output, Atomics::release);
    list_[at].place.store(place, Atomics::release);
  }
  // Forgets every second place of the older half. Returns how many are left.
  [[gnu::cold]] std::size_t thin_out() noexcept {
    const std::size_t quarter = list_.size() / 4;
    for (std::size_t at = 1; at != 3 * quarter; ++at) {
      const Entry& kept = list_[at < quarter ? 2 * at : at + quarter];
      set(at, kept.output.load(Atomics::relaxed), kept.place.load(Atomics::relaxed));
    }
    return 3 * quarter;
  }
  // Any one with as many outputs or fewer is true, and what was seen here only becomes newer.
  MadeFrom search(std::uint64_t outputs) const noexcept {
    std::size_t first = 0;
    for (std::size_t end = count_.load(Atomics::relaxed); end - first > 1;) {
      const std::size_t middle = first + (end - first) / 2;
      if (list_[middle].output.load(Atomics::relaxed) <= outputs) {
        first = middle;
      } else {
        end = middle;
      }
    }
    // Both pair with set().
    const std::uint64_t before = list_[first].output.load(Atomics::acquire);
    return {list_[first].place.load(Atomics::acquire), outputs - before};
  }

  std::uint64_t dropped_{};
  Vector<Entry> list_;
  Number count_{0};
  Number version_{0}; // odd while note() runs
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void SourceNumbers::start(std::uint64_t number) noexcept {
  // Only stores: this may lie in another processor's cache, and a load would wait for that.
  shift_ = number;
  jumps_ = false;
}

PENSTOCK_INLINE void SourceNumbers::take(SourceNumbers& from) noexcept {
  start(from.shift_);
  if (from.jumps_) {
    std::swap(list_, from.list_);
    jumps_ = std::exchange(from.jumps_, false); // its list may be null now
  }
}

PENSTOCK_INLINE void SourceNumbers::go_on(std::uint64_t at, std::uint64_t number) {
  const std::uint64_t shift = number - at;
  while (end() != begin() && end()[-1].at >= at) {
    list_->list.pop_back();
  }
  if (at == 0) {
    start(number);
  } else if (shift != shift_before(end())) {
    if (!list_) {
      list_ = Owned<Jumps>{new Jumps{}};
    }
    if (!jumps_) {
      list_->list.clear();
      list_->past = 0;
      jumps_ = true;
    }
    list_->list.push_back({at, shift});
  }
}

PENSTOCK_INLINE void SourceNumbers::go_on(std::uint64_t at, const SourceNumbers& from,
                                          std::uint64_t first, std::uint64_t count) {
  if (at == 0 && !from.jumps_) {
    start(first + from.shift_);
    return;
  }
  const Jump* jump = from.after(first);
  go_on(at, first + from.shift_before(jump));
  for (; jump != from.end() && jump->at < first + count; ++jump) {
    go_on(at + (jump->at - first), jump->at + jump->shift);
  }
}

PENSTOCK_INLINE void SourceNumbers::forget_before(std::uint64_t unit) noexcept {
  const Jump* const next = after(unit);
  shift_ = shift_before(next);
  if (jumps_) {
    Vector<Jump>& list = list_->list;
    list_->past = static_cast<std::size_t>(next - list.data());
    // Not each time, since the jumps that stay are moved.
    if (list_->past > list.size() / 2) {
      list.pop_front(list_->past);
      list_->past = 0;
    }
  }
}

PENSTOCK_INLINE const SourceNumbers::Jump* SourceNumbers::end() const noexcept {
  return jumps_ ? list_->list.data() + list_->list.size() : nullptr;
}

PENSTOCK_INLINE const SourceNumbers::Jump* SourceNumbers::after(std::uint64_t unit) const noexcept {
  return std::upper_bound(begin(), end(), unit,
                          [](std::uint64_t u, const Jump& jump) { return u < jump.at; });
}

PENSTOCK_INLINE std::uint64_t SourceNumbers::shift_before(const Jump* jump) const noexcept {
  return jump == begin() ? shift_ : jump[-1].shift;
}

PENSTOCK_INLINE void OnTheWay::want() noexcept {
  keep_ = [](SourceNumbers& kept, std::uint64_t at, const SourceNumbers& from, std::uint64_t first,
             std::uint64_t count) { kept.go_on(at, from, first, count); };
}

PENSTOCK_INLINE void OnTheWay::go_on(std::uint64_t at, const SourceNumbers& from,
                                     std::uint64_t first, std::uint64_t count) {
  keep_(numbers, at, from, first, count);
}
#endif

} // namespace penstock::detail
