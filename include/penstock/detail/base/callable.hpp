// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>

namespace penstock::detail {

/// A callable's parameters, read from its one call operator: they are its stage's types.
template <class... A> struct Parameters {
  static constexpr std::size_t count = sizeof...(A);
};
/// Stands for the parameters of a generic lambda or of overloads, which cannot be read.
struct NotWrittenOut {
  static constexpr std::size_t count = 0;
};
/// Stands for the parameters of a callable that was refused already: no second message follows.
struct RefusedBefore {
  static constexpr std::size_t count = 0;
};

template <class M> struct member_signature;
template <class R, class C, class... A> struct member_signature<R (C::*)(A...)> {
  using type = Parameters<A...>;
};
template <class R, class C, class... A>
struct member_signature<R (C::*)(A...) const> : member_signature<R (C::*)(A...)> {};
template <class R, class C, class... A>
struct member_signature<R (C::*)(A...) noexcept> : member_signature<R (C::*)(A...)> {};
template <class R, class C, class... A>
struct member_signature<R (C::*)(A...) const noexcept> : member_signature<R (C::*)(A...)> {};

template <class F> struct call_signature {
  using type = NotWrittenOut;
};
template <class R, class... A> struct call_signature<R (*)(A...)> {
  using type = Parameters<A...>;
};
template <class R, class... A>
struct call_signature<R (*)(A...) noexcept> : call_signature<R (*)(A...)> {};
template <class F> struct call_signature<std::reference_wrapper<F>> : call_signature<F> {};
template <class F>
  requires requires { &F::operator(); }
struct call_signature<F> : member_signature<decltype(&F::operator())> {};
template <class F> using parameters_of = typename call_signature<F>::type;

/// Whether a callable of these parameters says that it throws nothing.
template <class F, class P> inline constexpr bool never_throws = false;
template <class F, class... A>
inline constexpr bool never_throws<F, Parameters<A...>> = std::is_nothrow_invocable_v<F&, A...>;

template <std::size_t At, class P> struct parameter {
  using type = Anything;
};
template <std::size_t At, class... A>
  requires(At < sizeof...(A))
struct parameter<At, Parameters<A...>> {
  using type = std::tuple_element_t<At, std::tuple<A...>>;
};
template <std::size_t At, class P> using parameter_t = typename parameter<At, P>::type;
template <std::size_t At, class P> using batch_parameter = std::remove_cvref_t<parameter_t<At, P>>;

/// The stream that a callable takes after one batch or two; void if it takes none.
template <class P> struct last_parameter {
  using type = void;
};
template <class A, class B> struct last_parameter<Parameters<A, B>> {
  using type = B;
};
template <class A, class B, class C> struct last_parameter<Parameters<A, B, C>> {
  using type = C;
};
template <class P> using stream_of = typename last_parameter<P>::type;

template <class T> struct batch_of {
  using schema = Anything;
  using space = Anything;
  static constexpr bool read_only = false, host = false, device = false;
};
template <class S, class W> struct batch_of<Batch<S, W>> {
  using schema = std::remove_const_t<S>;
  using space = W;
  static constexpr bool read_only = std::is_const_v<S>;
  static constexpr bool device = std::is_same_v<W, Device>;
  static constexpr bool host = !device;
};

/// The batch that a stage gives if it moves the records of Given to Where, unchanged.
template <class Given, class Where> struct moved {
  using type = Anything;
};
template <class S, class From, class Where> struct moved<Batch<S, From>, Where> {
  using type = Batch<S, Where>;
};
template <class Given, class Where> using moved_t = typename moved<Given, Where>::type;

} // namespace penstock::detail
