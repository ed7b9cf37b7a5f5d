// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

namespace penstock::detail {

/// Returns an environment variable's text; without data() if it is not set, or the name is null.
[[gnu::cold]] std::string_view variable(const char* name);

/// Removes the number that a text begins with, and returns it; none if it has none of 32 bits.
[[gnu::cold]] std::optional<std::uint32_t> cut_number(std::string_view& text);

/// Returns the number that a text is; none if it is not one, and nothing else.
[[gnu::cold]] std::optional<std::uint32_t> whole_number(std::string_view text);

/// Returns how many tasks a node has by a text such as "4(x2),3", short for 4,4,3; none if it does
/// not tell.
[[gnu::cold]] std::optional<std::uint32_t> tasks_on(std::uint32_t node, std::string_view nodes);

/// Returns how many tasks of a Slurm step this host has, by SLURM_STEP_TASKS_PER_NODE.
[[gnu::cold]] std::uint32_t slurm_tasks_here(std::string_view nodes);

/// Returns whether srun started this process, in a step. What a batch script or a shell of salloc
/// starts by itself is one process, although it has variables that count the job's tasks.
[[gnu::cold]] bool in_slurm_step();

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::string_view variable(const char* name) {
  const char* text = name ? std::getenv(name) : nullptr;
  return text ? std::string_view{text} : std::string_view{};
}

PENSTOCK_INLINE std::optional<std::uint32_t> cut_number(std::string_view& text) {
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

PENSTOCK_INLINE std::optional<std::uint32_t> whole_number(std::string_view text) {
  const auto number = cut_number(text);
  return text.empty() ? number : std::nullopt;
}

PENSTOCK_INLINE std::optional<std::uint32_t> tasks_on(std::uint32_t node, std::string_view nodes) {
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

PENSTOCK_INLINE std::uint32_t slurm_tasks_here(std::string_view nodes) {
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

PENSTOCK_INLINE bool in_slurm_step() {
  constexpr std::uint32_t first_reserved = 0xfffffff0;
  const std::string_view id = variable("SLURM_STEP_ID"); // -5 in a batch script, from 26.05 on
  if (id.data() && whole_number(id).value_or(first_reserved) >= first_reserved) {
    return false;
  }
  const std::string_view rank = variable("SLURM_PROCID");
  return variable("SLURM_STEP_NUM_TASKS").data() || (rank.data() && rank != "0");
}
#endif

} // namespace penstock::detail

namespace penstock {

namespace detail {

/// The environment variables in which a launcher tells a rank, the world, and both on this host;
/// null where it has none.
struct RankVariables {
  const char* names[4];
  bool by_srun_too; // which sets them for an MPI library
};

inline constexpr RankVariables torchrun_variables{
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, false};
inline constexpr RankVariables mpi_variables[] = {
    {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE"},
     false},
    {{"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
      "MV2_COMM_WORLD_LOCAL_SIZE"},
     false},
    {{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}, true}, // Hydra: MPICH, Intel
    {{"PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"}, true},   // HPE Cray
    {{"PMI_ID", nullptr, nullptr, nullptr}, false},                         // Hydra's -pmi-port
    {{"PMIX_RANK", nullptr, nullptr, nullptr}, true}};
/// SLURM_NTASKS, SLURM_NTASKS_PER_NODE and SLURM_TASKS_PER_NODE may be the job's, or a request.
inline constexpr RankVariables slurm_variables{
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"}, false};

[[gnu::cold]] bool set_by_srun(const RankVariables& of);

/// Throws an OptionError if such ranks cannot be; `names` are what it calls the four numbers.
[[gnu::cold]] void check_ranks(const Ranks& ranks, const char* const (&names)[4],
                               std::string_view cure);

/// Returns ranks that were given by hand; throws an OptionError if they cannot be.
[[gnu::cold]] Ranks checked(const Ranks& ranks);

/// What environment variables have told.
class ToldRanks {
 public:
  /// Adds what these tell. The first to tell a number counts; ranks and worlds must not differ.
  [[gnu::cold]] void ask(const RankVariables& of);

  /// Returns it; throws an OptionError if too little was told.
  [[gnu::cold]] Ranks ranks() const;

 private:
  static constexpr const char* what[] = {
      "which process this is", "how many processes there are",
      "which of this host's processes this is, and so which GPU it takes"};

  const char* name(int i) const { return (of_[i] ? of_[i] : &torchrun_variables)->names[i]; }

  const RankVariables* of_[4]{};
  std::uint32_t value_[4]{};
};

/// Returns whether mpirun started this process, perhaps within a step of Slurm's.
[[gnu::cold]] bool started_by_mpirun();
/// Returns whether torchrun started this process.
[[gnu::cold]] bool started_by_torchrun();

#if PENSTOCK_BODIES
PENSTOCK_INLINE bool set_by_srun(const RankVariables& of) {
  if (!of.by_srun_too || !of.names[1]) {
    return of.by_srun_too && variable("PMIX_NAMESPACE").substr(0, 6) == "slurm.";
  }
  return variable(of.names[0]) == variable(slurm_variables.names[0]) &&
         variable(of.names[1]) == variable(slurm_variables.names[1]);
}

PENSTOCK_INLINE void check_ranks(const Ranks& ranks, const char* const (&names)[4],
                                 std::string_view cure) {
  const std::uint32_t values[] = {ranks.rank, ranks.world, ranks.local_rank, ranks.local_world};
  const auto refuse = [&](int a, std::string_view is, int b, std::string_view since) {
    throw_error<OptionError>(
        {"penstock: ", names[a], "=", values[a], is, names[b], "=", values[b], since, cure});
  };
  if (ranks.world == 0 || ranks.local_world == 0) {
    const int none = ranks.world == 0 ? 1 : 3;
    throw_error<OptionError>({"penstock: ", names[none],
                              "=0 is no number of processes: it must be "
                              "at least 1. ",
                              cure});
  }
  if (ranks.rank >= ranks.world) {
    refuse(0, " is no rank of ", 1, ": ranks count from 0. ");
  }
  if (ranks.local_rank >= ranks.local_world) {
    refuse(2, " is no rank on a host with ", 3, ": ranks count from 0. ");
  }
  if (ranks.local_world > ranks.world) {
    refuse(3, " is more than ", 1, ", and those of this host are among all. ");
  }
}

PENSTOCK_INLINE Ranks checked(const Ranks& ranks) {
  check_ranks(ranks,
              {"order.ranks.rank", "order.ranks.world", "order.ranks.local_rank",
               "order.ranks.local_world"},
              "Correct the Reader's, or take what ps::ranks() returns.");
  return ranks;
}

PENSTOCK_INLINE void ToldRanks::ask(const RankVariables& of) {
  for (int i = 0; i < 4; ++i) {
    const std::string_view text = variable(of.names[i]);
    if (!text.data()) {
      continue;
    }
    const bool nodes = i == 3 && &of == &slurm_variables;
    const auto number = nodes ? slurm_tasks_here(text) : whole_number(text);
    if (!number) {
      throw_error<OptionError>({"penstock: ", of.names[i], "=", text,
                                " is no whole number from 0 to 4294967295. Correct or unset it, "
                                "or give ps::Ranks by hand."});
    }
    if (!of_[i]) {
      of_[i] = &of;
      value_[i] = *number;
    } else if (i < 2 && value_[i] != *number) {
      throw_error<OptionError>({"penstock: ", name(i), "=", value_[i], " and ", of.names[i], "=",
                                text, " disagree about ", what[i],
                                ". Unset the one that does not count, or give ps::Ranks by "
                                "hand."});
    }
  }
}

PENSTOCK_INLINE Ranks ToldRanks::ranks() const {
  int told = 0;
  while (told < 4 && !of_[told]) {
    ++told;
  }
  if (told == 4) {
    return {};
  }
  for (int i = 0; i < 3; ++i) {
    const bool alone = i == 2 && value_[1] <= 1;
    if (!of_[i] && !alone) {
      const char* missing = of_[told]->names[i] ? of_[told]->names[i] : torchrun_variables.names[i];
      throw_error<OptionError>({"penstock: ", name(told), "=", value_[told], " without ", missing,
                                ": nothing tells ", what[i], ". Set ", torchrun_variables.names[i],
                                " for each process, unset ", name(told),
                                " if there is only one, or give ps::Ranks by hand."});
    }
  }
  const int local_world = of_[3] ? 3 : 1;
  const Ranks ranks{value_[0], value_[1], value_[2], value_[local_world]};
  check_ranks(ranks, {name(0), name(1), name(2), name(local_world)},
              "Correct or unset them, or give ps::Ranks by hand.");
  return ranks;
}

PENSTOCK_INLINE bool started_by_mpirun() {
  return std::any_of(
      std::begin(mpi_variables), std::end(mpi_variables),
      [](const RankVariables& of) { return variable(of.names[0]).data() && !set_by_srun(of); });
}

PENSTOCK_INLINE bool started_by_torchrun() {
  return variable("TORCHELASTIC_RUN_ID").data() && variable("RANK").data();
}
#endif

} // namespace detail

/// Returns which of several processes this is, from the environment variables of what started it.
/// The innermost launcher counts: torchrun; else mpirun or mpiexec (Open MPI, MPICH, Intel MPI, HPE
/// Cray, MVAPICH2, or another with PMI or PMIx); else srun. If there was none, this is rank 0 of 1.
/// RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE set by hand add what a launcher does not tell.
/// If nothing tells how many processes this host has, `local_world` is `world`.
///
/// Throws an OptionError if variables contradict each other, are no numbers or tell only part: its
/// text has their names and values. Looks at nothing but the environment, each time anew, and does
/// not block. Any thread may call it while no other one changes the environment.
[[gnu::cold]] Ranks ranks();

#if PENSTOCK_BODIES
PENSTOCK_INLINE Ranks ranks() {
  detail::ToldRanks told;
  told.ask(detail::torchrun_variables);
  if (detail::started_by_torchrun()) {
    return told.ranks();
  }
  const bool within = detail::started_by_mpirun();
  for (const detail::RankVariables& of : detail::mpi_variables) {
    if (!within || !detail::set_by_srun(of)) {
      told.ask(of);
    }
  }
  if (!within && detail::in_slurm_step()) {
    told.ask(detail::slurm_variables);
  }
  return told.ranks();
}
#endif

} // namespace penstock
