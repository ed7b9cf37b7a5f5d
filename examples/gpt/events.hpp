// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace transformer {

/// Which of the eight blocking events in docs/blocking_events/ a training run has cured. With none
/// of them it is the program that one writes first.
struct Events {
  bool pinned = false;       ///< 1: the pipeline, not blocking copies of pageable memory.
  bool prefetch = false;     ///< 2: no wait for the device at each step, and batches in advance.
  bool workers = false;      ///< 3: several threads load, not one.
  bool graph = false;        ///< 4: one launch a step, not one for each kernel.
  bool layout = false;       ///< 5: tokens go as they lie, not as pairs of 64-bit numbers.
  bool tensor_cores = false; ///< 6: bf16 and fused attention, not fp32.
  bool recompute = false;    ///< 7: most activations are recomputed, not kept.
  bool optimiser = false;    ///< 8: one kernel for all tensors, not one for each.
  /// Of 8: each block's parameters are updated beside the backward pass of those before it.
  bool overlapped = false;

  bool operator==(const Events&) const = default;
};

/// An event as a user names it.
struct EventName {
  using Switch = bool Events::*; // apart, since nvcc would write needless parentheses
  std::string_view name;
  Switch member;
};
/// All of them, in the order of their pages.
inline constexpr std::array<EventName, 8> event_names{{{"pinned", &Events::pinned},
                                                       {"prefetch", &Events::prefetch},
                                                       {"workers", &Events::workers},
                                                       {"graph", &Events::graph},
                                                       {"layout", &Events::layout},
                                                       {"tensor_cores", &Events::tensor_cores},
                                                       {"recompute", &Events::recompute},
                                                       {"optimiser", &Events::optimiser}}};
inline constexpr std::string_view overlapped_name = "optimiser=overlapped";

/// Cures all events.
inline constexpr Events all_events{true, true, true, true, true, true, true, true, false};
/// Cures all that cost time. Recomputing saves memory, and costs some.
inline constexpr Events fastest_events{true, true, true, true, true, true, false, true, false};

/// Returns the names of the events that are cured.
inline std::vector<std::string> names_of(const Events& events) {
  std::vector<std::string> names;
  for (const EventName& event : event_names) {
    if (events.*event.member) {
      const bool overlapped = event.member == &Events::optimiser && events.overlapped;
      names.emplace_back(overlapped ? overlapped_name : event.name);
    }
  }
  return names;
}
/// Returns what parse_events() reads back: "none", or names with commas between them.
inline std::string text_of(const Events& events) {
  std::string text;
  for (const std::string& name : names_of(events)) {
    text += (text.empty() ? "" : ",") + name;
  }
  return text.empty() ? "none" : text;
}

/// Reads "none", "all", "fastest", or a list of names. Throws std::invalid_argument, whose text is
/// one line, for any other text, and for a list of which a part has no meaning without another.
inline Events parse_events(std::string_view text) {
  if (text == "none") {
    return {};
  }
  if (text == "all" || text == "fastest") {
    return text == "all" ? all_events : fastest_events;
  }
  Events events;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    begin = end + 1;
    if (name == overlapped_name) {
      events.optimiser = events.overlapped = true;
      continue;
    }
    const auto event = std::ranges::find(event_names, name, &EventName::name);
    if (event == event_names.end()) {
      std::string known;
      for (const EventName& one : event_names) {
        known += std::string{known.empty() ? "" : ", "} + std::string{one.name};
      }
      throw std::invalid_argument{"there is no event \"" + std::string{name} +
                                  "\": give none, all, fastest, or a list of " + known +
                                  " with commas between them, such as pinned,workers; or " +
                                  std::string{overlapped_name}};
    }
    events.*event->member = true;
  }
  if (events.workers && !events.pinned) {
    throw std::invalid_argument{
        "workers are threads of the pipeline, and without pinned there is none: give "
        "pinned,workers, or leave out workers"};
  }
  return events;
}

} // namespace transformer
