// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/replayed.hpp>
#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/thread_end.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// The check of a device whose calls all throw by themselves.
struct NoLaunchCheck {
  static void begin() noexcept {}
  static void check(const char*) noexcept {}
  static void forget() noexcept {}
};
template <class D> struct launch_check_of {
  using type = NoLaunchCheck;
};
template <class D>
  requires requires { typename D::launch_check_type; }
struct launch_check_of<D> {
  using type = typename D::launch_check_type;
};
/// The device's check for launches that failed without a word: begin(), check(), forget().
template <AnyDevice D> using LaunchCheck = typename launch_check_of<D>::type;

/// Calls a stage's callable; throws what the callable throws, or an error if a launch in it failed.
template <class Check, class F> void call_checked(Check& launches, F f) {
  try {
    f();
  } catch (...) {
    launches.forget();
    throw;
  }
  launches.check("the stage's callable");
}

/// How many places a replay covers.
inline constexpr std::array<std::size_t, 4> replay_groups{64, 16, 4, 1};

/// The captured work of groups of adjacent places of a device ring: of each aligned group that the
/// ring has, captured once. Of a ring of very many places it leaves out the small groups: they gain
/// little there, and a graph takes time to make and memory on the device.
template <AnyDevice D> class CapturedGroups {
 public:
  static constexpr const auto& sizes = replay_groups;
  static constexpr std::size_t most_graphs = 4096; // of one size

  /// Captures all groups; `call(place)` enqueues a place's work on its lane. Returns why nothing
  /// was captured, or an empty text. Throws only if the device was lost, and no run can follow.
  template <class F>
  std::string try_capture(D& device, std::span<typename D::stream_type> lanes, std::size_t places,
                          const F& call) {
    const auto attached = device.attach();
    try {
      capture(device, lanes, places, call);
    } catch (const DeviceError& e) {
      if (e.sticky()) {
        throw;
      }
      return refusal(text_of(e));
    } catch (const std::exception& e) {
      return refusal(text_of(e));
    } catch (const ThreadEnd&) {
      throw;
    } catch (...) {
      return refusal("it threw");
    }
    return {};
  }

  /// Returns how many of `count` places from `first` on the largest group has that starts there; 0
  /// if there is none.
  std::size_t largest(std::size_t first, std::size_t count) const noexcept {
    for (std::size_t size = 0; size < sizes.size(); ++size) {
      if (sizes[size] <= count && first % sizes[size] == 0 &&
          first / sizes[size] < graphs_[size].size()) {
        return sizes[size];
      }
    }
    return 0;
  }
  /// Replays a group that largest() found.
  void launch(std::size_t first, std::size_t count, Stream<D> stream) const {
    const auto size = std::find(sizes.begin(), sizes.end(), count) - sizes.begin();
    graphs_[static_cast<std::size_t>(size)][first / count].launch(stream);
  }

 private:
  static std::string refusal(const char* why) {
    return std::string{"not replayed, since it cannot be captured: "} + why;
  }
  // Throws what the call and the device throw; then there are no groups.
  template <class F>
  void capture(D& device, std::span<typename D::stream_type> lanes, std::size_t places,
               const F& call) {
    if (places / sizes.front() > most_graphs) {
      throw_error<Error>({"penstock: the device's ring has ", places,
                          " places, one for each batch, and the work of ",
                          most_graphs * sizes.front(),
                          " is the most that is captured: give the AsyncCopier less depth."});
    }
    LaunchCheck<D> launches;
    launches.begin();
    std::array<Vector<typename D::graph_type>, sizes.size()> graphs;
    for (std::size_t size = 0; size < sizes.size() && places / sizes[size] <= most_graphs; ++size) {
      for (std::size_t first = 0; first + sizes[size] <= places; first += sizes[size]) {
        graphs[size].push_back(device.capture(lanes, [&] {
          for (std::size_t place = first; place < first + sizes[size]; ++place) {
            call_checked(launches, [&] { call(place); });
          }
        }));
      }
    }
    graphs_ = std::move(graphs);
  }

  std::array<Vector<typename D::graph_type>, sizes.size()> graphs_;
};

