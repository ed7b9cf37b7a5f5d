// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/build.hpp>
#include <penstock/detail/sizes.hpp>
#include <penstock/sources/source.hpp>
#include <penstock/stage.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace penstock {

struct ReaderOptions {
  /// Threads that read at once; 0: five of eight processors, at most 12.
  unsigned workers = 0;
  /// Slots in flight, at least 2; 0: as many as 48 MiB hold.
  std::size_t depth = 0;
  /// How often the source is delivered, at least once.
  std::uint64_t epochs = 1;
};

namespace detail {

template <Source From, class Where> class ReaderNode final : public Node {
  using T = typename From::schema;

 public:
  template <AnyDevice D>
  ReaderNode(From source, unsigned workers, const ReaderOptions& options, Grain grain,
             std::uint64_t records, Build<D>& build)
      : Node{"Reader", workers, build.control}, source_{std::move(source)}, records_{records},
        slots_{host_slots("Reader", options.depth, grain, build.records)},
        link_{slots_, grain,
              Area::in<Where>(build.device, checked_bytes(slots_, grain.bytes(), "Reader")),
              workers == 1 ? Side::one : Side::many, Side::many} {
    if (records != unknown_size) {
      per_epoch_ = records / grain.records + (records % grain.records != 0 ? 1 : 0);
      tickets_ = per_epoch_ * options.epochs;
    }
    if (grain.records == 1 && grain.bytes() > read_bytes) {
      note_ = "a record of " + std::to_string(grain.bytes()) + " bytes is a slot";
    }
    build.control.watch(link_.ring);
    build.host = &link_;
  }

  void report(double seconds, StageReport& stage) const override {
    Node::report(seconds, stage);
    stage.depth = slots_;
    stage.note = note_;
  }

 private:
  void reset() override {
    link_.ring.reset();
    if (records_ != unknown_size) {
      link_.ring.end_at(tickets_);
    }
  }
  void work(unsigned /*worker*/, Meter& meter) override {
    HostRing& ring = link_.ring;
    for (;;) {
      HostRing::Claim claim = ring.claim();
      meter.spent(Spent::blocked);
      if (!claim) {
        return;
      }
      const std::uint64_t epoch = records_ != unknown_size ? claim.ticket() / per_epoch_ : 0;
      const std::uint64_t first = (claim.ticket() - epoch * per_epoch_) * link_.grain.records;
      const std::size_t wanted =
          static_cast<std::size_t>(std::min<std::uint64_t>(records_ - first, link_.grain.records));
      HostSlot& slot = claim.slot();
      slot = {first, wanted, false};
      if (!attempt(first, [&] {
            slot.records = source_.read(link_.batch<T, Where>(claim.place(), slot));
            if (slot.records < wanted && records_ != unknown_size) {
              throw SourceError{"penstock: the source gave " + std::to_string(slot.records) +
                                    " records where it has " + std::to_string(wanted) +
                                    ": its size() and its read() disagree.",
                                {},
                                0,
                                first + slot.records};
            }
          })) {
        return;
      }
      meter.spent(Spent::busy);
      slot.ends_epoch = slot.records < wanted || first + wanted == records_;
      slot.index = first + (records_ != unknown_size ? epoch * records_ : 0);
      meter.did(slot.records, slot.records * link_.grain.record_bytes);
      meter.found_in_use(ring.was_in_use());
      if (slot.records < wanted) {
        ring.end_at(claim.ticket() + 1);
      }
      claim.publish(slot.records == 0                                       ? Fill::none
                    : slot.ends_epoch || slot.records < link_.grain.records ? Fill::partial
                                                                            : Fill::full);
    }
  }

  From source_;
  const std::uint64_t records_;
  const std::size_t slots_;
  std::uint64_t per_epoch_{};
  std::uint64_t tickets_{};
  std::string note_;
  HostLink link_;
};

} // namespace detail

/// Reads a source with several threads, in order, into pageable memory, or with `to_pinned`
/// straight into pinned memory, where an AsyncCopier fetches it. The first stage of a pipeline.
template <class From, class Where = Pageable> class Reader : public StageBase {
 public:
  static constexpr bool refused = !Source<From>;
  template <class> using takes = void;
  template <class> using gives = Batch<typename detail::schema_of<From>::type, Where>;

  template <bool IsASource = Source<From>>
  explicit Reader(From source, ReaderOptions options = {})
      : source_{std::move(source)}, options_{options} {
    static_assert(IsASource,
                  "penstock: a Reader reads a source, such as ps::records<T>(path); From "
                  "is not one: it needs a schema, size() and read(batch).");
  }
  Reader(From source, to_pinned_t, ReaderOptions options = {})
      : Reader{std::move(source), options} {}

  /// For prepare(): opens the source, makes the ring.
  template <class Given, class D> void build(detail::Build<D>& build) const {
    const unsigned workers = detail::checked_workers("Reader", options_.workers,
                                                     std::max(detail::processors(5, 12), 2U));
    detail::checked_depth("Reader", options_.depth);
    From source = source_;
    detail::open_source(source);
    const std::uint64_t records = source.size();
    if (options_.epochs == 0 || (records == unknown_size && options_.epochs != 1) ||
        (records != unknown_size && records != 0 && options_.epochs > unknown_size / 2 / records)) {
      throw OptionError{"penstock: Reader: epochs is " + std::to_string(options_.epochs) +
                        ": it must be at least 1, and 1 where the source's size is unknown."};
    }
    build.records = records == unknown_size ? records : records * options_.epochs;
    const std::size_t bytes = detail::record_bytes_of(source);
    const detail::Grain grain{detail::slot_records(bytes), bytes};
    build.template add<detail::ReaderNode<From, Where>>(std::move(source), workers, options_, grain,
                                                        records, build);
  }

 private:
  From source_;
  ReaderOptions options_;
};
template <class S> Reader(S, ReaderOptions = {}) -> Reader<S, Pageable>;
template <class S> Reader(S, to_pinned_t, ReaderOptions = {}) -> Reader<S, Pinned>;

} // namespace penstock
