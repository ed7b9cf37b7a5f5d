// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/chain/chain.hpp>
#include <penstock/detail/chain/fit.hpp>
#include <penstock/pipeline/branch.hpp>
#include <penstock/stage.hpp>

#include <cstddef>
#include <tuple>
#include <utility>

namespace penstock {

/// Whether `left | next` makes a pipeline. The refusal, with its reason, is in operator|.
template <class Left, class Next>
concept Feeds =
    detail::find_fit<Left, Next, typename detail::chain<Left>::gives,
                     typename detail::taken<Next, typename detail::chain<Left>::gives>::type,
                     typename detail::chain<Left>::device>() == detail::Fit::fits;

/// Joins a stage, or a pipeline not yet run, with the next stage. Two that do not fit do not
/// compile; the first message names what one gives, what the other takes, and the cure. Stages
/// without a Reader make a Branch.
template <class Left, class Next, class Last = typename detail::chain<Left>::last,
          class Gives = typename detail::chain<Left>::gives,
          class Takes = typename detail::taken<Next, Gives>::type,
          class On = typename detail::chain<Left>::device,
          detail::Fit Judged = detail::find_fit<Left, Next, Gives, Takes, On>()>
  requires(detail::Part<Left> || detail::Part<Next>)
[[nodiscard]] typename detail::join<Judged, Left, Next>::type operator|(Left left, Next next) {
  using detail::Fit;
  constexpr bool a_stage = Judged != Fit::not_a_stage;
  constexpr bool reader_first = Judged != Fit::no_reader_first;
  constexpr bool goes_on = Judged != Fit::after_the_last;
  constexpr bool in_a_branch = Judged != Fit::after_a_tee;
  constexpr bool no_reader_inside = Judged != Fit::reader_inside;
  constexpr bool pinned = Judged != Fit::pageable_to_pinned;
  constexpr bool staged_and_copied = Judged != Fit::pageable_to_device;
  constexpr bool copied = Judged != Fit::pinned_to_device;
  constexpr bool pageable = Judged != Fit::pinned_to_pageable;
  constexpr bool on_the_host = Judged != Fit::device_to_host;
  constexpr bool one_array = Judged != Fit::columns_in_a_row;
  constexpr bool fixed_length = Judged != Fit::ragged_to_host;
  constexpr bool plain = Judged != Fit::counted_to_plain;
  constexpr bool same_records = Judged != Fit::other_records;
  constexpr bool same_device = Judged != Fit::two_devices;
  constexpr bool same_stream = Judged != Fit::other_stream;
  static_assert(a_stage, "penstock: what stands right of | is not a stage: wrap a callable in a "
                         "Decoder or a Consumer.");
  static_assert(reader_first, "penstock: a pipeline starts with a Reader, and this one does not: "
                              "write ps::Reader{source} | ... .");
  static_assert(goes_on, "penstock: nothing can follow Last, which keeps what it takes: put Next "
                         "before it.");
  static_assert(in_a_branch, "penstock: nothing can follow a tee, whose branches each go on by "
                             "themselves: put Next into one of them, tee(... | Next, ...).");
  static_assert(no_reader_inside,
                "penstock: a Reader takes nothing, so it can only stand first: read two sources "
                "side by side by Reader{zip<Schema>(source, source)}, or in two pipelines.");
  static_assert(pinned, "penstock: Last gives pageable memory and Next takes pinned memory: put a "
                        "PinnedStager{} between them, or read in place, Reader{source, "
                        "ps::to_pinned}.");
  static_assert(staged_and_copied,
                "penstock: Last gives pageable memory and Next takes device "
                "memory: put PinnedStager{} | AsyncCopier{device} between them.");
  static_assert(copied, "penstock: Last gives pinned memory and Next takes device memory: put an "
                        "AsyncCopier{device} between them.");
  static_assert(pageable, "penstock: Last gives pinned memory and Next takes pageable memory: let "
                          "Next take ps::Pinned, or leave out what pins.");
  static_assert(on_the_host,
                "penstock: Last gives device memory and Next takes host memory: put an AsyncCopier"
                "{ps::to_host} between them, or let a Consumer take ps::Device and a stream.");
  static_assert(one_array,
                "penstock: Last gives columns, which lie in arrays of their own, and Next "
                "writes records one after the other: let a Decoder make a struct of "
                "them, or a Consumer write each column.");
  static_assert(fixed_length,
                "penstock: Last gives columns of ps::Ragged, and Next copies to the host, which "
                "does not know how long they have become: let a Kernel fill columns of fixed "
                "extents.");
  static_assert(plain, "penstock: of what Last gives only the device knows how many records there "
                       "are, and Next takes a plain batch: let it take ps::Batch<const "
                       "ps::Counted<T>, ps::Device>, or put an AsyncCopier{ps::to_host} between "
                       "them.");
  static_assert(same_records, "penstock: Last gives records of one type and Next takes another, "
                              "see Gives and Takes: change one of them.");
  static_assert(same_stream, "penstock: Next's callable takes another device's stream: take a "
                             "cudaStream_t on a CudaDevice, a HostStream& on a HostDevice.");
  static_assert(same_device,
                "penstock: one device a pipeline, and Next names another than the stages "
                "before it do: give all of them the same.");
  using Joined = typename detail::join<Judged, Left, Next>::type;
  if constexpr (Judged == Fit::fits || Judged == Fit::no_reader_yet) {
    if constexpr (Judged == Fit::fits && requires { Next::template check<Left>(); }) {
      Next::template check<Left>();
    }
    return Joined{detail::stages_of(std::move(left), std::move(next))};
  } else {
    return {};
  }
}

/// Joins a pipeline with the stages of a branch, one after the other.
template <class Left, class First, class... Others>
  requires(detail::Part<Left>)
[[nodiscard]] auto operator|(Left left, Branch<First, Others...> next) {
  return std::apply(Branch<First, Others...>::template follow<Left>,
                    std::tuple_cat(std::tuple<Left>{std::move(left)}, std::move(next).stages()));
}

} // namespace penstock
