// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/run/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace transformer {

/// What `train --json` says in its last line. Where something was not measured, null stands for it.
struct TrainSummary {
  std::vector<double> losses{};     ///< Of each step of this run.
  std::optional<double> val_loss{}; ///< The last one.
  double tokens_per_s{};
  std::optional<double> idle{};            ///< The share of the time in which the GPU was.
  double wait_share{};                     ///< The share of the time spent waiting for a batch.
  std::optional<std::uint64_t> syncs{};    ///< Calls that waited for the device.
  std::optional<std::uint64_t> launches{}; ///< Kernels and graphs launched.
  std::vector<std::string> events{};       ///< The cures in use.
  std::string position{};                  ///< Which of the data comes next.
};

/// Returns a summary's JSON.
inline penstock::Json to_json(const TrainSummary& summary) {
  using penstock::Json;
  const auto maybe = [](const auto& value) { return value ? Json{*value} : Json{nullptr}; };
  return Json::object({{"loss", Json::array({summary.losses.begin(), summary.losses.end()})},
                       {"val_loss", maybe(summary.val_loss)},
                       {"tokens_per_s", summary.tokens_per_s},
                       {"idle", maybe(summary.idle)},
                       {"wait_share", summary.wait_share},
                       {"syncs", maybe(summary.syncs)},
                       {"launches", maybe(summary.launches)},
                       {"events", Json::array({summary.events.begin(), summary.events.end()})},
                       {"position", summary.position}});
}

} // namespace transformer
