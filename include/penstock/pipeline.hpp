// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/batches.hpp>
#include <penstock/detail/assembly.hpp>
#include <penstock/detail/engine.hpp>
#include <penstock/detail/judge.hpp>
#include <penstock/detail/loop_nodes.hpp>
#include <penstock/prepare_options.hpp>
#include <penstock/report.hpp>
#include <penstock/run_options.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>

namespace penstock {

/// Stages joined by `|`: `Reader{…} | … | Consumer{…}`, or without a Consumer an open pipeline,
/// whose batches the application takes in a loop of its own. Movable. It is a description until
/// prepare(), which makes rings, memory and threads of it, all kept until it dies. One thread
/// drives it, and any may stop it. Its device must outlive it.
template <class... Stages> class Pipeline {
  using Assembly = detail::Assembly<Stages...>;
  using Gives = typename Assembly::Gives;
  using On = typename Assembly::On;

 public:
  /// What `|` makes.
  explicit Pipeline(std::tuple<Stages...> stages) : stages_{std::move(stages)} {}

  /// Opens the source, allocates all memory and starts all threads; the first run() does it if it
  /// was not done. Blocks. Throws OptionError, SourceError, DeviceError, Error or what progress
  /// throws, and is then as if it had not been called.
  template <class Named = On> void prepare(const PrepareOptions& options = {}) {
    constexpr bool pinned_by_a_device = !Assembly::pins() || AnyDevice<Named>;
    static_assert(
        pinned_by_a_device,
        "penstock: pinned memory is pinned for a device, and this pipeline has none: name "
        "it, PinnedStager{device}, add an AsyncCopier{device}, or leave out what pins.");
    if constexpr (pinned_by_a_device) {
      if (!engine_.get()) {
        engine_.set(Assembly::make(stages_, options));
      }
    }
  }

  /// Runs to the source's end, or until it is asked to stop, which is no error: the Report says
  /// so. The last stage's callable runs on the calling thread. Blocks until the last batch is used
  /// up. The first error ends the run and is thrown as a StageError, the cause nested, when all
  /// workers rest; the pipeline may be run again. A second run allocates nothing. The Report is
  /// good until the next run.
  template <class StillGives = Gives, class Named = On>
  const Report& run(const RunOptions& options = {}) {
    constexpr bool complete = std::is_void_v<StillGives>;
    static_assert(complete, "penstock: run() needs a last stage that keeps what it takes: end the "
                            "pipeline with a Consumer, or drive it yourself, for (auto batch : "
                            "pipeline.on(stream)).");
    constexpr bool pinned_by_a_device = !Assembly::pins() || AnyDevice<Named>;
    static_assert(
        pinned_by_a_device,
        "penstock: pinned memory is pinned for a device, and this pipeline has none: name "
        "it, PinnedStager{device}, add an AsyncCopier{device}, or leave out what pins.");
    if constexpr (complete && pinned_by_a_device) {
      prepare();
    }
    return engine_.get()->run(options);
  }
  /// The same with a stop token alone.
  template <class StillGives = Gives> const Report& run(std::stop_token token) {
    return run<StillGives>(RunOptions{.stop = std::move(token)});
  }

  /// The application's own loop over the batches of an open pipeline that ends on its device: `for
  /// (auto batch : pipeline.on(stream))`, each a Lease that is ready when `stream`, of that device,
  /// comes to it. On the calling thread: two device calls a batch. See Batches.
  template <class S, class StillGives = Gives, class Named = On>
    requires(!std::is_same_v<S, int>)
  [[nodiscard]] auto on(S&& stream, RunOptions options = {}) & {
    constexpr bool open = !std::is_void_v<StillGives>;
    constexpr bool on_a_device = !open || detail::batch_of<StillGives>::device;
    constexpr bool own_stream = !on_a_device || detail::is_stream_of<Named, S>();
    static_assert(open,
                  "penstock: this pipeline has a last stage that keeps what it takes, so there "
                  "is nothing for on() to hand out: call run(), or leave that stage out.");
    static_assert(on_a_device,
                  "penstock: on(stream) hands out device batches, and this pipeline ends "
                  "in host memory: add an AsyncCopier{device}, or walk it by batches().");
    static_assert(own_stream,
                  "penstock: this stream does not belong to the pipeline's device: pass a "
                  "cudaStream_t for a CudaDevice, a HostStream& for a HostDevice.");
    if constexpr (open && on_a_device && own_stream) {
      using T = typename detail::batch_of<StillGives>::schema;
      prepare();
      auto& loop = static_cast<detail::DeviceLoop<T, Named>&>(engine_.get()->last());
      Stream<Named> taken = stream;
      return Batches<Batch<const T, Device>>{*engine_.get(), loop, std::move(options),
                                             detail::StreamHandle::of(taken)};
    } else {
      return Refused::Range{};
    }
  }
  /// The same on CUDA's default stream, written 0 or nullptr.
  [[nodiscard]] auto on(std::nullptr_t stream, RunOptions options = {}) & {
    return on<std::nullptr_t&>(stream, std::move(options));
  }
  /// The same for an open pipeline that ends in host memory, `for (auto batch :
  /// pipeline.batches())`.
  template <class StillGives = Gives> [[nodiscard]] auto batches(RunOptions options = {}) & {
    constexpr bool open = !std::is_void_v<StillGives>;
    constexpr bool on_the_host = !open || detail::batch_of<StillGives>::host;
    static_assert(open,
                  "penstock: this pipeline has a last stage that keeps what it takes, so there "
                  "is nothing for batches() to hand out: call run(), or leave that stage out.");
    static_assert(on_the_host,
                  "penstock: batches() hands out host batches, and this pipeline ends on "
                  "a device: for (auto batch : pipeline.on(stream)).");
    if constexpr (open && on_the_host) {
      using T = typename detail::batch_of<StillGives>::schema;
      using Where = typename detail::batch_of<StillGives>::space;
      prepare();
      auto& loop = static_cast<detail::HostLoop<T, Where>&>(engine_.get()->last());
      return Batches<Batch<const T, Where>>{*engine_.get(), loop, std::move(options)};
    } else {
      return Refused::Range{};
    }
  }
  /// Of a temporary it does not compile, with the cure.
  template <class S> Refused::Range on(S&&, RunOptions = {}) && {
    constexpr bool named = !sizeof(S);
    static_assert(named, "penstock: this pipeline is a temporary and would be gone before the loop "
                         "starts: give it a name first, auto pipeline = ...; for (auto batch : "
                         "pipeline.on(stream)).");
    return {};
  }
  /// The same.
  template <class StillGives = Gives> Refused::Range batches(RunOptions = {}) && {
    constexpr bool named = std::is_same_v<StillGives, void>;
    static_assert(named, "penstock: this pipeline is a temporary and would be gone before the loop "
                         "starts: give it a name first, auto pipeline = ...; for (auto batch : "
                         "pipeline.batches()).");
    return {};
  }

  /// How many batches a run gives at most, or unknown_size: for a Deferred that is to hold a value
  /// of each. Prepares, as prepare() does.
  std::uint64_t batches_a_run() {
    prepare();
    return engine_.get()->batches();
  }

  /// Ends the current run early, as a stop token does. Any thread, and any signal handler; never
  /// blocks. Without effect while nothing runs: the next run goes on as if it had not been called.
  void stop() noexcept {
    if (detail::Engine* engine = engine_.get()) {
      engine->stop();
    }
  }

  /// What the run has done so far, or, when none is going on, of the last one, also of one that
  /// failed. Any thread. Before prepare() an empty one.
  Report report() const {
    const detail::Engine* engine = engine_.get();
    return engine ? engine->report() : Report{};
  }

 private:
  template <class... S> friend std::tuple<S...> detail::stages_in(Pipeline<S...>&& pipeline);

  std::tuple<Stages...> stages_;
  detail::EngineOwner engine_;
};

namespace detail {
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
  constexpr bool one_array = Judged != Verdict::columns_in_a_row;
  constexpr bool fixed_length = Judged != Verdict::ragged_to_host;
  constexpr bool plain = Judged != Verdict::counted_to_plain;
  constexpr bool same_records = Judged != Verdict::other_records;
  constexpr bool same_device = Judged != Verdict::two_devices;
  constexpr bool same_stream = Judged != Verdict::other_stream;
  static_assert(a_stage, "penstock: what stands right of | is not a stage: wrap a callable in a "
                         "Decoder or a Consumer.");
  static_assert(reader_first, "penstock: a pipeline starts with a Reader, and this one does not: "
                              "write ps::Reader{source} | ... .");
  static_assert(goes_on, "penstock: nothing can follow Last, which keeps what it takes: put Next "
                         "before it.");
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
  if constexpr (Judged == Verdict::fits) {
    return typename detail::join<true, Left, Next>::type{
        std::tuple_cat(detail::stages_in(std::move(left)), detail::stages_in(std::move(next)))};
  } else {
    return {};
  }
}

} // namespace penstock
