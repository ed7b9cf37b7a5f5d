// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/counted.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/chain/misspelt.hpp>
#include <penstock/detail/device_side/batches_by_turn.hpp>
#include <penstock/detail/device_side/copier.hpp>
#include <penstock/detail/device_side/device_thread.hpp>
#include <penstock/detail/device_side/fetcher_node.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/error.hpp>
#include <penstock/stage.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace penstock {

/// Options of an AsyncCopier.
struct CopierOptions {
  /// Records a batch, for the stages after the copy; 0: about 4 MiB of them, or, to the host, about
  /// 1 MiB, but no more than the device's batch. With a Ragged column a batch is a slot, and 0
  /// means the Reader's.
  std::size_t batch = 0;
  /// Batches that may be in the memory it copies to at once, at least 2. There may be more: on the
  /// device as many as three full copies hold, up to 4096, and in host memory 48 MiB are used.
  std::size_t depth = 3;
};

/// Copies batches from pinned memory to `device`, on a stream of its own, and makes batches of the
/// size that the kernel wants. It decides itself how much one copy takes: about 12 MiB if that much
/// is ready, else what is ready, at once.
template <class D, class Told = CopierOptions> class AsyncCopier : public StageBase {
 public:
  /// Whether D is no device, so that `|` says no more of it.
  static constexpr bool refused = !AnyDevice<D>;
  /// The pipeline's device.
  using device_type = D;
  /// The batch it takes: Given's records, in pinned memory.
  template <class Given> using takes = detail::moved_t<Given, Pinned>;
  /// The batch it gives: the same records, on the device.
  template <class Given> using gives = detail::moved_t<Given, Device>;

  /// Copies to `device`, which must outlive the pipeline.
  template <bool IsADevice = AnyDevice<D>>
  explicit AsyncCopier(D& device, CopierOptions options = {})
      : device_{&device}, options_{options} {
    static_assert(IsADevice,
                  "penstock: an AsyncCopier copies to a device: give it a ps::CudaDevice "
                  "or a ps::HostDevice, and no stream: it has its own.");
  }
  AsyncCopier(const D&&, CopierOptions = {}) = delete; // name the device: it must outlive this

  /// For prepare().
  D* device() const noexcept { return device_; }

  /// For prepare().
  template <class Given> void plan(detail::Plan& plan) const {
    plan.to_device = true;
    if (!plan.batched) {
      plan.fills_up =
          plan.fills_up || !detail::schema_traits<typename detail::batch_of<Given>::schema>::ragged;
      (plan.recounts != 0 ? plan.recounted : plan.batch) = options_.batch;
      plan.batched = true;
    }
  }
  /// For prepare().
  template <class Given, class On> [[gnu::cold]] void build(detail::Build<On>& build) const {
    detail::checked_depth("AsyncCopier", options_.depth);
    const auto in = build.host_input();
    const detail::Layout batch = this->batch(in->layout());
    build.facts.depth = options_.depth;
    build.facts.slots_read = in->layout().ragged() ? build.facts.slots_read : 0;
    const auto& thread =
        build.add_thread(new detail::DeviceThread<On>{*build.device, build.control});
    in->ring.on_publish(thread.bell().get());
    if (build.facts.ahead) {
      build.facts.ahead->on_short(thread.bell().get());
    }
    const auto out = detail::new_shared<detail::DeviceLink<On>>(
        *build.device,
        detail::device_places(options_.depth, batch, build.facts.units, build.facts.epochs), batch,
        thread.bell());
    build.device_output(out);
    if (!batch.ragged()) {
      build.facts.needs.gather(batch.units);
    }
    const bool by_turn = build.facts.batches_by_turn();
    if (by_turn && build.facts.drop_last) {
      throw OptionError{"penstock: AsyncCopier: on several ranks a batch is short if records were "
                        "skipped, so drop_last cannot tell the last one: leave out drop_last, or "
                        "the skips."};
    }
    // A batch with a Ragged column is a slot, and the Reader leaves it out.
    const bool leaves_out = build.facts.drop_last && !batch.ragged();
    const bool first = leaves_out && build.facts.whole_batches.none();
    if (leaves_out) {
      build.facts.whole_batches.leave_out_short(batch.records(), !build.facts.jumps &&
                                                                     !build.facts.outputs &&
                                                                     build.facts.order->one_rank());
    }
    build.template add_step<detail::CopierNode<On>>(
        out, build.setup("AsyncCopier", 1, StageKind::copy_to_device), *build.device, in, out,
        build.keep_numbers(), build.facts.drop_last, build.facts.flush,
        detail::Owned<detail::BatchesByTurn>{by_turn ? new detail::BatchesByTurn{*in, batch.units}
                                                     : nullptr},
        first ? build.facts.order.get() : nullptr);
    if (build.facts.drop_last) {
      build.facts.drop_short(batch.units);
    }
  }

 private:
  // A slot with a Ragged column is itself a batch.
  [[gnu::cold]] detail::Layout batch(const detail::Layout& slot) const {
    if (!slot.ragged()) {
      const std::size_t record = slot.record_bytes();
      const std::size_t usual = std::max<std::size_t>(detail::usual_batch / record, 1);
      return slot.of(detail::checked_bytes(options_.batch != 0 ? options_.batch : usual,
                                           slot.units_a_record, "AsyncCopier: a batch"));
    }
    if (options_.batch != 0 && options_.batch != slot.units) {
      detail::throw_error<OptionError>(
          {"penstock: AsyncCopier: batch is ", options_.batch,
           ", but a batch with a Ragged column is a slot, and the Reader's has ", slot.units,
           " records: give both the same batch."});
    }
    return slot;
  }

  D* device_;
  CopierOptions options_;
};

