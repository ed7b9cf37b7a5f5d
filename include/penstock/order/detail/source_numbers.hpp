// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock::detail {

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
  void start(std::uint64_t number) noexcept {
    // Only stores: this may lie in another processor's cache, and a load would wait for that.
    shift_ = number;
    jumps_ = false;
  }
  /// Takes over what `from` has, and leaves it with contents that nobody needs. Writes to `from`
  /// only if it has jumps, since it may lie in another processor's cache.
  void take(SourceNumbers& from) noexcept {
    start(from.shift_);
    if (from.jumps_) {
      std::swap(list_, from.list_);
      jumps_ = std::exchange(from.jumps_, false); // its list may be null now
    }
  }

  /// Returns the number of a unit.
  std::uint64_t operator[](std::uint64_t unit) const noexcept {
    return unit + (jumps_ ? shift_before(after(unit)) : shift_);
  }

  /// Gives unit `at` this number, and the units after it the next ones, whatever they had. May
  /// throw std::bad_alloc.
  void go_on(std::uint64_t at, std::uint64_t number) {
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
  /// Gives `count` units from `at` on the numbers of the units of `from` from `first` on.
  void go_on(std::uint64_t at, const SourceNumbers& from, std::uint64_t first,
             std::uint64_t count) {
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

  /// Forgets the units before this one: nobody will ask for them.
  void forget_before(std::uint64_t unit) noexcept {
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

 private:
  const Jump* begin() const noexcept { return jumps_ ? list_->list.data() + list_->past : nullptr; }
  const Jump* end() const noexcept {
    return jumps_ ? list_->list.data() + list_->list.size() : nullptr;
  }
  const Jump* after(std::uint64_t unit) const noexcept {
    return std::upper_bound(begin(), end(), unit,
                            [](std::uint64_t u, const Jump& jump) { return u < jump.at; });
  }
  std::uint64_t shift_before(const Jump* jump) const noexcept {
    return jump == begin() ? shift_ : jump[-1].shift;
  }

  std::uint64_t shift_{}; // before the first jump
  Owned<Jumps> list_;     // none before the first, so that slots are small
  bool jumps_{};          // whether there are any, in the list: else that is an older one
};

/// The numbers in the source of what a copier has sent to the device and has not come back, in the
/// order in which it was sent: kept if a stage wants them. Only the device thread uses it.
class OnTheWay {
 public:
  /// Says that a stage wants them. Only a program with such a stage compiles what keeps them.
  void want() noexcept {
    keep_ = [](SourceNumbers& kept, std::uint64_t at, const SourceNumbers& from,
               std::uint64_t first, std::uint64_t count) { kept.go_on(at, from, first, count); };
  }
  bool is_wanted() const noexcept { return keep_ != nullptr; }
  /// Gives units that are wanted their numbers: see SourceNumbers::go_on().
  void go_on(std::uint64_t at, const SourceNumbers& from, std::uint64_t first,
             std::uint64_t count) {
    keep_(numbers, at, from, first, count);
  }

  SourceNumbers numbers{};

 private:
  void (*keep_)(SourceNumbers& kept, std::uint64_t at, const SourceNumbers& from,
                std::uint64_t first, std::uint64_t count){};
};

} // namespace penstock::detail
