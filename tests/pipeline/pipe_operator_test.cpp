// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Which stages fit together, at compile time: each wrong wiring has a verdict of its own, which
// picks the message of operator|.

#include "support/catch.hpp"

#include <penstock/penstock.hpp>
#include <penstock/pipeline/tee.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace ps = penstock;
using ps::detail::Fit;

namespace {

template <class Left, class Next>
constexpr Fit verdict = ps::detail::find_fit<
    Left, Next, typename ps::detail::chain<Left>::gives,
    typename ps::detail::taken<Next, typename ps::detail::chain<Left>::gives>::type,
    typename ps::detail::chain<Left>::device>();

struct OtherStream {};
struct OtherDevice {};
template <class In> struct OnDevice {
  void operator()(ps::Batch<const In, ps::Device>, ps::HostStream&) const {}
};
struct OnOther {
  void operator()(ps::Batch<const std::byte, ps::Device>, OtherStream&) const {}
};
template <class Where> struct OnHost {
  void operator()(ps::Batch<const std::byte, Where>) const {}
};
template <class In, class OutStream = ps::HostStream> struct Turn {
  void operator()(ps::Batch<const In, ps::Device>, ps::Batch<float, ps::Device>, OutStream&) const {
  }
};
struct Change {
  void operator()(ps::Batch<std::byte, ps::Device>, ps::HostStream&) const {}
};
struct Text : ps::Columns<ps::Field<"text", ps::Ragged<char>>> {};
struct Spell {
  void operator()(ps::Batch<const std::byte, ps::Pinned>, ps::Batch<Text, ps::Pinned>) const {}
};

using Bytes = ps::Memory<std::byte>;
using Pageable = ps::Reader<Bytes>;
using Pinned = ps::Reader<Bytes, ps::Pinned>;
using Stager = ps::PinnedStager<>;
using Copier = ps::AsyncCopier<ps::HostDevice>;
using Use = ps::Consumer<OnDevice<std::byte>>;
using Copied = ps::Pipeline<Pinned, Copier>;
using Closed = ps::Pipeline<Pinned, Copier, Use>;
using Make = ps::Kernel<Turn<std::byte>>;
using InPlace = ps::Kernel<Change>;
using Home = ps::AsyncCopier<const ps::to_host_t>;
using Made = ps::Pipeline<Pinned, Copier, Make>;
using Back = ps::Pipeline<Pinned, Copier, InPlace, Home>;

// A const object that is moved is copied, and is no misspelt option: a moved capture is const.
static_assert(std::is_same_v<decltype(ps::Reader{std::declval<const Bytes>()}), Pageable>);
static_assert(std::is_same_v<decltype(ps::Consumer{std::declval<const OnHost<ps::Pageable>>()}),
                             ps::Consumer<OnHost<ps::Pageable>>>);
static_assert(verdict<Pageable, Stager> == Fit::fits);
static_assert(verdict<ps::Pipeline<Pageable, Stager>, Copier> == Fit::fits);
static_assert(verdict<Pinned, Copier> == Fit::fits);
static_assert(verdict<Copied, Use> == Fit::fits);
static_assert(verdict<Pageable, ps::Consumer<OnHost<ps::Pageable>>> == Fit::fits);
static_assert(verdict<Pinned, ps::Consumer<OnHost<ps::Pinned>>> == Fit::fits);

static_assert(verdict<Copied, Make> == Fit::fits);
static_assert(verdict<Copied, InPlace> == Fit::fits);
static_assert(verdict<Made, ps::Kernel<Turn<float>>> == Fit::fits);
static_assert(verdict<Made, ps::Consumer<OnDevice<float>>> == Fit::fits);
static_assert(verdict<Made, Home> == Fit::fits);
static_assert(verdict<Copied, Home> == Fit::fits);
static_assert(verdict<Back, ps::Consumer<OnHost<ps::Pinned>>> == Fit::fits);
static_assert(verdict<Back, ps::Writer<>> == Fit::fits);
static_assert(verdict<Back, Copier> == Fit::fits);

static_assert(verdict<Pageable, Copier> == Fit::pageable_to_pinned);
static_assert(verdict<Pageable, Use> == Fit::pageable_to_device);
static_assert(verdict<Pinned, Use> == Fit::pinned_to_device);
static_assert(verdict<Pinned, Stager> == Fit::pinned_to_pageable);
static_assert(verdict<Copied, ps::Consumer<OnHost<ps::Pinned>>> == Fit::device_to_host);
static_assert(verdict<Copied, ps::Writer<>> == Fit::device_to_host);
static_assert(verdict<Made, ps::Consumer<OnHost<ps::Pinned>>> == Fit::device_to_host);
static_assert(verdict<Pageable, Make> == Fit::pageable_to_device);
static_assert(verdict<Pinned, InPlace> == Fit::pinned_to_device);
static_assert(verdict<Pageable, Home> == Fit::pageable_to_device);
static_assert(verdict<Pinned, Home> == Fit::pinned_to_device);
static_assert(verdict<Back, Home> == Fit::pinned_to_device);
static_assert(verdict<Back, InPlace> == Fit::pinned_to_device);
static_assert(verdict<Back, Stager> == Fit::pinned_to_pageable);
static_assert(verdict<Back, ps::Consumer<OnHost<ps::Pageable>>> == Fit::pinned_to_pageable);
static_assert(verdict<ps::Pipeline<Pinned, ps::Decoder<Spell>, Copier>, Home> ==
              Fit::ragged_to_host);
static_assert(verdict<Made, Make> == Fit::other_records);
static_assert(verdict<Made, InPlace> == Fit::other_records);
static_assert(verdict<Copied, ps::Kernel<Turn<std::byte, OtherStream>>> == Fit::other_stream);
static_assert(verdict<Closed, InPlace> == Fit::after_the_last);
static_assert(verdict<Closed, Home> == Fit::after_the_last);
static_assert(verdict<Make, Home> == Fit::no_reader_yet);
static_assert(verdict<ps::Branch<Make, Home>, Copier> == Fit::no_reader_yet);
static_assert(verdict<Bytes, Copier> == Fit::no_reader_first);
static_assert(verdict<Copied, Change> == Fit::not_a_stage);
static_assert(verdict<Copied, ps::Consumer<OnDevice<float>>> == Fit::other_records);
static_assert(verdict<Copied, ps::Consumer<OnOther>> == Fit::other_stream);
static_assert(verdict<ps::Pipeline<Pageable, ps::PinnedStager<OtherDevice>>, Copier> ==
              Fit::two_devices);
static_assert(verdict<Closed, Stager> == Fit::after_the_last);
static_assert(verdict<Stager, Copier> == Fit::no_reader_yet);
static_assert(verdict<ps::Pipeline<Pinned, ps::Tee<ps::Branch<Copier>, ps::Branch<Use>>>, Use> ==
              Fit::after_a_tee);
static_assert(verdict<Pageable, Pinned> == Fit::reader_inside);
static_assert(verdict<Copied, OnDevice<std::byte>> == Fit::not_a_stage);
static_assert(verdict<ps::Refused, Use> == Fit::silent);
static_assert(verdict<Copied, ps::Refused> == Fit::silent);

static_assert(ps::Feeds<Pinned, Copier> && !ps::Feeds<Pageable, Copier>);

// A device must outlive the pipeline, so a temporary is refused.
static_assert(std::is_constructible_v<Copier, ps::HostDevice&>);
static_assert(!std::is_constructible_v<Copier, ps::HostDevice>);
static_assert(std::is_constructible_v<ps::PinnedStager<ps::HostDevice>, ps::HostDevice&>);
static_assert(!std::is_constructible_v<ps::PinnedStager<ps::HostDevice>, ps::HostDevice>);

// A batch that may be written can be read, but not the other way round.
static_assert(std::is_convertible_v<ps::Batch<int, ps::Pinned>, ps::Batch<const int, ps::Pinned>>);
static_assert(!std::is_convertible_v<ps::Batch<const int, ps::Pinned>, ps::Batch<int, ps::Pinned>>);
static_assert(!std::is_convertible_v<ps::Batch<int, ps::Pinned>, ps::Batch<int, ps::Device>>);
static_assert(std::is_trivially_copyable_v<ps::Batch<const int, ps::Device>>);

} // namespace

TEST_CASE("stages of two devices are refused when the pipeline is prepared") {
  ps::HostDevice one;
  ps::HostDevice other;
  const std::byte bytes[10]{};
  auto pipeline = ps::Reader{ps::memory(std::span{bytes})} | ps::PinnedStager{one} |
                  ps::AsyncCopier{other} | ps::Consumer{OnDevice<std::byte>{}};
  CHECK_THROWS_AS(pipeline.prepare(), ps::OptionError);
}
