// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/run/stage_report.hpp>

#include <cstddef>
#include <string_view>
#include <vector>

namespace penstock::detail {

// The stages of a Report behind a tee() lie branch after branch, each in the order of its chain,
// those of a branch's own tee() right behind that.

/// Returns whether what is in branch `of` comes through branch `through`, or lies in it.
bool comes_through(std::string_view of, std::string_view through) noexcept;
/// Returns whether the stages are no chain, but those of a pipeline with a tee().
bool has_branches(const std::vector<StageReport>& stages) noexcept;
/// Returns the chain of stages that holds up the others, without what hands slots on: of each
/// tee()'s branches that whose first stage waits least for others.
[[gnu::cold]] std::vector<StageReport> slowest_chain(const std::vector<StageReport>& stages);

#if PENSTOCK_BODIES
PENSTOCK_INLINE bool comes_through(std::string_view of, std::string_view through) noexcept {
  return through.empty() ||
         (of.starts_with(through) && (of.size() == through.size() || of[through.size()] == '.'));
}

PENSTOCK_INLINE bool has_branches(const std::vector<StageReport>& stages) noexcept {
  return !stages.empty() && !stages.back().branch.empty();
}

PENSTOCK_INLINE std::vector<StageReport> slowest_chain(const std::vector<StageReport>& stages) {
  std::vector<StageReport> chain;
  std::string_view branch;
  for (std::size_t i = 0; i != stages.size(); ++i) {
    if (stages[i].branch != branch) {
      continue;
    }
    if (stages[i].kind != StageKind::tee) {
      chain.push_back(stages[i]);
      continue;
    }
    const std::size_t depth = branch.empty() ? 0 : branch.size() + 1;
    const auto waits = [](const StageReport& stage) { return stage.starved_s - stage.blocked_s; };
    std::size_t slowest = i + 1;
    for (std::size_t at = i + 1; at != stages.size() && comes_through(stages[at].branch, branch);
         ++at) {
      const std::string_view its = stages[at].branch;
      const bool is_first = its != stages[at - 1].branch && its.find('.', depth) == its.npos;
      slowest = is_first && waits(stages[at]) < waits(stages[slowest]) ? at : slowest;
    }
    branch = stages[slowest].branch;
  }
  return chain;
}
#endif

} // namespace penstock::detail
