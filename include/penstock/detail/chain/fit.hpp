// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/counted.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/chain/chain.hpp>
#include <penstock/device/device.hpp>
#include <penstock/run/options.hpp>
#include <penstock/run/report.hpp>
#include <penstock/stage.hpp>

#include <stop_token>
#include <type_traits>

namespace penstock {

/// What `|` gives after a refusal. It accepts every use silently, so that one mistake makes one
/// error.
struct Refused : StageBase {
  struct Range {
    const detail::Anything* begin() const;
    const detail::Anything* end() const;
    detail::Anything next();
    detail::Anything number() const;
  };
  struct Ranges {
    Ranges(Range);
    const Range* begin() const;
    const Range* end() const;
  };
  template <class> using takes = detail::Anything;
  template <class> using gives = detail::Anything;
  void prepare(const PrepareOptions& = {});
  const Report& run(const RunOptions& = {});
  const Report& run(std::stop_token);
  template <class S> Range on(S&&, RunOptions = {});
  Range batches(RunOptions = {});
  template <class S> Ranges epochs(S&&, RunOptions = {});
  Ranges epochs(RunOptions = {});
  void stop();
  Report report() const;
};

} // namespace penstock

namespace penstock::detail {

/// Returns whether S is a stage that was refused already.
template <class S> consteval bool refused_before() {
  if constexpr (Stage<S>) {
    return S::refused;
  } else {
    return false;
  }
}

enum class Fit {
  fits,
  no_reader_yet,
  silent,
  not_a_stage,
  no_reader_first,
  after_the_last,
  after_a_tee,
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
  if constexpr (AnyDevice<On> && !std::is_void_v<typename Next::stream_parameter>) {
    return std::is_convertible_v<Stream<On>, typename Next::stream_parameter>;
  } else {
    return true;
  }
}

/// Returns whether Next names no device, the chain's device, or the first one of the chain.
template <class Next, class On> consteval bool device_fits() {
  using Named = typename Next::device_type;
  return std::is_same_v<On, NoDevice> || std::is_same_v<Named, NoDevice> ||
         std::is_same_v<On, Named>;
}

template <class G, class T> consteval Fit fit_of_spaces() {
  if constexpr (std::is_same_v<typename G::space, Pageable>) {
    return T::device ? Fit::pageable_to_device : Fit::pageable_to_pinned;
  } else if constexpr (std::is_same_v<typename G::space, Pinned>) {
    return T::device ? Fit::pinned_to_device : Fit::pinned_to_pageable;
  } else {
    return Fit::device_to_host;
  }
}

/// Returns whether Next can follow Left, and if not, the first thing that is wrong. Of what has no
/// Reader yet nothing more is known.
template <class Left, class Next, class Gives, class Takes, class On> consteval Fit find_fit() {
  using G = batch_of<Gives>;
  using T = batch_of<Takes>;
  if constexpr (std::is_same_v<Left, Refused> || std::is_same_v<Next, Refused> ||
                refused_before<Next>() || refused_before<typename chain<Left>::last>()) {
    return Fit::silent;
  } else if constexpr (!Part<Next>) {
    return Fit::not_a_stage;
  } else if constexpr (!chain<Left>::starts) {
    return (Stage<Left> || is_branch<Left>) && Stage<Next> ? Fit::no_reader_yet
                                                           : Fit::no_reader_first;
  } else if constexpr (std::is_void_v<Gives>) {
    return Fit::after_the_last;
  } else if constexpr (chain<Left>::last::forks) {
    return Fit::after_a_tee;
  } else if constexpr (is_pipeline<Next> || std::is_void_v<Takes>) {
    return Fit::reader_inside;
  } else if constexpr (!Space<typename G::space> || !Space<typename T::space>) {
    return Fit::silent;
  } else if constexpr (!std::is_same_v<typename G::space, typename T::space>) {
    return fit_of_spaces<G, T>();
  } else if constexpr (Next::one_array_alone && schema_traits<typename G::schema>::named) {
    return Fit::columns_in_a_row;
  } else if constexpr (Next::fixed_length_alone && schema_traits<typename G::schema>::ragged) {
    return Fit::ragged_to_host;
  } else if constexpr (is_counted<typename G::schema> && !is_counted<typename T::schema>) {
    return Fit::counted_to_plain;
  } else if constexpr (!std::is_same_v<typename G::schema, typename T::schema>) {
    return Fit::other_records;
  } else if constexpr (!device_fits<Next, On>()) {
    return Fit::two_devices;
  } else if constexpr (!stream_fits<Next, On>()) {
    return Fit::other_stream;
  } else {
    return Fit::fits;
  }
}

template <Fit Judged, class L, class R> struct join {
  using type = Refused;
};
template <class L, class R> struct join<Fit::fits, L, R> {
  using type = Pipeline<L, R>;
};
template <class... S, class R> struct join<Fit::fits, Pipeline<S...>, R> {
  using type = Pipeline<S..., R>;
};
template <class L, class R> struct join<Fit::no_reader_yet, L, R> {
  using type = Branch<L, R>;
};
template <class... S, class R> struct join<Fit::no_reader_yet, Branch<S...>, R> {
  using type = Branch<S..., R>;
};

} // namespace penstock::detail
