// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/memory.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/branches/fork_node.hpp>
#include <penstock/detail/chain/assembly.hpp>
#include <penstock/detail/chain/chain.hpp>
#include <penstock/detail/chain/fit.hpp>
#include <penstock/detail/chain/misspelt.hpp>
#include <penstock/detail/ends/device_loop.hpp>
#include <penstock/detail/engine/engine.hpp>
#include <penstock/detail/engine/loops.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>
#include <penstock/pipeline/batches.hpp>
#include <penstock/pipeline/pipeline.hpp>
#include <penstock/run/options.hpp>
#include <penstock/run/report.hpp>
#include <penstock/stage.hpp>
#include <penstock/stages/async_copier.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace penstock {

namespace detail {

/// The loop of one of several devices, on a thread that its user has.
template <class T, AnyDevice D> class FanOutLoop final : public DeviceLoop<T, D> {
 public:
  FanOutLoop(const NodeSetup& setup, D& device, const Shared<DeviceLink<D>>& in, std::size_t depth,
             const Shared<Loops>& loops)
      : DeviceLoop<T, D>{setup, device, in, depth}, loops_{loops} {}
  unsigned threads() const noexcept override { return 0; }
  Loops* loops() noexcept override { return loops_.get(); }

 private:
  const Shared<Loops> loops_;
};

/// Ends a chain on several devices: a copier and a loop for each.
template <class T, AnyDevice D> class FanOutStage : public StageBase {
 public:
  using Loop = BatchSource<Batch<const T, Device>>;
  using device_type = D;
  template <class Given> using takes = moved_t<Given, Pinned>;
  template <class> using gives = void;

  /// build() adds to `loops`.
  FanOutStage(const Vector<D*>& devices, CopierOptions options, Vector<Loop*>& loops)
      : devices_{&devices}, options_{options}, loops_{&loops} {}

  D* device() const noexcept { return (*devices_)[0]; }
  template <class Given> void plan(Plan& plan) const { copier(0).template plan<Given>(plan); }
  template <class Given> [[gnu::cold]] void build(Build<D>& build) const {
    if (build.facts.ahead || build.facts.flush) {
      throw OptionError{
          "penstock: FanOut: .ahead and .flush tell how long a record may take to one "
          "device, and here are several: leave them out of the Reader."};
    }
    auto& node = build.template add<ForkNode<D>>(build.setup("FanOut", 1, StageKind::fan_out),
                                                 device(), build.host_input(), devices_->size());
    const auto loops = new_shared<Loops>(devices_->size());
    const Build<D> before = build;
    for (std::size_t i = 0; i != devices_->size(); ++i) {
      Build<D> other = before;
      Build<D>& branch = i == 0 ? build : other;
      branch.branch((*devices_)[i], node.out(i));
      copier(i).template build<Given>(branch);
      loops_->push_back(&branch.template add<FanOutLoop<T, D>>(
          branch.setup("loop", 1, StageKind::loop), *branch.device, branch.device_input(),
          branch.facts.depth, loops));
    }
  }

 private:
  AsyncCopier<D> copier(std::size_t i) const { return AsyncCopier<D>{*(*devices_)[i], options_}; }

  const Vector<D*>* devices_;
  CopierOptions options_;
  Vector<Loop*>* loops_;
};

template <class P> using schema_given = typename batch_of<typename chain<P>::gives>::schema;

} // namespace detail

