// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/consumer_nodes.hpp>
#include <penstock/device.hpp>
#include <penstock/error.hpp>
#include <penstock/replayed.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::detail {

/// How many places are replayed at once.
inline constexpr std::array<std::size_t, 4> replay_groups{64, 16, 4, 1};

/// The work of groups of adjacent places of a device ring, captured once: of each aligned group
/// that the ring has. Of a ring of very many places the small groups are left out: they pay little
/// there, and a graph takes time to make and memory on the device.
template <AnyDevice D> class CapturedGroups {
 public:
  static constexpr const auto& sizes = replay_groups;
  static constexpr std::size_t most_graphs = 4096; // of one size

  /// `call(place)` enqueues a place's work on its lane. Throws what it throws, and what the device
  /// does; then there are no groups.
  template <class F>
  void capture(D& device, std::span<typename D::stream_type> lanes, std::size_t places, F call) {
    if (places / sizes.front() > most_graphs) {
      throw Error{"penstock: the device's ring has " + std::to_string(places) +
                  " places, one for each batch, and the work of " +
                  std::to_string(most_graphs * sizes.front()) +
                  " is the most that is captured: give the AsyncCopier a larger batch."};
    }
    std::array<std::vector<typename D::graph_type>, sizes.size()> graphs;
    for (std::size_t size = 0; size < sizes.size() && places / sizes[size] <= most_graphs; ++size) {
      for (std::size_t first = 0; first + sizes[size] <= places; first += sizes[size]) {
        graphs[size].push_back(device.capture(lanes, [&] {
          for (std::size_t place = first; place < first + sizes[size]; ++place) {
            call(place);
          }
        }));
      }
    }
    graphs_ = std::move(graphs);
  }

  /// How many of `count` places from `first` on the largest group has that starts there; 0 if there
  /// is none.
  std::size_t largest(std::size_t first, std::size_t count) const noexcept {
    for (std::size_t size = 0; size < sizes.size(); ++size) {
      if (sizes[size] <= count && first % sizes[size] == 0 &&
          first / sizes[size] < graphs_[size].size()) {
        return sizes[size];
      }
    }
    return 0;
  }
  /// A group as largest() found it.
  void launch(std::size_t first, std::size_t count, Stream<D> stream) const {
    const auto size = std::find(sizes.begin(), sizes.end(), count) - sizes.begin();
    graphs_[static_cast<std::size_t>(size)][first / count].launch(stream);
  }

 private:
  std::array<std::vector<typename D::graph_type>, sizes.size()> graphs_;
};

/// Where a device captures nothing.
struct NoGroups {
  static std::size_t largest(std::size_t, std::size_t) noexcept { return 0; }
};

/// Calls back in prepare(), to capture, and then replays what was captured in groups; short batches
/// and those in no group that was captured are enqueued by the callable. F is a Replayed.
template <class F, class T, AnyDevice D> class ReplayedConsumer final : public DeviceEnd<D> {
  using Take = typename PlaceRing<D>::Take;

 public:
  ReplayedConsumer(const F& replayed, Build<D>& build)
      : DeviceEnd<D>{"Consumer", build}, replayed_{replayed}, device_{*build.device} {
    const unsigned lanes = replayed.options.lanes;
    if (lanes == 0 || lanes > most_) {
      const std::string most = std::to_string(most_);
      throw OptionError{"penstock: replayed: lanes is " + std::to_string(lanes) +
                        "; batches are replayed in groups of up to " + most + ", so give it 1 to " +
                        most + "."};
    }
    for (unsigned lane = 0; lane < lanes; ++lane) {
      lanes_.push_back(device_.stream());
    }
    if constexpr (Captures<D>) {
      capture();
    } else {
      note_ = "not replayed: this device captures nothing";
    }
  }

  void report(double seconds, StageReport& stage) const override {
    DeviceEnd<D>::report(seconds, stage);
    stage.note = note_;
  }

 private:
  static constexpr std::size_t most_ = replay_groups.front();

  void capture() {
    DeviceLink<D>& link = this->lender().link();
    const auto attached = device_.attach();
    try {
      groups_.capture(device_, lanes_, link.ring.slots(), [&](std::size_t place) {
        Place<D> full;
        full.records = link.grain().records;
        call(place, full, lanes_[place % lanes_.size()]);
      });
    } catch (const std::exception& e) {
      const auto* of_device = dynamic_cast<const DeviceError*>(&e);
      if (of_device && of_device->sticky()) {
        throw; // no run could follow
      }
      note_ = std::string{"not replayed, since it cannot be captured: "} + e.what();
    } catch (...) {
      note_ = "not replayed, since it cannot be captured: it threw";
    }
  }
  void call(std::size_t at, const Place<D>& place, Stream<D> stream) {
    const auto lane = static_cast<unsigned>(at % lanes_.size());
    std::invoke(replayed_.call,
                FrozenBatch<const T, Device>{
                    this->lender().link().template batch<const T>(at, place), lane},
                stream);
  }

  // The last run may have ended before all was given back.
  void reset() override {
    DeviceEnd<D>::reset();
    held_ = {};
  }

  void work(unsigned /*worker*/, Meter& meter) override {
    const auto attached = device_.attach();
    consume(meter);
    this->leave();
  }

  void consume(Meter& meter) {
    DeviceLink<D>& link = this->lender().link();
    if (!this->attempt(0, [&] { this->lender().begin(lanes_[0]); })) {
      return;
    }
    while ((held_ = link.ring.take())) {
      held_.extend(most_ - held_.place() % most_);
      while (held_ && link.ring.state() <= Flow::ended) {
        const std::uint64_t record = held_.slot().index / link.grain().units;
        if (!this->attempt(record, [&] {
              const TraceRange range = this->trace(record);
              use(meter);
            })) {
          link.calling.store(false, StdAtomics::relaxed);
          return;
        }
      }
    }
  }

  // As much of what is held as one launch covers. What fails stays held: nobody knows when its use
  // is over, so nobody is to fill it before the run's end has waited for the stream.
  void use(Meter& meter) {
    DeviceLender<D>& lender = this->lender();
    const std::size_t first = held_.place();
    const bool short_last = held_.fill(held_.size() - 1) != Fill::full;
    const std::size_t group = groups_.largest(first, held_.size() - (short_last ? 1 : 0));
    const std::size_t count = std::max<std::size_t>(group, 1);
    lender.enter(held_, count);
    if constexpr (Captures<D>) {
      if (group != 0) {
        groups_.launch(first, group, lanes_[0]);
      }
    }
    if (group == 0) {
      call(first, held_.slot(), lanes_[0]);
    }
    const Fence<D> free = lender.leave(held_.slot(), held_.ticket() + count - 1);
    for (std::size_t i = 0; i < count; ++i) {
      meter.did(held_.slot(i).records / lender.link().grain().units, held_.slot(i).bytes);
    }
    lender.release(held_.split(count), free);
  }

  F replayed_;
  D& device_;
  std::vector<typename D::stream_type> lanes_; // the first is the pipeline's
  std::conditional_t<Captures<D>, CapturedGroups<D>, NoGroups> groups_;
  std::string note_;
  Take held_;
};

} // namespace penstock::detail
