// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/output.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/decoding/decoder_form.hpp>

#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// A Decoder's callable that returns the record it makes, in the form of one that fills it. `In`:
/// what it reads; `Visits`: a Visit, if it takes one.
template <class F, class Out, class In, class... Visits> struct Returned {
  Returned(F f) : call{std::move(f)} {}
  void operator()(In in, Out& out, Visits... visit) { out = std::invoke(call, in, visit...); }

  F call;
};
/// Of one that returns a record or none: in the form of one that fills an Output.
template <class F, class Out, class In, class... Visits>
struct Returned<F, std::optional<Out>, In, Visits...> {
  Returned(F f) : call{std::move(f)} {}
  void operator()(In in, Output<Out>& out, Visits... visit) {
    if (const std::optional<Out> made = std::invoke(call, in, visit...)) {
      out.add() = *made;
    }
  }

  F call;
};

/// The type of a callable that a Decoder holds for an F.
template <class F, class P = parameters_of<F>> struct filling {
  using type = F;
};
template <class F, class In, class... Visits>
  requires((is_visit<Visits> && ...) && sizeof...(Visits) < 2 &&
           !std::is_void_v<std::invoke_result_t<F&, In, Visits...>>)
struct filling<F, Parameters<In, Visits...>> {
  using type =
      Returned<F, std::remove_cvref_t<std::invoke_result_t<F&, In, Visits...>>, In, Visits...>;
};
template <class F> using filling_t = typename filling<std::decay_t<F>>::type;

} // namespace penstock::detail
