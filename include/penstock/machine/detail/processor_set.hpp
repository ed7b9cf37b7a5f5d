// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/machine/detail/control_groups.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <sched.h>

namespace penstock::detail {

/// Processors of this machine, by the kernel's numbers.
class ProcessorSet {
 public:
  /// Returns those on which the calling thread may run; none if the system does not say.
  [[gnu::cold]] static ProcessorSet of_this_thread() noexcept;
  /// Returns those of a list as the kernel writes it, such as "0-15,32"; none if it is no list.
  [[gnu::cold]] static ProcessorSet listed(std::string_view text);

  unsigned count() const noexcept;
  bool empty() const noexcept { return count() == 0; }
  bool operator==(const ProcessorSet& other) const noexcept {
    return CPU_EQUAL_S(sizeof words_, words_, other.words_) != 0;
  }
  /// Returns those that are in both.
  ProcessorSet operator&(const ProcessorSet& other) const noexcept {
    ProcessorSet both;
    CPU_AND_S(sizeof words_, both.words_, words_, other.words_);
    return both;
  }

  /// Has the calling thread, and the threads that it starts, run on these alone. Without any, or if
  /// the system refuses, they run where they did.
  void hold_this_thread() const noexcept;

 private:
  static constexpr std::size_t most = 8192; // that Linux can be built for

  cpu_set_t words_[most / CPU_SETSIZE]{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE ProcessorSet ProcessorSet::of_this_thread() noexcept {
  ProcessorSet set;
  if (::sched_getaffinity(0, sizeof set.words_, set.words_) != 0) {
    set = {};
  }
  return set;
}

PENSTOCK_INLINE ProcessorSet ProcessorSet::listed(std::string_view text) {
  ProcessorSet set;
  text = text.substr(0, text.find('\n'));
  while (!text.empty()) {
    std::string_view range = cut(text, ',');
    const bool one = range.find('-') == range.npos;
    const std::optional<std::uint64_t> first = number_in(cut(range, '-'));
    const std::optional<std::uint64_t> last = one ? first : number_in(range);
    if (!first || !last || *last < *first || *last >= most) {
      return {};
    }
    for (std::size_t number = *first; number <= *last; ++number) {
      CPU_SET_S(number, sizeof words_, set.words_);
    }
  }
  return set;
}

PENSTOCK_INLINE unsigned ProcessorSet::count() const noexcept {
  return static_cast<unsigned>(CPU_COUNT_S(sizeof words_, words_));
}

PENSTOCK_INLINE void ProcessorSet::hold_this_thread() const noexcept {
  if (!empty()) {
    ::sched_setaffinity(0, sizeof words_, words_);
  }
}
#endif

} // namespace penstock::detail
