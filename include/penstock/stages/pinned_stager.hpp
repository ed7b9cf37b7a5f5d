// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/chain/chain.hpp>
#include <penstock/detail/chain/misspelt.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/workers/part_by_part.hpp>
#include <penstock/stage.hpp>

#include <cstddef>
#include <cstring>
#include <type_traits>

namespace penstock::detail {

/// Copies slots of a pageable ring into those of a pinned one, slot t into slot t. A template of
/// nothing, so that a program without a PinnedStager does not compile it.
template <class = void> class StagerNode final : public Node {
 public:
  [[gnu::cold]] StagerNode(const NodeSetup& setup, const Shared<HostLink>& in,
                           const Shared<HostLink>& out)
      : Node{setup}, in_{in}, out_{out} {
    fills(out_->memory, out_->ring.slots());
  }

 private:
  [[gnu::cold]] void reset() override { out_->reset(); }
  void work(unsigned /*worker*/, Meter& meter) override {
    slot_by_slot(*in_, *out_, meter, [this](const HostRing::Take& from, HostRing::Claim& to) {
      const std::size_t records = from.slot().units;
      const TraceRange range = this->trace(in_->layout().in_records(from.slot().index));
      for (std::size_t part = 0; part < in_->layout().parts.size(); ++part) {
        std::memcpy(out_->memory.data(to.place(), part), in_->memory.data(from.place(), part),
                    in_->memory.used(from.place(), part, records));
      }
      to.slot().source.take(from.slot().source);
      return true;
    });
  }

  const Shared<HostLink> in_;
  const Shared<HostLink> out_;
};

} // namespace penstock::detail

namespace penstock {

/// Options of a PinnedStager.
struct PinnedStagerOptions {
  /// Threads that copy at once; 0: three of eight processors, at most 8.
  unsigned workers = 0;
  /// Pinned slots, at least 2; 0: as many as 48 MiB hold.
  std::size_t depth = 0;
};

/// Copies batches from pageable into pinned memory with several threads, in order: for records that
/// cannot be read or decoded in place. It pins for the device of the pipeline's AsyncCopier, or for
/// the one it names: `PinnedStager{gpu}`.
template <class On = detail::NoDevice, class Told = PinnedStagerOptions>
class PinnedStager : public StageBase {
 public:
  /// The device that it pins for, if it names one.
  using device_type = On;
  /// The batch it takes: Given's records, in pageable memory.
  template <class Given>
  using takes = detail::moved_t<Given, Pageable>;
  /// The batch it gives: the same records, pinned.
  template <class Given> using gives = detail::moved_t<Given, Pinned>;

  /// Pins for the AsyncCopier's device.
  explicit PinnedStager(PinnedStagerOptions options = {})
    requires(std::is_same_v<On, detail::NoDevice>)
      : options_{options} {}
  /// Pins for `device`, which must outlive the pipeline.
  explicit PinnedStager(On& device, PinnedStagerOptions options = {})
    requires(!std::is_same_v<On, detail::NoDevice>)
      : device_{&device}, options_{options} {}
  PinnedStager(const On&&, PinnedStagerOptions = {}) // name the device: it must outlive this
    requires(!std::is_same_v<On, detail::NoDevice>)
  = delete;

  /// For prepare(); null if it names none.
  On* device() const noexcept { return device_; }

  /// For prepare().
  template <class Given, class D> [[gnu::cold]] void build(detail::Build<D>& build) const {
    detail::checked_depth("PinnedStager", options_.depth);
    const unsigned workers = detail::checked_workers("PinnedStager", options_.workers,
                                                     detail::processors(build.facts.plan, {3, 8}));
    const auto in = build.host_input();
    const std::size_t slots = detail::host_slots("PinnedStager", options_.depth, in->layout(),
                                                 build.facts.slots_of_a_run, build.facts.plan);
    const auto out =
        build.template host_output<Pinned>("PinnedStager", slots, in->layout(), Side::many);
    build.template add<detail::StagerNode<>>(
        build.setup("PinnedStager", workers, StageKind::stager), in, out);
  }

 private:
  On* device_{};
  PinnedStagerOptions options_;
};
/// Refuses options that fit no list.
template <class On> class PinnedStager<On, detail::Misspelt> : public detail::RefusedStage {
  static constexpr bool options_fit = !sizeof(On);
  static_assert(
      options_fit,
      "penstock: these are no PinnedStagerOptions. By name, in this order: .workers, .depth.");

 public:
  /// Takes any arguments.
  /// @{
  explicit PinnedStager(...) {}
  template <class D> PinnedStager(D&, ...) {}
  /// @}
};
/// Deduce a stager that pins for the AsyncCopier's device.
/// @{
PinnedStager() -> PinnedStager<detail::NoDevice>;
PinnedStager(PinnedStagerOptions) -> PinnedStager<detail::NoDevice>;
/// @}
/// Deduces a stager that pins for the device it names.
template <AnyDevice D>
PinnedStager(D&, PinnedStagerOptions = {}) -> PinnedStager<D>;
/// Deduces the refusal.
template <class On = detail::NoDevice> PinnedStager(...) -> PinnedStager<On, detail::Misspelt>;

} // namespace penstock
