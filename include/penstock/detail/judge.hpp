// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/counted.hpp>
#include <penstock/device.hpp>
#include <penstock/memory.hpp>
#include <penstock/prepare_options.hpp>
#include <penstock/report.hpp>
#include <penstock/run_options.hpp>
#include <penstock/stage.hpp>

#include <cstddef>
#include <stop_token>
#include <tuple>
#include <type_traits>

namespace penstock {

template <class... Stages> class Pipeline;

/// What `|` gives after a refusal: it takes every use and says nothing, so that one mistake makes
/// one error.
struct Refused : StageBase {
  struct Range {
    const detail::Anything* begin() const;
    const detail::Anything* end() const;
  };
  template <class> using takes = detail::Anything;
  template <class> using gives = detail::Anything;
  void prepare(const PrepareOptions& = {});
  const Report& run(const RunOptions& = {});
  const Report& run(std::stop_token);
  template <class S> Range on(S&&, RunOptions = {});
  Range batches(RunOptions = {});
  void stop();
  Report report() const;
};

namespace detail {

/// The device of a chain that has none (yet).
struct NoDevice {};

template <class S> struct device_in {
  using type = NoDevice;
};
template <class S>
  requires requires { typename S::device_type; }
struct device_in<S> {
  using type = typename S::device_type;
};
template <class... S> struct device_of {
  using type = NoDevice;
};
template <class S, class... R>
struct device_of<S, R...>
    : std::conditional_t<std::is_same_v<typename device_in<S>::type, NoDevice>, device_of<R...>,
                         device_in<S>> {};

template <class Given, class... S> struct given {
  using type = Given;
};
template <class Given, class S, class... R>
struct given<Given, S, R...> : given<typename S::template gives<Given>, R...> {};

/// The same, up to the stage of a number.
template <std::size_t At, class Given, class... S> struct given_at {
  using type = Given;
};
template <std::size_t At, class Given, class S, class... R>
  requires(At != 0)
struct given_at<At, Given, S, R...> : given_at<At - 1, typename S::template gives<Given>, R...> {};

template <class... S> std::tuple<S...> stages_in(Pipeline<S...>&& pipeline);
template <Stage S> std::tuple<S> stages_in(S&& stage) {
  return {std::move(stage)};
}

template <class T> inline constexpr bool is_pipeline = false;
template <class... S> inline constexpr bool is_pipeline<Pipeline<S...>> = true;
template <class T>
concept Part = Stage<T> || is_pipeline<T>;

/// What stands left of a `|`, as its stages.
template <class P> struct chain {
  using last = P;
  using gives = Anything;
  using device = NoDevice;
  static constexpr bool starts = false;
};
template <Stage S> struct chain<S> {
  using last = S;
  using gives = typename S::template gives<void>;
  using device = typename device_in<S>::type;
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

template <class S> inline constexpr bool refused_stage = false;
template <class S>
  requires requires { S::refused; }
inline constexpr bool refused_stage<S> = S::refused;

template <class S> inline constexpr bool one_array_alone = false;
template <class S>
  requires requires { S::one_array_alone; }
inline constexpr bool one_array_alone<S> = S::one_array_alone;

template <class S> inline constexpr bool fixed_length_alone = false;
template <class S>
  requires requires { S::fixed_length_alone; }
inline constexpr bool fixed_length_alone<S> = S::fixed_length_alone;

enum class Verdict {
  fits,
  silent,
  not_a_stage,
  no_reader_first,
  after_the_last,
  reader_inside,
  pageable_to_pinned,
  pageable_to_device,
  pinned_to_device,
  pinned_to_pageable,
  device_to_host,
  columns_in_a_row,
  ragged_to_host,
  counted_to_plain,
  other_records,
  other_stream,
  two_devices
};

template <class Next, class On> consteval bool stream_fits() {
  if constexpr (AnyDevice<On> && requires { typename Next::stream_parameter; }) {
    return std::is_convertible_v<Stream<On>, typename Next::stream_parameter>;
  } else {
    return true;
  }
}

/// A stage may name the device that the chain has, or the first that it has.
template <class Next, class On> consteval bool device_fits() {
  using Named = typename device_in<Next>::type;
  return std::is_same_v<On, NoDevice> || std::is_same_v<Named, NoDevice> ||
         std::is_same_v<On, Named>;
}

template <class G, class T> consteval Verdict judge_spaces() {
  if constexpr (std::is_same_v<typename G::space, Pageable>) {
    return T::device ? Verdict::pageable_to_device : Verdict::pageable_to_pinned;
  } else if constexpr (std::is_same_v<typename G::space, Pinned>) {
    return T::device ? Verdict::pinned_to_device : Verdict::pinned_to_pageable;
  } else {
    return Verdict::device_to_host;
  }
}

/// Whether Next can follow Left, and if not, what is wrong first.
template <class Left, class Next, class Gives, class Takes, class On> consteval Verdict judge() {
  using G = batch_of<Gives>;
  using T = batch_of<Takes>;
  if constexpr (std::is_same_v<Left, Refused> || std::is_same_v<Next, Refused> ||
                refused_stage<Next> || refused_stage<typename chain<Left>::last>) {
    return Verdict::silent;
  } else if constexpr (!Part<Next>) {
    return Verdict::not_a_stage;
  } else if constexpr (!chain<Left>::starts) {
    return Verdict::no_reader_first;
  } else if constexpr (std::is_void_v<Gives>) {
    return Verdict::after_the_last;
  } else if constexpr (is_pipeline<Next> || std::is_void_v<Takes>) {
    return Verdict::reader_inside;
  } else if constexpr (!Space<typename G::space> || !Space<typename T::space>) {
    return Verdict::silent;
  } else if constexpr (!std::is_same_v<typename G::space, typename T::space>) {
    return judge_spaces<G, T>();
  } else if constexpr (one_array_alone<Next> && schema_traits<typename G::schema>::named) {
    return Verdict::columns_in_a_row;
  } else if constexpr (fixed_length_alone<Next> && schema_traits<typename G::schema>::ragged) {
    return Verdict::ragged_to_host;
  } else if constexpr (is_counted<typename G::schema> && !is_counted<typename T::schema>) {
    return Verdict::counted_to_plain;
  } else if constexpr (!std::is_same_v<typename G::schema, typename T::schema>) {
    return Verdict::other_records;
  } else if constexpr (!device_fits<Next, On>()) {
    return Verdict::two_devices;
  } else if constexpr (!stream_fits<Next, On>()) {
    return Verdict::other_stream;
  } else {
    return Verdict::fits;
  }
}

template <bool Fits, class L, class R> struct join {
  using type = Refused;
};
template <class L, class R> struct join<true, L, R> {
  using type = Pipeline<L, R>;
};
template <class... S, class R> struct join<true, Pipeline<S...>, R> {
  using type = Pipeline<S..., R>;
};

} // namespace detail

/// For asking: whether `left | next` compiles. The refusal itself, with its reason, is in
/// operator|.
template <class Left, class Next>
concept Feeds =
    detail::judge<Left, Next, typename detail::chain<Left>::gives,
                  typename detail::taken<Next, typename detail::chain<Left>::gives>::type,
                  typename detail::chain<Left>::device>() == detail::Verdict::fits;

} // namespace penstock
