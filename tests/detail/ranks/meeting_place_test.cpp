// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Where ranks meet, by what the environment says.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/environment.hpp"

#include <penstock/detail/ranks/meeting_place.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>

#include <cstdint>
#include <set>
#include <string>

using namespace penstock;
using detail::MeetingPlace;
using tests::caught;
using tests::Environment;
using tests::has;

namespace {

constexpr Ranks here{.rank = 1, .world = 4, .local_rank = 1, .local_world = 4};
constexpr Ranks elsewhere{.rank = 5, .world = 8, .local_rank = 1, .local_world = 4};

MeetingPlace place_of(const std::string& variables, const Ranks& ranks = here,
                      std::uint16_t port = 0) {
  const Environment environment{variables};
  return detail::meeting_place(ranks, port);
}
std::string refusal_of(const std::string& variables, const Ranks& ranks = here,
                       std::uint16_t port = 0) {
  return caught<OptionError>([&] { place_of(variables, ranks, port); }).what();
}

} // namespace

TEST_CASE("ranks of one host meet there, whatever MASTER_ADDR says, and those of several at it") {
  const MeetingPlace near = place_of("MASTER_ADDR=host1 MASTER_PORT=29500");
  CHECK(near.host == "127.0.0.1");
  CHECK(near.here);
  const MeetingPlace far = place_of("MASTER_ADDR=host1 MASTER_PORT=29500", elsewhere);
  CHECK(far.host == "host1");
  CHECK_FALSE(far.here);
  CHECK(far.port == near.port);
  CHECK(refusal_of("MASTER_PORT=29500", elsewhere).find("(4 of 8 on this one), and MASTER_ADDR") !=
        std::string::npos);
}

TEST_CASE("the option's port comes before PENSTOCK_PORT, and that before what names the job") {
  const std::string job = "MASTER_PORT=29500 ";
  CHECK(place_of(job + "PENSTOCK_PORT=4000", here, 5000).port == 5000);
  CHECK(place_of(job + "PENSTOCK_PORT=4000").port == 4000);
  CHECK(place_of("PENSTOCK_PORT=4000").port == 4000);
  CHECK(place_of(job).port >= 10'000);
}

TEST_CASE("a port that follows from MASTER_PORT is never MASTER_PORT") {
  std::set<std::uint16_t> ports;
  for (std::uint32_t port = 10'000; port < 30'000; port += 7) {
    const std::string text = std::to_string(port);
    const MeetingPlace place = place_of("MASTER_PORT=" + text);
    if (place.port == port || place.port < 10'000 || place.port > 30'000) {
      FAIL("MASTER_PORT=" << text << " leads to " << place.port);
    }
    ports.insert(place.port);
  }
  CHECK(ports.size() > 2'000); // of 2858: few jobs collide
}

TEST_CASE("jobs have different keys, and the ranks of one have the same") {
  const std::string torchrun = "MASTER_PORT=29500 TORCHELASTIC_RUN_ID=";
  const std::uint64_t key = place_of(torchrun + "a RANK=0").key;
  CHECK(place_of(torchrun + "a RANK=1 SLURM_JOB_ID=1 SLURM_STEP_ID=7").key == key);
  CHECK(place_of(torchrun + "b RANK=0").key != key);
  CHECK(place_of("PMIX_NAMESPACE=11").key != place_of("PMIX_NAMESPACE=12").key);
  CHECK(place_of("PMIX_NAMESPACE=11 SLURM_JOB_ID=1").port == place_of("PMIX_NAMESPACE=11").port);
  CHECK(place_of("SLURM_JOB_ID=1 SLURM_STEP_ID=0").key !=
        place_of("SLURM_JOB_ID=1 SLURM_STEP_ID=1").key);
}

TEST_CASE("jobs with one MASTER_PORT differ by what the innermost launcher has set") {
  const auto job = [](const std::string& variables) {
    return place_of("MASTER_PORT=29500 " + variables).job;
  };
  const std::string open_mpi = "OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=";
  CHECK(job("RANK=0") == "MASTER_PORT=29500");
  CHECK(job(open_mpi + "11") == "MASTER_PORT=29500 PMIX_NAMESPACE=11");
  CHECK(place_of("MASTER_PORT=29500 " + open_mpi + "11").key !=
        place_of("MASTER_PORT=29500 " + open_mpi + "12").key);
  CHECK(place_of("MASTER_PORT=29500 " + open_mpi + "11").port !=
        place_of("MASTER_PORT=29500 " + open_mpi + "12").port);

  // Ranks of one job may have different ones of an outer launcher, which are then left out.
  const std::string step = "SLURM_JOB_ID=1 SLURM_STEP_ID=7 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 ";
  CHECK(job(step) == "MASTER_PORT=29500 SLURM_JOB_ID=1 SLURM_STEP_ID=7");
  CHECK(job(step + open_mpi + "11") == job(open_mpi + "11"));
  CHECK(job(step + "PMI_RANK=1 PMI_SIZE=2") == "MASTER_PORT=29500");
  CHECK(job("SLURM_JOB_ID=1") == "MASTER_PORT=29500"); // a job script, or one of its hosts
  const std::string torchrun = "TORCHELASTIC_RUN_ID=a ";
  CHECK(job(torchrun + "RANK=0 " + step + open_mpi + "11") ==
        "MASTER_PORT=29500 TORCHELASTIC_RUN_ID=a");

  // Two of mpirun's jobs, in two of torchrun's workers.
  CHECK(job(torchrun + open_mpi + "11") ==
        "MASTER_PORT=29500 TORCHELASTIC_RUN_ID=a PMIX_NAMESPACE=11");
}

TEST_CASE("without anything that names the job, and with a port that cannot be, it is refused") {
  CHECK(refusal_of("") ==
        "penstock: nothing tells the 4 ranks where to meet: none of PENSTOCK_PORT, MASTER_PORT, "
        "PMIX_NAMESPACE and SLURM_JOB_ID is set. Set PENSTOCK_PORT to a free port of rank 0's "
        "host, the same for all ranks.");
  for (const char* text : {"", "0", "65536", "x", "-1"}) {
    CHECK(refusal_of(std::string{"PENSTOCK_PORT="} + text)
              .find(std::string{"penstock: PENSTOCK_PORT="} + text + " is no port: ") == 0);
  }
  const std::string taken = "penstock: port 29500 is MASTER_PORT, where another program";
  CHECK(refusal_of("MASTER_PORT=29500 PENSTOCK_PORT=29500").find(taken) == 0);
  CHECK(refusal_of("MASTER_PORT=29500", here, 29500).find(taken) == 0);
}