/// Feeds several devices from one chain of host stages: each gets every record once, in order. The
/// chain reads each record once, into a ring of pinned memory, and each device copies it from
/// there, on a stream of its own.
///
///     std::deque<ps::HostDevice> gpus(2);
///     ps::FanOut records{ps::Reader{source, ps::to_pinned}, gpus};
///     // on a thread for each device, number i, with a stream of that device:
///     for (auto batch : records.on(i, stream)) { … }
///
/// All devices take part in a run, each by one loop, on a thread of its own or all on one, which
/// then takes a batch of each in turn. The first loop that asks for a batch begins the run; it ends
/// when the last has left. A device that is late holds up the others when its own ring and the
/// pinned one are full; so does one without a loop. If a device had no loop in a run that was
/// stopped, its next loop is of that run, and ends at once.
///
/// The first error ends the run, and each loop that has not come to its end throws it. A loop that
/// is left early, by an exception or a `break`, stops the run for all when its Batches dies. For
/// the others that is the end, and no error: report().stopped tells.
///
/// A lease that is kept past its loop must be given back before any device begins the next run.
/// If a run cannot begin, every loop throws that error once. If one of them tries again first and
/// succeeds, the others join its run.
///
/// Movable. The devices must outlive it and its loops. T is a record's type, D the devices'.
template <class T, class D> class FanOut {
 public:
  /// Opens the chain's source, allocates all memory and starts all threads. `chain` ends in pinned
  /// memory, and has neither .ahead nor .flush. `devices` is a range of D, or of pointers to D; one
  /// may be in it twice. `options` are those of each device's copies. Throws what
  /// Pipeline::prepare() throws, and OptionError if there is no device, or a null pointer.
  template <class P, class Range>
  FanOut(P chain, Range&& devices, CopierOptions options = {}) {
    using Gives = typename detail::chain<P>::gives;
    using Space = typename detail::batch_of<Gives>::space;
    constexpr bool open = detail::chain<P>::starts && !std::is_void_v<Gives>;
    constexpr bool on_host = !open || !std::is_same_v<Space, Device>;
    constexpr bool pinned = !open || !on_host || std::is_same_v<Space, Pinned>;
    constexpr bool kept = std::is_lvalue_reference_v<Range> || detail::only_names_devices<Range>;
    static_assert(open, "penstock: a FanOut takes what begins with a Reader and has no last stage: "
                        "FanOut{Reader{source, ps::to_pinned} | ..., devices}.");
    static_assert(on_host, "penstock: a FanOut copies to its devices itself, and this chain is on "
                           "a device already: leave out its AsyncCopier and what comes behind it.");
    static_assert(pinned, "penstock: a FanOut copies from pinned memory, and this chain ends in "
                          "other memory: put a PinnedStager{} at its end, or read in place, "
                          "Reader{source, ps::to_pinned}.");
    static_assert(kept, "penstock: a FanOut's devices must outlive it, and these are a temporary: "
                        "make them first, and give them by name.");
    if constexpr (open && on_host && pinned && kept) {
      devices_ = detail::devices_of<D>(devices);
      make(detail::stages_of(std::move(chain),
                             detail::FanOutStage<T, D>{devices_, options, loops_}));
    }
  }

  /// Returns how many devices it feeds.
  std::size_t size() const noexcept { return loops_.size(); }

  /// Returns the batches of device number `i` in one run, for a loop on `stream`, of that device:
  /// see Pipeline::on(). Any thread may call it. The `options` of the loop that begins the run
  /// count. A device has one loop a run; the next one waits until all devices have left the run, or
  /// until the token of its own options is stopped, and then has no batch. Throws OptionError if
  /// there is no such device, and Error if the FanOut was moved away.
  template <class S>
  [[nodiscard]] auto on(std::size_t i, S&& stream, RunOptions options = {}) {
    constexpr bool own_stream =
        detail::is_stream_of<D, S>() && !std::is_integral_v<std::remove_cvref_t<S>>;
    static_assert(own_stream,
                  "penstock: this stream does not belong to the FanOut's devices: pass a "
                  "cudaStream_t for a CudaDevice, a HostStream& for a HostDevice.");
    if constexpr (own_stream) {
      if (loops_.empty()) {
        throw Error{"penstock: this FanOut is empty, since it was moved away: take the one that it "
                    "was moved to."};
      }
      if (i >= loops_.size()) {
        detail::throw_error<OptionError>({"penstock: FanOut: there is no device number ", i,
                                          ": it has ", loops_.size(), ", from number 0 on."});
      }
      Stream<D> taken = detail::given_stream<D>(std::forward<S>(stream));
      return Batches<Batch<const T, Device>>{engine_.share(), *loops_[i], std::move(options),
                                             detail::StreamHandle::of(taken)};
    } else {
      return Refused::Range{};
    }
  }

  /// Ends the run early, for all devices. Any thread, and any signal handler; never blocks. Has no
  /// effect while nothing runs.
  void stop() noexcept {
    if (detail::Engine* engine = engine_.get()) {
      engine->stop();
    }
  }
  /// Returns what the run has done so far; between runs, what the last one did. Any thread. Each
  /// device has a copier and a loop of its own, the later ones with a number; what is said of the
  /// run as a whole is what the last device has.
  Report report() const {
    const detail::Engine* engine = engine_.get();
    return engine ? engine->report() : Report{};
  }

 private:
  using Loop = typename detail::FanOutStage<T, D>::Loop;

  template <class... Stages> [[gnu::cold]] void make(const std::tuple<Stages...>& stages) {
    engine_.set(detail::Assembly<Stages...>::make(stages, {}));
  }

  detail::Vector<D*> devices_;
  detail::Vector<Loop*> loops_;
  detail::EngineOwner engine_;
};
/// Refuses arguments that fit no constructor.
template <class D> class FanOut<detail::Misspelt, D> : public Refused {
  static constexpr bool arguments_fit = !sizeof(D);
  static_assert(arguments_fit,
                "penstock: a FanOut takes a chain, a range of devices of one kind, or of pointers "
                "to them, and CopierOptions, by name in this order: .batch, .depth.");

 public:
  /// Take any arguments.
  /// @{
  template <class P> FanOut(const P&, ...) {}
  template <class P, class Devices> FanOut(const P&, const Devices&, ...) {}
  template <class S> Range on(std::size_t, S&&, RunOptions = {});
  /// @}
};
/// Deduces what a record is, and the kind of the devices.
template <class P, class Range>
FanOut(P, Range&&, CopierOptions = {}) -> FanOut<detail::schema_given<P>, detail::device_in<Range>>;
/// Deduce the refusal.
/// @{
template <class P>
FanOut(const volatile P&, ...) -> FanOut<detail::Misspelt, detail::NoDevice>;
template <class P>
FanOut(const volatile P&&, ...) -> FanOut<detail::Misspelt, detail::NoDevice>;
/// @}

} // namespace penstock
