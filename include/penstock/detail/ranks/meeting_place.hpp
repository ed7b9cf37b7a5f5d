// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>
#include <penstock/order/ranks.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::detail {

/// Where the ranks of a job meet: all ranks find the same one.
struct MeetingPlace {
  std::string host;     // of rank 0
  std::uint16_t port{}; // on it
  std::string job;      // what tells it from others
  std::uint64_t key{};  // whoever does not know it is of another job
  bool here{};          // all ranks are on this host
};

/// Returns a number that differs between two texts, almost always.
inline std::uint64_t number_of_text(std::string_view text) noexcept {
  std::uint64_t number = 0xcbf2'9ce4'8422'2325;
  for (const char c : text) {
    number = (number ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  }
  return number;
}

/// Returns what tells this job from others that may run on the host, for people, too:
/// "MASTER_PORT=29500 PMIX_NAMESPACE=11"; empty if nothing does. Of the launchers the innermost
/// counts, as for ranks(): what an outer one has set may be the same for several jobs, or differ
/// among the ranks of one.
[[gnu::cold]] inline std::string name_of_job() {
  std::string name;
  const auto add = [&name](const char* of) {
    const std::string_view text = variable(of);
    if (text.data()) {
      name += joined({name.empty() ? "" : " ", of, "=", text});
    }
    return text.data() != nullptr;
  };
  const bool by_port = add("MASTER_PORT");
  if (add("TORCHELASTIC_RUN_ID") && started_by_torchrun()) {
    return name;
  }
  if (!add("PMIX_NAMESPACE") && (!by_port || (in_slurm_step() && !started_by_mpirun()))) {
    static_cast<void>(add("SLURM_JOB_ID") && add("SLURM_STEP_ID"));
  }
  return name;
}

/// Returns the port that a variable names; 0 if it is not set. Throws an OptionError if it is none.
[[gnu::cold]] inline std::uint16_t port_in(const char* name) {
  const std::string_view text = variable(name);
  const auto number = text.data() ? whole_number(text) : 0;
  if (!number || *number > 65535 || (text.data() && *number == 0)) {
    throw_error<OptionError>({"penstock: ", name, "=", text,
                              " is no port: it must be a number from 1 to 65535. Correct it, the "
                              "same for all ranks, or unset it."});
  }
  return static_cast<std::uint16_t>(*number);
}

/// Returns where the ranks meet, by `port` if it is not 0, else by PENSTOCK_PORT, else by what
/// names the job. Throws an OptionError if nothing tells.
[[gnu::cold]] inline MeetingPlace meeting_place(const Ranks& ranks, std::uint16_t port) {
  // Below those that Linux gives to connections that ask for no port.
  constexpr std::uint16_t first = 10'000;
  constexpr std::uint16_t ports = 20'000;
  MeetingPlace place;
  place.job = name_of_job();
  const std::uint16_t of_others = port_in("MASTER_PORT");
  place.key = number_of_text(joined({"penstock's ranks, 2: ", place.job}));
  place.port = port != 0 ? port : port_in("PENSTOCK_PORT");
  if (place.port == 0 && place.job.empty()) {
    throw_error<OptionError>({"penstock: nothing tells the ", ranks.world,
                              " ranks where to meet: none of PENSTOCK_PORT, MASTER_PORT, "
                              "PMIX_NAMESPACE and SLURM_JOB_ID is set. Set PENSTOCK_PORT to a free "
                              "port of rank 0's host, the same for all ranks."});
  }
  if (place.port == 0) {
    place.port = static_cast<std::uint16_t>(first + place.key % ports);
    place.port = static_cast<std::uint16_t>(place.port + (place.port == of_others));
  } else if (place.port == of_others) {
    throw_error<OptionError>(
        {"penstock: port ", unsigned{place.port},
         " is MASTER_PORT, where another program of this job listens. Set "
         "PENSTOCK_PORT to another one, the same for all ranks, or unset it."});
  }
  place.here = ranks.local_world == ranks.world;
  const std::string_view master = variable("MASTER_ADDR");
  if (!place.here && master.empty()) {
    throw_error<OptionError>({"penstock: ranks are on several hosts (", ranks.local_world, " of ",
                              ranks.world,
                              " on this one), and MASTER_ADDR is not set. Set it to the name of "
                              "rank 0's host, the same for all ranks."});
  }
  place.host = place.here ? "127.0.0.1" : std::string{master};
  return place;
}

} // namespace penstock::detail
