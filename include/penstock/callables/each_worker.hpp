// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/callable.hpp>

#include <type_traits>
#include <utility>

namespace penstock {

namespace detail {

/// Hands in nothing.
struct NotHandedIn {};
/// Stands for what a make() would make that does not fit.
struct NotMade {};

template <class Make> struct made_by {
  using type = NotMade;
};
template <class Make>
  requires(std::is_object_v<std::invoke_result_t<Make&>>)
struct made_by<Make> {
  using type = std::invoke_result_t<Make&>;
};
template <class Make> using made_t = typename made_by<Make>::type;

/// Whether hand_in takes what make() makes.
template <class HandIn, class Made>
inline constexpr bool takes_part = std::is_invocable_v<HandIn&, Made&>;
template <class Made> inline constexpr bool takes_part<NotHandedIn, Made> = true;

} // namespace detail

/// A stage's callable, one object a worker: see each_worker().
template <class Make, class HandIn = detail::NotHandedIn> struct EachWorker {
  Make make;      ///< Makes one.
  HandIn hand_in; ///< Is handed each at a run's end.
};

/// Has each worker of a Decoder, or of a Consumer of host batches, call an object of its own, made
/// by `make()`. It need be neither copied nor moved, so it may own a handle or a buffer.
///
/// prepare() calls `make` once a worker, one after the other, each in that worker's thread; for the
/// last stage's first worker, which is the thread that calls run(), in the thread that prepares.
/// What it throws comes out of prepare() as a StageError. The objects serve all runs, and die with
/// the pipeline; those that are handed in die with a run that fails, and the thread that
/// starts the next run makes new ones.
///
/// `hand_in(object&)`, if you give it, is called for each worker's object when a run has ended by
/// itself or was stopped, not when it failed: one after the other, in the order of the workers, by
/// the thread that called run() or left the loop. What it throws is the run's StageError.
template <class Make, class HandIn = detail::NotHandedIn, class Made = detail::made_t<Make>>
EachWorker<Make, HandIn> each_worker(Make make, HandIn hand_in = {}) {
  constexpr bool makes = !std::is_same_v<Made, detail::NotMade>;
  constexpr bool takes_it = !makes || detail::takes_part<HandIn, Made>;
  static_assert(makes, "penstock: ps::each_worker(make) calls make() without arguments, and gets a "
                       "callable by value: ps::each_worker([] { return Decode{}; }).");
  static_assert(takes_it, "penstock: hand_in is called with what make() returned, see Made, by "
                          "reference: [&](Made& part) { total += part.sum; }.");
  return {std::move(make), std::move(hand_in)};
}

namespace detail {

/// What a worker calls, of a stage that was given F.
template <class F> struct called {
  using type = F;
};
template <class Make, class HandIn> struct called<EachWorker<Make, HandIn>> {
  using type = std::conditional_t<takes_part<HandIn, made_t<Make>>, made_t<Make>, NotMade>;
};
/// Its parameters: they are the stage's types.
template <class F> using called_parameters = parameters_of<typename called<F>::type>;
template <> struct call_signature<NotMade> {
  using type = RefusedBefore;
};

template <class F> inline constexpr bool is_each_worker = false;
template <class Make, class HandIn>
inline constexpr bool is_each_worker<EachWorker<Make, HandIn>> = true;
/// A stage that does not ask for called_parameters finds nothing here to call, and refuses.
template <class Make, class HandIn> struct call_signature<EachWorker<Make, HandIn>> {
  using type = Parameters<>;
};

} // namespace detail
} // namespace penstock
