// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/thread_end.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/device_side/launch_check.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace penstock::detail {

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

unsigned checked_lanes(unsigned lanes);

#if PENSTOCK_BODIES
PENSTOCK_INLINE unsigned checked_lanes(unsigned lanes) {
  if (lanes == 0 || lanes > replay_groups.front()) {
    constexpr std::size_t most = replay_groups.front();
    throw_error<OptionError>({"penstock: replayed: lanes is ", lanes,
                              "; batches are replayed in groups of up to ", most,
                              ", so give it 1 to ", most, "."});
  }
  return lanes;
}
#endif

} // namespace penstock::detail
