// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/each_worker.hpp>
#include <penstock/callables/replayed.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/chain/misspelt.hpp>
#include <penstock/detail/ends/device_consumer.hpp>
#include <penstock/detail/ends/host_consumer.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/stage.hpp>

#include <type_traits>
#include <utility>

namespace penstock {

/// Options of a Consumer.
struct ConsumerOptions {
  /// For host batches: threads that call at once, each its own copy of the callable, or what
  /// each_worker() made for it; the thread that called run() is one of them. With more than one,
  /// they take batches in order but may work on them side by side, and share each slot. For device
  /// batches it must be 1.
  unsigned workers = 1;
};

namespace detail {

enum class ConsumerForm {
  good,
  not_written_out,
  other_parameters,
  writes_input,
  made_for_a_device,
  not_copyable,
  silent
};

template <class F, class P> consteval ConsumerForm consumer_form() {
  using In = batch_of<batch_parameter<0, P>>;
  if (std::is_same_v<P, RefusedBefore>) {
    return ConsumerForm::silent;
  }
  if (std::is_same_v<P, NotWrittenOut>) {
    return ConsumerForm::not_written_out;
  }
  if (!(In::device && P::count == 2) && !(In::host && P::count == 1)) {
    return ConsumerForm::other_parameters;
  }
  if (!In::read_only) {
    return ConsumerForm::writes_input;
  }
  if (In::device && is_each_worker<F>) {
    return ConsumerForm::made_for_a_device;
  }
  return std::is_copy_constructible_v<F> ? ConsumerForm::good : ConsumerForm::not_copyable;
}

} // namespace detail

/// Hands each batch to a callable. The last stage of a pipeline.
///
/// For device batches the callable is `void(Batch<const T, Device>, stream)`. The thread that
/// called run() calls it. It only enqueues work on the stream, which is one of the pipeline's own;
/// the batch's memory is used again when that work is done. For many small batches, replayed()
/// makes few calls. For host batches it is `void(Batch<const T, Pageable>)` or `Pinned`, and the
/// memory is used again when it returns. each_worker() gives each worker an object of its own, and
/// hands in what each has at the end of a run.
template <class F, class Told = ConsumerOptions>
class Consumer : public StageBase {
  using P = detail::called_parameters<F>;
  using In = detail::batch_parameter<0, P>;

 public:
  /// Whether the callable was refused, so that `|` says no more of it.
  static constexpr bool refused = detail::consumer_form<F, P>() != detail::ConsumerForm::good;
  /// The stream that the callable takes.
  using stream_parameter = detail::stream_of<P>;
  /// The batch that the callable takes.
  template <class> using takes = In;
  /// Nothing: a Consumer is the last stage.
  template <class> using gives = void;

  /// Copies `f`, once for each worker. Its parameters, written out, are the stage's types.
  template <class Takes = detail::called_parameters<F>,
            detail::ConsumerForm Form = detail::consumer_form<F, Takes>()>
  explicit Consumer(F f, ConsumerOptions options = {}) : f_{std::move(f)}, options_{options} {
    using detail::ConsumerForm;
    constexpr bool written_out = Form != ConsumerForm::not_written_out;
    constexpr bool a_batch_and_stream = Form != ConsumerForm::other_parameters;
    constexpr bool only_reads = Form != ConsumerForm::writes_input;
    constexpr bool one_worker = Form != ConsumerForm::made_for_a_device;
    constexpr bool copies = Form != ConsumerForm::not_copyable;
    static_assert(written_out,
                  "penstock: a Consumer learns its types from its callable's parameters, so write "
                  "them out (no auto, no overloads): [](ps::Batch<const In, ps::Device> in, "
                  "cudaStream_t stream) {...}.");
    static_assert(
        a_batch_and_stream,
        "penstock: a Consumer's callable takes a device batch and the stream, or one host "
        "batch: [](ps::Batch<const In, ps::Device> in, cudaStream_t stream) {...}.");
    static_assert(only_reads,
                  "penstock: a Consumer only reads its batch: make it ps::Batch<const In, ...>.");
    static_assert(one_worker,
                  "penstock: device batches have one worker, the thread that called run(), so "
                  "there is nothing to make for each: give the Consumer the callable, or "
                  "std::ref(f) of one that cannot be copied.");
    static_assert(copies,
                  "penstock: each worker has its own copy of a Consumer's callable, and this "
                  "one cannot be copied: std::ref(f) shares one, which several threads then "
                  "call; for host batches ps::each_worker([] { return F{...}; }) makes one for "
                  "each.");
  }

  /// For prepare().
  template <class Given> void plan(detail::Plan& plan) const {
    if constexpr (detail::batch_of<In>::host) {
      plan.works(workers());
    }
  }
  /// For prepare().
  template <class Given, class D> [[gnu::cold]] void build(detail::Build<D>& build) const {
    const unsigned workers = this->workers();
    using T = typename detail::batch_of<In>::schema;
    if constexpr (detail::batch_of<In>::device) {
      if (workers != 1) {
        detail::throw_error<OptionError>(
            {"penstock: Consumer: workers is ", workers,
             ", but device batches are enqueued by the one thread that called run()."});
      }
      if constexpr (detail::is_replayed<F>) {
        build.template add<detail::ReplayedConsumer<F, T, D>>(
            build.setup("Consumer", 1, StageKind::consumer), *build.device, build.device_input(),
            build.facts.depth, f_);
      } else {
        build.template add<detail::DeviceConsumer<F, T, D>>(
            build.setup("Consumer", 1, StageKind::consumer), *build.device, build.device_input(),
            build.facts.depth, f_);
      }
    } else {
      using Where = typename detail::batch_of<In>::space;
      const bool whole = build.facts.fixed_slots || detail::schema_traits<T>::ragged;
      build.template add<detail::HostConsumer<F, T, Where>>(
          build.setup("Consumer", workers, StageKind::consumer), build.counted_host_input(), f_,
          whole);
    }
  }

 private:
  unsigned workers() const { return detail::checked_workers("Consumer", options_.workers, 1); }

  F f_;
  ConsumerOptions options_;
};
/// Refuses options that fit no list.
template <class F> class Consumer<F, detail::Misspelt> : public detail::RefusedStage {
  static constexpr bool options_fit = !sizeof(F);
  static_assert(options_fit, "penstock: these are no ConsumerOptions. By name: .workers.");

 public:
  /// Takes any arguments.
  Consumer(...) {}
};
/// Deduces the callable's type, with options or without.
/// @{
template <class F> Consumer(F&&) -> Consumer<std::decay_t<F>>;
template <class F> Consumer(F&&, ConsumerOptions) -> Consumer<std::decay_t<F>>;
/// @}
/// Deduces the refusal.
/// @{
template <detail::Object F> Consumer(const volatile F&&, ...) -> Consumer<F, detail::Misspelt>;
template <detail::Object F> Consumer(const volatile F&, ...) -> Consumer<F, detail::Misspelt>;
Consumer(bool, ...) -> Consumer<bool, detail::Misspelt>; // a function's name
/// @}

} // namespace penstock
