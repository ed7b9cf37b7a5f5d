// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>

namespace penstock::detail {

/// Returns an environment variable's text; without data() if it is not set, or the name is null.
[[gnu::cold]] inline std::string_view variable(const char* name) {
  const char* text = name ? std::getenv(name) : nullptr;
  return text ? std::string_view{text} : std::string_view{};
}

/// Removes the number that a text begins with, and returns it; none if it has none of 32 bits.
[[gnu::cold]] inline std::optional<std::uint32_t> cut_number(std::string_view& text) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t number = 0;
  std::size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && number <= most;
       ++digits) {
    number = number * 10 + static_cast<std::uint64_t>(text[digits] - '0');
  }
  text.remove_prefix(digits);
  return digits == 0 || number > most ? std::nullopt
                                      : std::optional{static_cast<std::uint32_t>(number)};
}

/// Returns the number that a text is; none if it is not one, and nothing else.
[[gnu::cold]] inline std::optional<std::uint32_t> whole_number(std::string_view text) {
  const auto number = cut_number(text);
  return text.empty() ? number : std::nullopt;
}

/// Returns how many tasks a node has by a text such as "4(x2),3", short for 4,4,3; none if it does
/// not tell.
[[gnu::cold]] inline std::optional<std::uint32_t> tasks_on(std::uint32_t node,
                                                           std::string_view nodes) {
  const auto cut = [&nodes](std::string_view start) {
    const bool there = nodes.substr(0, start.size()) == start;
    nodes.remove_prefix(there ? start.size() : 0);
    return there;
  };
  while (!nodes.empty()) {
    const auto tasks = cut_number(nodes);
    const bool several = cut("(x");
    const auto alike = several ? cut_number(nodes) : 1;
    if (!tasks || !alike || several != cut(")") || (!cut(",") && !nodes.empty())) {
      return std::nullopt;
    }
    if (node < *alike) {
      return tasks;
    }
    node -= *alike;
  }
  return std::nullopt;
}

/// Returns how many tasks of a Slurm step this host has, by SLURM_STEP_TASKS_PER_NODE.
[[gnu::cold]] inline std::uint32_t slurm_tasks_here(std::string_view nodes) {
  const std::string_view node = variable("SLURM_NODEID");
  const auto number = whole_number(node);
  const auto tasks = number ? tasks_on(*number, nodes) : std::nullopt;
  if (!tasks) {
    throw_error<OptionError>({"penstock: SLURM_STEP_TASKS_PER_NODE=", nodes,
                              " and SLURM_NODEID=", node,
                              " do not tell how many tasks this host has. Start the program with "
                              "srun, or give ps::Ranks by hand."});
  }
  // A job submitted within a step inherits the step's variables; only the others below are its own.
  const std::string_view listed = variable("SLURM_GTIDS");
  std::uint32_t here = 1;
  for (const char c : listed) {
    here += c == ',';
  }
  const std::string_view job =
      variable("ENVIRONMENT") == "BATCH" ? variable("SLURM_TASKS_PER_NODE") : std::string_view{};
  const bool miscounted = listed.data() && here != *tasks;
  if (miscounted || (job.data() && job != nodes)) {
    throw_error<OptionError>(
        {"penstock: SLURM_STEP_TASKS_PER_NODE=", nodes, " does not fit ",
         miscounted ? "SLURM_GTIDS=" : "SLURM_TASKS_PER_NODE=", miscounted ? listed : job,
         ": it is left of a step that submitted this job. Start the program with srun, unset "
         "SLURM_STEP_NUM_TASKS if there is only one process, or give ps::Ranks by hand."});
  }
  return *tasks;
}

/// Returns whether srun started this process, in a step. What a batch script or a shell of salloc
/// starts by itself is one process, although it has variables that count the job's tasks.
[[gnu::cold]] inline bool in_slurm_step() {
  constexpr std::uint32_t first_reserved = 0xfffffff0;
  const std::string_view id = variable("SLURM_STEP_ID"); // -5 in a batch script, from 26.05 on
  if (id.data() && whole_number(id).value_or(first_reserved) >= first_reserved) {
    return false;
  }
  const std::string_view rank = variable("SLURM_PROCID");
  return variable("SLURM_STEP_NUM_TASKS").data() || (rank.data() && rank != "0");
}

} // namespace penstock::detail