/// Takes the place of CapturedGroups on a device that captures nothing.
struct NoGroups {
  template <class... Arguments> static std::string try_capture(const Arguments&...) {
    return "not replayed: this device captures nothing";
  }
  static std::size_t largest(std::size_t, std::size_t) noexcept { return 0; }
  template <class... Arguments> static void launch(const Arguments&...) noexcept {}
};
template <AnyDevice D>
using Groups = std::conditional_t<Captures<D>, CapturedGroups<D>, NoGroups>;

inline unsigned checked_lanes(unsigned lanes) {
  if (lanes == 0 || lanes > replay_groups.front()) {
    constexpr std::size_t most = replay_groups.front();
    throw_error<OptionError>({"penstock: replayed: lanes is ", lanes,
                              "; batches are replayed in groups of up to ", most,
                              ", so give it 1 to ", most, "."});
  }
  return lanes;
}

/// A Kernel's callable, with the batches in two rings of device memory, or in place in one. Work to
/// be replayed is captured once for each place, which is then the same in both rings.
template <class F, class From, class To, bool InPlace, AnyDevice D> class KernelCall {
 public:
  static constexpr bool replays = is_replayed<F>;

  KernelCall(const F& f, const DeviceLink<D>& in, const DeviceLink<D>& out)
      : f_{f}, in_{in}, out_{out} {}

  /// Returns how many streams the callable is to have, of `asked` that batches go to in turn.
  unsigned streams(unsigned asked) const {
    if constexpr (replays) {
      return checked_lanes(f_.options.lanes);
    } else {
      return asked;
    }
  }
  /// Captures the work on `lanes`; a batch gives `given` records. Returns why nothing was captured,
  /// or an empty text.
  std::string capture(D& device, std::span<typename D::stream_type> lanes, std::size_t given) {
    if constexpr (replays) {
      DeviceSlot<D> from;
      from.units = in_.layout().units;
      DeviceSlot<D> to;
      to.units = given;
      return groups_.try_capture(device, lanes, in_.ring.slots(), [&](std::size_t place) {
        (*this)(place, from, place, to, lanes[place % lanes.size()]);
      });
    } else {
      return {};
    }
  }

  /// Returns how many of `count` places from `first` on are replayed together, or 0.
  std::size_t largest(std::size_t first, std::size_t count) const noexcept {
    return groups_.largest(first, count);
  }
  void replay(std::size_t first, std::size_t count, Stream<D> stream) const {
    groups_.launch(first, count, stream);
  }
  /// Enqueues the work on one batch, from the first place taken to the place claimed.
  void operator()(const typename DeviceRing<D>::Take& from, const typename DeviceRing<D>::Claim& to,
                  Stream<D> stream) {
    (*this)(from.place(), from.slot(), to.place(), to.slot(), stream);
  }
  /// Calls the callable with the batch in one place, to fill the batch in another.
  void operator()(std::size_t at, const DeviceSlot<D>& from, std::size_t there,
                  const DeviceSlot<D>& to, Stream<D> stream) {
    const Batch<To, Device> out = out_.template batch<To>(there, to);
    if constexpr (InPlace) {
      std::invoke(callable(), given(out, at), stream);
    } else {
      std::invoke(callable(), given(in_.template batch<const From>(at, from), at), given(out, at),
                  stream);
    }
  }

 private:
  auto& callable() noexcept {
    if constexpr (replays) {
      return f_.call;
    } else {
      return f_;
    }
  }
  template <class S> auto given(const Batch<S, Device>& batch, std::size_t place) const {
    if constexpr (replays) {
      return FrozenBatch<S, Device>{batch, static_cast<unsigned>(place % f_.options.lanes)};
    } else {
      return batch;
    }
  }

  F f_;
  const DeviceLink<D>& in_;
  const DeviceLink<D>& out_;
  std::conditional_t<replays, Groups<D>, NoGroups> groups_;
};

} // namespace penstock::detail
