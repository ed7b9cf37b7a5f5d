// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/replayed.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/data/counted.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/chain/misspelt.hpp>
#include <penstock/detail/device_side/device_thread.hpp>
#include <penstock/detail/device_side/kernel_node.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/error.hpp>
#include <penstock/stage.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock {

/// Options of a Kernel.
struct KernelOptions {
  /// Streams that batches go to in turn, at most 64: work of two may run side by side. A callable
  /// must then keep apart for each stream what it keeps between batches.
  unsigned streams = 1;
  /// Batches that the next stage may hold at once, at least 2; 0: as many as of the stage before.
  /// There may be more. Has no effect in place.
  std::size_t depth = 0;
  /// How many records a batch gives: `gives` for each group of `per` of its records, the last
  /// perhaps short. With `per = 0` for the whole batch, however short.
  std::size_t gives = 1;
  /// Records in a group: see gives.
  std::size_t per = 1;
  /// The ps::dynamic extents of what it gives, in order; for records of bytes, the bytes of a
  /// record.
  std::vector<std::size_t> extents{};
};

namespace detail {

enum class KernelForm {
  two_batches,
  in_place,
  not_written_out,
  other_parameters,
  writes_input,
  reads_output,
  not_bytes,
  ragged,
  not_copyable,
  silent
};

template <class P> consteval KernelForm kernel_form() {
  using First = batch_of<batch_parameter<0, P>>;
  using Second = batch_of<batch_parameter<1, P>>;
  if (std::is_same_v<P, RefusedBefore>) {
    return KernelForm::silent;
  }
  if (std::is_same_v<P, NotWrittenOut>) {
    return KernelForm::not_written_out;
  }
  if (First::device && P::count == 2 && !Second::device && !Second::host) {
    return First::read_only ? KernelForm::reads_output : KernelForm::in_place;
  }
  if (!First::device || !Second::device || P::count != 3) {
    return KernelForm::other_parameters;
  }
  if (!First::read_only) {
    return KernelForm::writes_input;
  }
  if (Second::read_only) {
    return KernelForm::reads_output;
  }
  if constexpr (Second::device) {
    if (!copies_as_bytes<typename Second::schema>) {
      return KernelForm::not_bytes;
    }
    if (schema_traits<typename Second::schema>::ragged) {
      return KernelForm::ragged;
    }
  }
  return KernelForm::two_batches;
}

/// Returns a callable's form; not_copyable if it cannot be copied.
template <class F, class P> consteval KernelForm kernel_form() {
  constexpr KernelForm form = kernel_form<P>();
  const bool good = form == KernelForm::two_batches || form == KernelForm::in_place;
  return good && !std::is_copy_constructible_v<F> ? KernelForm::not_copyable : form;
}

} // namespace detail

/// Turns device batches into others, by work that its callable enqueues on a stream. Any number of
/// Kernels may follow each other between an AsyncCopier{device} and the end.
///
/// The callable is `void(Batch<const In, Device> in, Batch<Out, Device> out, stream)`, to fill
/// `out`, or `void(Batch<T, Device> batch, stream)`, to change a batch in place. The thread that
/// enqueues all the pipeline's copies calls it: it must only enqueue, and wait for nothing. The
/// memory of `in` is used again when its work is done. `out` has as many records as `in`, or as the
/// options say; its index() counts what the stage gives. Records keep their order, whatever the
/// streams. If only the device comes to know their number, at most that, fill a
/// `Batch<Counted<Out>, Device>`. What the callable throws ends the run.
template <class F, class Told = KernelOptions>
class Kernel : public StageBase {
  using P = detail::parameters_of<F>;
  static constexpr detail::KernelForm form = detail::kernel_form<F, P>();
  using In = detail::batch_of<detail::batch_parameter<0, P>>;

 public:
  /// Whether it changes the batches that it is given.
  static constexpr bool in_place = form == detail::KernelForm::in_place;
  /// Whether the callable was refused, so that `|` says no more of it.
  static constexpr bool refused = form != detail::KernelForm::two_batches && !in_place;
  /// The stream that the callable takes.
  using stream_parameter = detail::stream_of<P>;
  /// The batch that the callable takes.
  template <class> using takes = Batch<const typename In::schema, Device>;
  /// The batch that it gives.
  template <class>
  using gives =
      Batch<typename detail::batch_of<detail::batch_parameter<in_place ? 0 : 1, P>>::schema,
            Device>;

