// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/run/report.hpp>

#include <cstdint>
#include <new>
#include <string>

namespace penstock::detail {

/// The records that a Decoder kept in a run though it was warned of their files: how many, and the
/// first of them. Any thread may add one or ask.
template <class Atomics = StdAtomics> class Warned {
 public:
  void add(std::uint64_t record) noexcept {
    std::uint64_t first = first_.load(Atomics::relaxed);
    while (record < first && !first_.compare_exchange_weak(first, record, Atomics::relaxed)) {
    }
    count_.fetch_add(1, Atomics::relaxed);
  }
  /// Forgets the last run. No worker may be inside.
  void reset() noexcept {
    count_.store(0, Atomics::relaxed);
    first_.store(none, Atomics::relaxed);
  }
  /// Says it in a note, which is empty if there are none. Allocates nothing if `note` is an earlier
  /// one; if there is no memory, there is no note.
  [[gnu::cold]] void tell(std::string& note) const noexcept {
    note.clear();
    try {
      note.reserve(sizeof(Printed::text));
    } catch (const std::bad_alloc&) {
      return;
    }
    const std::uint64_t count = count_.load(Atomics::relaxed);
    const std::uint64_t first = first_.load(Atomics::relaxed);
    if (count != 0 && first != none) { // both: one may be seen before the other
      note =
          Printed{"kept %s whose file is damaged or incomplete, the first at record %llu: .notes "
                  "has the warnings, .strict refuses such files",
                  in_records(count).text, static_cast<unsigned long long>(first)}
              .text;
    }
  }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  typename Atomics::template Atomic<std::uint64_t> count_{0};
  typename Atomics::template Atomic<std::uint64_t> first_{none};
};

/// A Decoder's callable that is warned of files: it is told where to say so.
template <class F>
concept IsWarned = requires(F& f, Warned<>& warned) { f.tell_of_warnings(warned); };

} // namespace penstock::detail
