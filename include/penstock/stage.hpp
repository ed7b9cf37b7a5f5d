// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/batch.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>

namespace penstock {

namespace detail {
struct Plan;
/// The device of a stage, or of a chain, that names none.
struct NoDevice {};
} // namespace detail

/// The base of every stage: what a stage is asked, with the usual answers. Its own names come
/// before these.
struct StageBase {
  /// Whether it was refused already, so that `|` says no more of it.
  static constexpr bool refused = false;
  /// Whether it takes records alone, and no columns.
  static constexpr bool one_array_alone = false;
  /// Whether it takes no columns of variable length.
  static constexpr bool fixed_length_alone = false;
  /// The device that it names. If it names one it has `device_type* device() const`.
  using device_type = detail::NoDevice;
  /// The stream that its callable takes; void if it takes none.
  using stream_parameter = void;

  /// prepare() asks all stages, in order, before it builds any: says what slots must hold.
  template <class Given> void plan(detail::Plan& /*plan*/) const {}
};

/// What can stand right of `|`, and a Reader left of it: a cheap, movable description of what is
/// done, with which options. It derives from StageBase. Besides what that has
/// - `template <class Given> using takes`, `gives`: the batch that it takes, and the one it gives,
///   where the stage before gives Given; void is nothing, as a Reader takes and a Consumer gives;
/// - `template <class Given, class D> void build(detail::Build<D>& build) const`: called once, by
///   prepare(), after the stage before it. It asks `build` for the link to take from, makes the one
///   to fill, and adds a node that is given both. It may throw OptionError, SourceError or
///   DeviceError, and prepare() does.
///
/// Adding one: docs/maintaining.md.
template <class S>
concept Stage = std::is_base_of_v<StageBase, std::remove_cvref_t<S>>;

/// Asks for pinned output: `Reader{source, to_pinned}`.
struct to_pinned_t {
  /// Not by {}, which would be taken for options.
  explicit constexpr to_pinned_t(int) {}
};
/// The tag itself: see to_pinned_t.
inline constexpr to_pinned_t to_pinned{0};

/// Asks for the way back: `AsyncCopier{to_host}`.
struct to_host_t {
  /// Not by {}, which would be taken for options.
  explicit constexpr to_host_t(int) {}
};
/// The tag itself: see to_host_t.
inline constexpr to_host_t to_host{0};

namespace detail {

/// A callable's parameters, read from its one call operator: they are its stage's types.
template <class... A> struct Parameters {
  static constexpr std::size_t count = sizeof...(A);
};
/// A generic lambda, or overloads.
struct NotWrittenOut {
  static constexpr std::size_t count = 0;
};
/// Of what was refused already, so that nobody says more of it.
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

/// The batch that a stage gives which moves records from Given to Where, as they are.
template <class Given, class Where> struct moved {
  using type = Anything;
};
template <class S, class From, class Where> struct moved<Batch<S, From>, Where> {
  using type = Batch<S, Where>;
};
template <class Given, class Where> using moved_t = typename moved<Given, Where>::type;

} // namespace detail
} // namespace penstock