/// Copies device batches back into pinned memory: `AsyncCopier{ps::to_host}`. It has a stream of
/// its own, beside the copies that go the other way, and makes host batches for Consumers, Decoders
/// and a Writer. Small batches ride together in one copy. Of Counted batches it copies the counts
/// first, and then the records that there are.
template <> class AsyncCopier<const to_host_t> : public StageBase {
 public:
  /// Whether columns of variable length are refused.
  static constexpr bool fixed_length_alone = true;
  /// The batch it takes: Given's records, on the device.
  template <class Given> using takes = detail::moved_t<Given, Device>;
  /// The batch it gives: the same records, in pinned memory.
  template <class Given>
  using gives = Batch<detail::uncounted_t<typename detail::batch_of<Given>::schema>, Pinned>;

  /// `to_host` is the tag.
  explicit AsyncCopier(const to_host_t&, CopierOptions options = {}) : options_{options} {}

  /// For prepare().
  template <class Given, class On> [[gnu::cold]] void build(detail::Build<On>& build) const {
    const std::size_t depth = detail::checked_depth("AsyncCopier", options_.depth);
    const auto in = build.device_input();
    constexpr bool counted = detail::is_counted<typename detail::batch_of<Given>::schema>;
    const bool by_turn = !counted && build.facts.batches_by_turn();
    const detail::Layout slot = this->slot(in->layout().uncounted(), by_turn);
    build.facts.units = build.facts.units == unknown_size
                            ? unknown_size
                            : in->layout().in_records(build.facts.units);
    build.facts.needs.recount(in->layout().units, in->layout().records());
    if (counted) {
      build.facts.needs.leave_out();
    }
    build.facts.needs.gather(slot.units);
    using Node =
        std::conditional_t<counted, detail::CountedFetcherNode<On>, detail::FetcherNode<On>>;
    build.facts.slots_of_a_run =
        detail::places_of_a_run(build.facts.units, slot.units, build.facts.epochs);
    build.facts.slots_read = 0;
    build.facts.fixed_slots = options_.batch != 0;
    const std::size_t slots =
        std::max(depth, detail::landing_slots(slot, build.facts.slots_of_a_run));
    const auto out = build.template host_output<Pinned>("AsyncCopier", slots, slot, Side::one);
    out->counts = true;
    out->bell = build.device_thread().bell();
    out->ring.on_release(out->bell.get());
    build.template add_step<Node>(nullptr, build.setup("AsyncCopier", 1, StageKind::copy_to_host),
                                  *build.device, in, out, build.facts.one_for_one,
                                  build.kept_numbers(), build.facts.flush);
    build.leave_device();
    build.facts.count_anew();
    build.facts.whole_batches.make_others(slot.records());
  }

 private:
  // `by_turn`: batches may be short anywhere, and stay what they are.
  [[gnu::cold]] detail::Layout slot(const detail::Layout& batch, bool by_turn) const {
    const std::size_t bytes = batch.record_bytes();
    const std::size_t usual =
        by_turn ? batch.records() : std::min(batch.records(), detail::slot_records(bytes));
    const std::size_t records = options_.batch != 0 ? options_.batch : usual;
    if (by_turn && records != batch.records()) {
      detail::throw_error<OptionError>(
          {"penstock: AsyncCopier: batch is ", records, ", and the device's batches have ",
           batch.records(),
           " records: on several ranks they are short if records were skipped, and ranks would "
           "have other numbers of batches: give both the same batch, or leave out the skips."});
    }
    if (!batch.in_pieces()) {
      return batch.of(records);
    }
    detail::checked_bytes(records, bytes, "AsyncCopier: a batch");
    return {records, bytes};
  }

  CopierOptions options_;
};
/// Refuses options that fit no list.
template <class D> class AsyncCopier<D, detail::Misspelt> : public detail::RefusedStage {
  static constexpr bool options_fit = !sizeof(D);
  static_assert(options_fit,
                "penstock: these are no CopierOptions. By name, in this order: .batch, .depth.");

 public:
  /// Takes any arguments.
  AsyncCopier(const D&, ...) {}
};
/// Deduces the refusal. The constructor refuses a temporary device.
template <detail::Object D>
AsyncCopier(const volatile D&, ...) -> AsyncCopier<D, detail::Misspelt>;

} // namespace penstock