  /// Copies `f`. Its parameters, written out, are the stage's types.
  template <class Takes = detail::parameters_of<F>,
            detail::KernelForm Form = detail::kernel_form<F, Takes>()>
  explicit Kernel(F f, KernelOptions options = {})
      : f_{std::move(f)}, options_{std::move(options)} {
    using detail::KernelForm;
    constexpr bool written_out = Form != KernelForm::not_written_out;
    constexpr bool batches_and_stream = Form != KernelForm::other_parameters;
    constexpr bool reads_first = Form != KernelForm::writes_input;
    constexpr bool fills_last = Form != KernelForm::reads_output;
    constexpr bool fills_bytes = Form != KernelForm::not_bytes;
    constexpr bool fixed_length = Form != KernelForm::ragged;
    constexpr bool copies = Form != KernelForm::not_copyable;
    static_assert(written_out,
                  "penstock: a Kernel learns its types from its callable's parameters, so write "
                  "them out (no auto, no overloads): [](ps::Batch<const In, ps::Device> in, "
                  "ps::Batch<Out, ps::Device> out, cudaStream_t stream) {...}.");
    static_assert(
        batches_and_stream,
        "penstock: a Kernel's callable takes a device batch to read, one to fill, and the stream: "
        "[](ps::Batch<const In, ps::Device> in, ps::Batch<Out, ps::Device> out, cudaStream_t "
        "stream) {...}; in place one batch: [](ps::Batch<T, ps::Device> batch, cudaStream_t "
        "stream) {...}.");
    static_assert(reads_first, "penstock: a Kernel only reads the first of two batches: make it "
                               "ps::Batch<const In, ps::Device>.");
    static_assert(fills_last, "penstock: a Kernel writes its last batch: make it "
                              "ps::Batch<Out, ps::Device>, without const; to read only, be a "
                              "Consumer.");
    static_assert(fills_bytes, "penstock: records are copied byte by byte, so what a Kernel fills "
                               "must be trivially copyable.");
    static_assert(fixed_length, "penstock: only a GPU would know how long the records of a Ragged "
                                "column are: let a Kernel fill columns of fixed extents.");
    static_assert(copies,
                  "penstock: a Kernel's callable is copied, and this one cannot be: give it "
                  "std::ref(f) of one that outlives the pipeline, or hold what cannot be "
                  "copied in a std::shared_ptr.");
  }

  /// For prepare().
  template <class Given, class D> [[gnu::cold]] void build(detail::Build<D>& build) const {
    const detail::Recount recount{options_.gives, options_.per};
    check(recount);
    const auto in = build.device_input();
    const auto out = link(recount, build);
    build.device_output(out);
    build.template add_step<
        detail::KernelNode<F, typename In::schema, typename Out::schema, in_place, D>>(
        out, build.setup("Kernel", 1, StageKind::kernel), *build.device, in, out, f_,
        options_.streams, recount);
  }

 private:
  using Out = detail::batch_of<detail::batch_parameter<in_place ? 0 : 1, P>>;

  void check(const detail::Recount& recount) const {
    detail::checked_depth("Kernel", options_.depth);
    if (options_.streams == 0 || options_.streams > 64) {
      detail::throw_error<OptionError>(
          {"penstock: Kernel: streams is ", options_.streams, ": give it 1 to 64."});
    }
    if (detail::is_replayed<F> && options_.streams != 1) {
      throw OptionError{
          "penstock: Kernel: what is replayed goes to one stream: give replayed() lanes, and leave "
          "out streams."};
    }
    if (options_.gives == 0 || (in_place && !recount.same())) {
      detail::throw_error<OptionError>(
          {"penstock: Kernel: gives is ", options_.gives,
           (in_place ? ", but a batch that is changed in place keeps its records: "
                       "leave out gives and per."
                     : ": a batch gives at least one record.")});
    }
  }
  // Makes the ring it fills: as many slots as the ring before it, or as three copies back need if
  // that is fewer, and at least the depth.
  template <class D>
  detail::Shared<detail::DeviceLink<D>> link(const detail::Recount& recount,
                                             detail::Build<D>& build) const {
    using Link = detail::DeviceLink<D>;
    const Link& in = *build.device_input();
    const auto& bell = build.device_thread().bell();
    if constexpr (in_place) {
      return detail::new_shared<Link>(*build.device, in.ring.slots(), in.shared_memory, bell);
    } else {
      const std::size_t batch = in.layout().records();
      using To = typename Out::schema;
      const detail::Layout plain = detail::layout_of<detail::uncounted_t<To>>(
          recount.of(batch), options_.extents, 0, "Kernel");
      const detail::Layout layout = detail::is_counted<To> ? plain.counted() : plain;
      build.facts.units = recount.of_run(build.facts.units == unknown_size
                                             ? unknown_size
                                             : in.layout().in_records(build.facts.units),
                                         build.facts.epochs, batch);
      build.facts.needs.recount(in.layout().units, layout.units);
      build.facts.one_for_one =
          build.facts.one_for_one && recount.same() && !detail::is_counted<To>;
      build.facts.depth = options_.depth != 0 ? options_.depth : build.facts.depth;
      if constexpr (detail::is_replayed<F>) {
        return detail::new_shared<Link>(*build.device, in.ring.slots(), layout, bell, "Kernel");
      }
      const std::size_t copies =
          3 * detail::usual_copy / std::max<std::size_t>(layout.bytes(), 1) + 1;
      return detail::new_shared<Link>(
          *build.device, std::max(build.facts.depth, std::min(copies, in.ring.slots())), layout,
          bell, "Kernel");
    }
  }

  F f_;
  KernelOptions options_;
};
/// Refuses options that fit no list.
template <class F> class Kernel<F, detail::Misspelt> : public detail::RefusedStage {
  static constexpr bool options_fit = !sizeof(F);
  static_assert(options_fit, "penstock: these are no KernelOptions. By name, in this order: "
                             ".streams, .depth, .gives, .per, .extents.");

 public:
  /// Takes any arguments.
  Kernel(...) {}
};
/// Deduce the callable's type, with options or without.
/// @{
template <class F> Kernel(F&&) -> Kernel<std::decay_t<F>>;
template <class F> Kernel(F&&, KernelOptions) -> Kernel<std::decay_t<F>>;
/// @}
/// Deduce the refusal.
/// @{
template <detail::Object F> Kernel(const volatile F&&, ...) -> Kernel<F, detail::Misspelt>;
template <detail::Object F> Kernel(const volatile F&, ...) -> Kernel<F, detail::Misspelt>;
Kernel(bool, ...) -> Kernel<bool, detail::Misspelt>; // a function's name
/// @}

} // namespace penstock
