// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/packed_batch.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/device_side/device_thread.hpp>
#include <penstock/detail/device_side/kernel_node.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/packed/detail/unpack_call.hpp>
#include <penstock/formats/packed/detail/unpack_node.hpp>
#include <penstock/formats/packed/packed_source.hpp>
#include <penstock/machine/usable.hpp>
#include <penstock/stage.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace penstock {

/// Options of unpack().
struct UnpackOptions {
  /// Streams that batches go to in turn, at most 64.
  unsigned streams = 4;
  /// Batches that the next stage may hold at once, at least 2; 0: as many as of the stage before.
  std::size_t depth = 0;
};

/// Unpacks packed batches on the device. Made by unpack().
///
/// Each batch has some records of the source, fewer at the end of the files. A chunk that its
/// decoder refuses ends the run with file, offset, column, chunk and record. The stage looks for
/// that without waiting, so a batch may have been delivered before; none is behind the end of a
/// run.
template <class Schema, class Io> class Unpack : public StageBase {
 public:
  /// The batch that it takes.
  template <class> using takes = Batch<const PackedRecords, Device>;
  /// The batch that it gives.
  template <class> using gives = Batch<Schema, Device>;

  /// Takes what the Reader before it reads.
  explicit Unpack(Packed<Schema, Io> source, UnpackOptions options = {})
      : source_{std::move(source)}, options_{options} {}

  /// For prepare().
  template <class Given> void plan(detail::Plan& plan) const {
    plan.workers = std::max(plan.workers, usable_processors()); // with an order, a slot each
  }
  /// For prepare().
  template <class Given, class D> [[gnu::cold]] void build(detail::Build<D>& build) const {
    constexpr bool device_unpacks = requires(
        Stream<D> stream, const PackedBatch<detail::packed_columns<Schema>::count>& batch) {
      unpack(stream, batch);
    };
    static_assert(device_unpacks,
                  "penstock: unpack() on a GPU is a kernel: include penstock/cuda/unpack.cuh, and "
                  "compile this file with nvcc.");
    if constexpr (device_unpacks) {
      add(build);
    }
  }

 private:
  template <class D> void add(detail::Build<D>& build) const {
    using Link = detail::DeviceLink<D>;
    detail::checked_depth("unpack", options_.depth);
    if (options_.streams == 0 || options_.streams > 64) {
      detail::throw_error<OptionError>(
          {"penstock: unpack: streams is ", options_.streams, ": give it 1 to 64."});
    }
    const auto in = build.device_input();
    const auto blobs = source_.opened();
    if (in->layout().units != blobs->pieces()) {
      detail::throw_error<OptionError>(
          {"penstock: unpack: packed() has ", blobs->pieces(),
           " pieces in a slot, and the Reader's slots have ", in->layout().units,
           ": leave out the .batch of the Reader and of the AsyncCopier, and give packed() one."});
    }
    const std::size_t batch = blobs->batch();
    const detail::Recount recount{blobs->piece(), 1};
    const detail::Layout layout = detail::layout_of<Schema>(batch, extents(), 0, "unpack");
    build.facts.units =
        recount.of_run(build.facts.units, build.facts.epochs, batch / blobs->piece());
    build.facts.needs.recount(1, blobs->piece());
    build.facts.needs.gather(batch);
    build.facts.slots_read = 0;
    build.facts.one_for_one = false;
    build.facts.depth = options_.depth != 0 ? options_.depth : build.facts.depth;
    const std::size_t copies =
        3 * detail::usual_copy / std::max<std::size_t>(layout.bytes(), 1) + 1;
    const std::size_t slots = std::max(build.facts.depth, std::min(copies, in->ring.slots()));
    const auto out = detail::new_shared<Link>(*build.device, slots, layout,
                                              build.device_thread().bell(), "unpack");
    build.device_output(out);
    build.template add_step<detail::UnpackNode<Schema, Io, D>>(
        out, build.setup("Unpack", 1, StageKind::kernel), *build.device, in, out,
        detail::UnpackCall<Schema, Io, D>{*build.device, blobs}, options_.streams, blobs->slots());
  }
  std::vector<std::size_t> extents() const {
    if constexpr (detail::HasColumns<Schema>) {
      return source_.opened()->files().extents();
    } else {
      return {source_.opened()->files().record_bytes()};
    }
  }

  Packed<Schema, Io> source_;
  UnpackOptions options_;
};

/// Makes the stage that unpacks on the device what a Reader of this source gives:
/// `Reader{source, to_pinned} | AsyncCopier{gpu} | unpack(source)`. With a CudaDevice, include
/// cuda/unpack.cuh, and compile with nvcc.
template <class Schema, class Io>
Unpack<Schema, Io> unpack(Packed<Schema, Io> source, UnpackOptions options = {}) {
  return Unpack<Schema, Io>{std::move(source), options};
}

} // namespace penstock
