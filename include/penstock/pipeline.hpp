// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/engine.hpp>
#include <penstock/detail/judge.hpp>
#include <penstock/host_device.hpp>
#include <penstock/report.hpp>

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace penstock {

/// Stages joined by `|`: `Reader{…} | … | Consumer{…}`. Movable. It is a description until
/// prepare(), which makes rings, memory and threads of it, all kept until it dies. One thread
/// drives it; stop() may be called from any. Its device must outlive it.
template <class... Stages> class Pipeline {
  static constexpr std::size_t size = sizeof...(Stages);
  template <std::size_t At> using StageAt = std::tuple_element_t<At, std::tuple<Stages...>>;
  using Gives = typename detail::given<void, Stages...>::type;
  using On = typename detail::device_of<Stages...>::type;
  // Stands in where no stage names a device, and is then not there.
  using Backend = std::conditional_t<AnyDevice<On>, On, HostDevice>;

 public:
  explicit Pipeline(std::tuple<Stages...> stages) : stages_{std::move(stages)} {}

  /// Opens the source, allocates all memory and starts all threads; the first run() does it if it
  /// was not done. Blocks. Throws OptionError, SourceError, DeviceError or Error, and is then as if
  /// it had not been called.
  template <class StillGives = Gives, class Named = On> void prepare() {
    constexpr bool complete = std::is_void_v<StillGives>;
    constexpr bool pinned_by_a_device = !complete || !pins() || AnyDevice<Named>;
    static_assert(complete, "penstock: run() needs a last stage that keeps what it takes: end the "
                            "pipeline with a Consumer.");
    static_assert(
        pinned_by_a_device,
        "penstock: pinned memory is pinned for a device, and this pipeline has none: name "
        "it, PinnedStager{device}, add an AsyncCopier{device}, or leave out what pins.");
    if constexpr (complete && pinned_by_a_device) {
      if (!engine_.get()) {
        Backend* device = find_device();
        auto engine = std::make_unique<detail::Engine>(device ? device->name() : "none");
        build(*engine, device, std::make_index_sequence<size>{});
        engine->man();
        engine_.set(std::move(engine));
      }
    }
  }

  /// Runs to the source's end, or until `token` asks to stop, which is no error: the Report says
  /// so. The last stage's callable runs on the calling thread. Blocks until the last batch is used
  /// up. The first error ends the run and is thrown as a StageError, the cause nested, when all
  /// workers rest; the pipeline may be run again. A second run allocates nothing. The Report is
  /// good until the next run.
  const Report& run(std::stop_token token = {}) {
    prepare();
    return engine_.get()->run(std::move(token));
  }

  /// Ends the current run early, as a stop token does. Any thread; never blocks. Nothing happens if
  /// nothing runs.
  void stop() noexcept {
    if (detail::Engine* engine = engine_.get()) {
      engine->stop();
    }
  }

  /// Of the last run, also of one that failed. After prepare().
  const Report& report() const noexcept { return engine_.get()->report(); }

 private:
  template <class... S> friend std::tuple<S...> detail::stages_in(Pipeline<S...>&& pipeline);

  template <std::size_t At> using GivenTo = typename detail::given_at<At, void, Stages...>::type;

  static constexpr bool pins() {
    return []<std::size_t... At>(std::index_sequence<At...>) {
      return (std::is_same_v<typename detail::batch_of<GivenTo<At>>::space, Pinned> || ...);
    }(std::make_index_sequence<size>{});
  }

  // The one device that stages name; two would be two pipelines.
  Backend* find_device() const {
    Backend* found = nullptr;
    std::apply(
        [&](const auto&... stage) {
          const auto look = [&](const auto& s) {
            if constexpr (requires { typename std::remove_cvref_t<decltype(s)>::device_type; }) {
              if (found && found != s.device()) {
                throw OptionError{"penstock: the stages of one pipeline name two devices, " +
                                  found->name() + " and " + s.device()->name() +
                                  ": give all of them the same."};
              }
              found = s.device();
            }
          };
          (look(stage), ...);
        },
        stages_);
    return found;
  }
  template <std::size_t... At>
  void build(detail::Engine& engine, Backend* device, std::index_sequence<At...>) const {
    auto parts = engine.build(device);
    (std::get<At>(stages_).template build<GivenTo<At>>(parts), ...);
  }

  std::tuple<Stages...> stages_;
  detail::EngineOwner engine_;
};

namespace detail {
template <Stage S> std::tuple<S> stages_in(S&& stage) {
  return {std::move(stage)};
}
template <class... S> std::tuple<S...> stages_in(Pipeline<S...>&& pipeline) {
  return std::move(pipeline.stages_);
}
} // namespace detail

/// Joins a stage, or a pipeline not yet run, with the stage after it. What does not fit does not
/// compile; the first message names what one gives, what the other takes, and the cure.
template <class Left, class Next, class Last = typename detail::chain<Left>::last,
          class Gives = typename detail::chain<Left>::gives,
          class Takes = typename detail::taken<Next, Gives>::type,
          class On = typename detail::chain<Left>::device,
          detail::Verdict Judged = detail::judge<Left, Next, Gives, Takes, On>()>
  requires(detail::Part<Left> || detail::Part<Next>)
[[nodiscard]] typename detail::join<Judged == detail::Verdict::fits, Left, Next>::type
operator|(Left left, Next next) {
  using detail::Verdict;
  constexpr bool a_stage = Judged != Verdict::not_a_stage;
  constexpr bool reader_first = Judged != Verdict::no_reader_first;
  constexpr bool goes_on = Judged != Verdict::after_the_last;
  constexpr bool no_reader_inside = Judged != Verdict::reader_inside;
  constexpr bool pinned = Judged != Verdict::pageable_to_pinned;
  constexpr bool staged_and_copied = Judged != Verdict::pageable_to_device;
  constexpr bool copied = Judged != Verdict::pinned_to_device;
  constexpr bool pageable = Judged != Verdict::pinned_to_pageable;
  constexpr bool on_the_host = Judged != Verdict::device_to_host;
  constexpr bool same_records = Judged != Verdict::other_records;
  constexpr bool same_stream = Judged != Verdict::other_stream;
  static_assert(a_stage, "penstock: what stands right of | is not a stage: wrap a callable in a "
                         "Consumer.");
  static_assert(reader_first, "penstock: a pipeline starts with a Reader, and this one does not: "
                              "write ps::Reader{source} | ... .");
  static_assert(goes_on, "penstock: nothing can follow Last, which keeps what it takes: put Next "
                         "before it.");
  static_assert(no_reader_inside, "penstock: a Reader takes nothing, so it can only stand first.");
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
  static_assert(on_the_host, "penstock: Last gives device memory and Next takes host memory: let "
                             "Next take ps::Device and a stream.");
  static_assert(same_records,
                "penstock: Last gives records of one type and Next takes another, see "
                "Gives and Takes: change one of them.");
  static_assert(same_stream, "penstock: Next's callable takes another device's stream: take a "
                             "cudaStream_t on a CudaDevice, a HostStream& on a HostDevice.");
  if constexpr (Judged == Verdict::fits) {
    return typename detail::join<true, Left, Next>::type{
        std::tuple_cat(detail::stages_in(std::move(left)), detail::stages_in(std::move(next)))};
  } else {
    return {};
  }
}

} // namespace penstock
