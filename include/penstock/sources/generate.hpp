// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/source.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

namespace penstock {

/// A source whose records a callable writes. Made by generate().
template <class T, class F, bool Counted> class Generate {
  static constexpr bool callable = std::is_invocable_v<const F&, std::span<T>, std::uint64_t>;
  static_assert(
      callable,
      "penstock: generate<T> calls f(std::span<T> out, std::uint64_t first), from several "
      "threads at once, so f must take these and be callable as const: no mutable "
      "lambda; std::ref shares an object that may be called concurrently.");
  using Result = std::conditional_t<Counted, void, std::size_t>;
  // Also for an f that cannot be called, which would else be a second error.
  using Returned =
      typename std::conditional_t<callable,
                                  std::invoke_result<const F&, std::span<T>, std::uint64_t>,
                                  std::type_identity<Result>>::type;
  static_assert(std::is_same_v<Returned, Result>,
                "penstock: in generate<T>(count, f) f fills its whole span and returns void; in "
                "generate<T>(f) it returns a std::size_t: how many it wrote, fewer at the end.");

 public:
  /// Whether f was refused, so that a Reader says no more about it.
  static constexpr bool refused = !callable || !std::is_same_v<Returned, Result>;
  /// The type of its records.
  using schema = T;

  /// `size` is how many records there are, or unknown_size.
  Generate(std::uint64_t size, F f) : size_{size}, f_{std::move(f)} {}

  /// Returns how many records there are, or unknown_size.
  std::uint64_t size() const noexcept { return size_; }

  /// Calls f for the records from into.index() on. Blocks as long as f does; throws what f throws,
  /// and SourceError if f says that it wrote more than it was given.
  template <HostSpace Where> std::size_t read(Batch<T, Where> into) const {
    detail::check_range("generate", into, size_, sizeof(T));
    const std::span<T> out{into.data(), into.size()};
    if constexpr (Counted) {
      std::invoke(f_, out, into.index());
      return into.size();
    } else {
      const std::size_t written = std::invoke(f_, out, into.index());
      if (written > into.size()) {
        detail::throw_source_error({"penstock: generate: f returned ", written, " for a span of ",
                                    into.size(),
                                    ": it returns how many records it wrote, at most all."},
                                   {}, 0, into.index());
      }
      return written;
    }
  }

 private:
  std::uint64_t size_;
  F f_;
};

/// Makes a source of `count` records that `f(std::span<T> out, std::uint64_t first)` writes: f
/// fills all of `out`, whose first record is number `first`. The same f writes to pageable and to
/// pinned memory. All workers of a Reader call one f at once, each for a range of its own and in
/// any order; with `.workers = 1` the calls come one after the other, in order. What f throws ends
/// the run.
template <class T, class F>
Generate<T, F, true> generate(std::uint64_t count, F f) {
  return {count, std::move(f)};
}

/// Makes a source of unknown size, whose records `f(std::span<T> out, std::uint64_t first)` writes:
/// f returns how many it wrote, and fewer than out.size() means that the source ends there. More
/// than one worker of a Reader asks f for ranges beyond the end as well, and f must return 0 for
/// them.
template <class T, class F>
Generate<T, F, false> generate(F f) {
  return {unknown_size, std::move(f)};
}

} // namespace penstock
