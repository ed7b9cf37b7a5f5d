// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/callable.hpp>
#include <penstock/stage.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace penstock {

template <class... Stages> class Pipeline;
template <class... Stages> class Branch;

namespace detail {

template <class... S> struct device_of {
  using type = NoDevice;
};
template <class S, class... R>
struct device_of<S, R...>
    : std::conditional_t<std::is_same_v<typename S::device_type, NoDevice>, device_of<R...>,
                         std::type_identity<typename S::device_type>> {};

template <class Given, class... S> struct given {
  using type = Given;
};
template <class Given, class S, class... R>
struct given<Given, S, R...> : given<typename S::template gives<Given>, R...> {};

/// An argument that stands where a stream should: any number but a literal 0, which is a null
/// pointer.
struct Number {
  Number(int) noexcept {}
};

/// The batch that stage number `At` is given.
template <std::size_t At, class Given, class... S> struct given_at {
  using type = Given;
};
template <std::size_t At, class Given, class S, class... R>
  requires(At != 0)
struct given_at<At, Given, S, R...> : given_at<At - 1, typename S::template gives<Given>, R...> {};

/// Returns the stages left of a `|`, and the one right of it.
/// @{
template <class... S, class Next>
std::tuple<S..., Next> stages_of(Pipeline<S...>&& pipeline, Next&& next);
template <class... S, class Next>
std::tuple<S..., Next> stages_of(Branch<S...>&& branch, Next&& next);
template <Stage S, class Next> std::tuple<S, Next> stages_of(S&& stage, Next&& next) {
  return {std::move(stage), std::move(next)};
}
/// @}

template <class T> inline constexpr bool is_pipeline = false;
template <class... S> inline constexpr bool is_pipeline<Pipeline<S...>> = true;
template <class T> inline constexpr bool is_branch = false;
template <class... S> inline constexpr bool is_branch<Branch<S...>> = true;
template <class T>
concept Part = Stage<T> || is_pipeline<T> || is_branch<T>;

/// The stages left of a `|`.
template <class P> struct chain {
  using last = P;
  using gives = Anything;
  using device = NoDevice;
  static constexpr bool starts = false;
};
template <Stage S> struct chain<S> {
  using last = S;
  using gives = typename S::template gives<void>;
  using device = typename S::device_type;
  static constexpr bool starts = std::is_void_v<typename S::template takes<void>>;
};
template <class... S> struct chain<Pipeline<S...>> {
  using last = std::tuple_element_t<sizeof...(S) - 1, std::tuple<S...>>;
  using gives = typename given<void, S...>::type;
  using device = typename device_of<S...>::type;
  static constexpr bool starts = true;
};

template <class Next, class Gives> struct taken {
  using type = Anything;
};
template <Stage Next, class Gives> struct taken<Next, Gives> {
  using type = typename Next::template takes<Gives>;
};

} // namespace detail
} // namespace penstock
