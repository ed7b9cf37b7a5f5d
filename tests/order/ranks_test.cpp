// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Which of several processes this is, by what their launchers set. What Open MPI 4.1.4, MPICH
// 4.0.2 (Hydra) and Slurm 22.05.8 set is as they gave it to `env`, on one host or on two nodes;
// what torchrun, MVAPICH2, Intel MPI, HPE Cray and later versions of Slurm set is as their sources
// and manuals have it.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/environment.hpp"

#include <penstock/error.hpp>
#include <penstock/order/order.hpp>
#include <penstock/order/ranks.hpp>

#include <cstdlib>
#include <string>

#include <unistd.h>

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::Environment;
using ps::tests::has;

namespace {

// Rank, world, and both on this host.
std::string ranks_of(const std::string& variables) {
  const Environment environment{variables};
  const ps::Ranks is = ps::ranks();
  return std::to_string(is.rank) + " of " + std::to_string(is.world) + ", here " +
         std::to_string(is.local_rank) + " of " + std::to_string(is.local_world);
}

std::string refusal_of(const std::string& variables) {
  const Environment environment{variables};
  return caught<ps::OptionError>([] { ps::ranks(); }).what();
}
std::string refusal_by_hand(const ps::Ranks& ranks) {
  return caught<ps::OptionError>([&] { ps::detail::checked(ranks); }).what();
}

const std::string alone = "0 of 1, here 0 of 1";

// Worker 1 of the second of two hosts with 4 workers each.
const std::string torchrun =
    "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0 RANK=5 "
    "GROUP_RANK=1 GROUP_WORLD_SIZE=2 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 ";
const std::string open_mpi = "OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=3 "
                             "OMPI_COMM_WORLD_NODE_RANK=2 OMPI_COMM_WORLD_RANK=2 "
                             "OMPI_COMM_WORLD_SIZE=3 OMPI_UNIVERSE_SIZE=2 "
                             "PMIX_NAMESPACE=1768423425 PMIX_RANK=2 ";
const std::string hydra = "MPI_LOCALNRANKS=3 MPI_LOCALRANKID=1 PMI_FD=6 PMI_RANK=1 PMI_SIZE=3 ";
// srun -N2 -n5, task 4.
const std::string srun = "SLURM_GTIDS=4 SLURM_JOB_ID=2 SLURM_LOCALID=0 SLURM_NODEID=1 "
                         "SLURM_NPROCS=5 SLURM_NTASKS=5 SLURM_PROCID=4 SLURM_STEPID=0 "
                         "SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=5 "
                         "SLURM_STEP_TASKS_PER_NODE=4,1 SLURM_TASKS_PER_NODE=4,1 ";
const std::string srun_pmi2 =
    "PMI_JOBID=4.0 PMI_RANK=1 PMI_SIZE=2 SLURM_GTIDS=0,1 SLURM_JOB_ID=4 SLURM_LOCALID=1 "
    "SLURM_NODEID=0 SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_STEPID=0 SLURM_STEP_ID=0 "
    "SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2 SLURM_TASKS_PER_NODE=2 ";
// The daemon of mpirun or mpiexec on the second of two nodes is a task of a step of its own.
const std::string daemon_of_two =
    "ENVIRONMENT=BATCH SLURM_GTIDS=0 SLURM_JOB_ID=13 SLURM_LOCALID=0 SLURM_NODEID=1 "
    "SLURM_NTASKS=4 SLURM_PROCID=1 SLURM_STEPID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 "
    "SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_TASKS_PER_NODE=1(x2) ";

} // namespace

TEST_CASE("a process that nothing started is alone") {
  CHECK(ranks_of("") == alone);
}

TEST_CASE("torchrun tells all four") {
  CHECK(ranks_of(torchrun) == "5 of 8, here 1 of 4");
  CHECK(ranks_of("TORCHELASTIC_RUN_ID=none RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1") ==
        alone);
  // --virtual-local-rank: each worker sees one GPU.
  CHECK(ranks_of("TORCHELASTIC_RUN_ID=none RANK=5 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4") ==
        "5 of 8, here 0 of 4");
}

TEST_CASE("Open MPI tells all four") {
  CHECK(ranks_of(open_mpi) == "2 of 3, here 2 of 3");
  CHECK(ranks_of("OMPI_COMM_WORLD_RANK=9 OMPI_COMM_WORLD_SIZE=16 OMPI_COMM_WORLD_LOCAL_RANK=1 "
                 "OMPI_COMM_WORLD_LOCAL_SIZE=8 PRTE_LAUNCHED=1 PMIX_RANK=9 "
                 "PMIX_NAMESPACE=prterun-host-2717@1") == "9 of 16, here 1 of 8");
}

TEST_CASE("MPICH, Intel MPI and HPE Cray tell all four by PMI") {
  CHECK(ranks_of(hydra) == "1 of 3, here 1 of 3");
  CHECK(ranks_of("PMI_RANK=9 PMI_SIZE=16 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=8 PALS_RANKID=9 "
                 "PALS_LOCAL_RANKID=1") == "9 of 16, here 1 of 8");
}

TEST_CASE("MVAPICH2 tells all four, whether mpirun_rsh or Hydra starts it") {
  const std::string mvapich2 = "MV2_COMM_WORLD_RANK=9 MV2_COMM_WORLD_SIZE=16 "
                               "MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=8 ";
  CHECK(ranks_of(mvapich2 + "PMI_ID=9") == "9 of 16, here 1 of 8");
  CHECK(ranks_of(mvapich2 + "PMI_RANK=9 PMI_SIZE=16") == "9 of 16, here 1 of 8");
}

TEST_CASE("a step of srun tells all four, whatever the job's numbers are") {
  CHECK(ranks_of(srun) == "4 of 5, here 0 of 1");
  CHECK(ranks_of(srun_pmi2) == "1 of 2, here 1 of 2");
  // Two components of a heterogeneous job.
  CHECK(ranks_of("SLURM_GTIDS=2,3,4 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_NTASKS=5 SLURM_PROCID=3 "
                 "SLURM_STEPID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=5 "
                 "SLURM_STEP_TASKS_PER_NODE=2,3 SLURM_TASKS_PER_NODE=2,3") ==
        "3 of 5, here 1 of 3");
  // --preserve-env leaves the job's numbers, and a job's request is not what a step has.
  CHECK(ranks_of("SLURM_GTIDS=1 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_NTASKS=4 SLURM_PROCID=1 "
                 "SLURM_NTASKS_PER_NODE=4 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 "
                 "SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_TASKS_PER_NODE=3,1") ==
        "1 of 2, here 0 of 1");
  // --mpi=pmix
  CHECK(ranks_of(srun + "PMIX_RANK=4 PMIX_NAMESPACE=slurm.pmix.2.0") == "4 of 5, here 0 of 1");
}

TEST_CASE("Slurm's tasks per node may be written in short") {
  const auto here = [](const std::string& nodes, int node) {
    return ranks_of("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=99 SLURM_LOCALID=0 SLURM_NODEID=" +
                    std::to_string(node) + " SLURM_STEP_TASKS_PER_NODE=" + nodes);
  };
  CHECK(here("4(x2),3", 0) == "0 of 99, here 0 of 4");
  CHECK(here("4(x2),3", 1) == "0 of 99, here 0 of 4");
  CHECK(here("4(x2),3", 2) == "0 of 99, here 0 of 3");
  CHECK(here("7,4(x10),5(x2),1", 10) == "0 of 99, here 0 of 4");
  CHECK(here("7,4(x10),5(x2),1", 11) == "0 of 99, here 0 of 5");
  CHECK(here("7,4(x10),5(x2),1", 13) == "0 of 99, here 0 of 1");
}

TEST_CASE("within a job, but in no step, a process is alone") {
  // sbatch -N2 -n4, without srun in the script.
  const std::string batch = "ENVIRONMENT=BATCH SLURM_GTIDS=0 SLURM_JOB_ID=8 SLURM_LOCALID=0 "
                            "SLURM_NODEID=0 SLURM_NTASKS=4 SLURM_PROCID=0 "
                            "SLURM_TASKS_PER_NODE=3,1 ";
  CHECK(ranks_of(batch) == alone);
  // From Slurm 26.05 on a batch script has an id of its own, whatever called sbatch.
  CHECK(ranks_of(batch + "SLURM_STEP_ID=-5 SLURM_STEPID=-5 SLURM_STEP_NUM_TASKS=3") == alone);
  CHECK(ranks_of("SLURM_JOB_ID=14 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=4") == alone); // salloc
  // salloc with LaunchParameters=use_interactive_step; it would be alone if that counted more.
  const std::string shell = "SLURM_GTIDS=0 SLURM_JOB_ID=18 SLURM_LOCALID=0 SLURM_NODEID=0 "
                            "SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_PTY_PORT=41709 "
                            "SLURM_STEPID=4294967290 SLURM_STEP_ID=4294967290 "
                            "SLURM_TASKS_PER_NODE=4 ";
  CHECK(ranks_of(shell + "SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1") == alone);
  CHECK(ranks_of(shell + "SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE=4") == alone);
}

TEST_CASE("PMIx tells a rank, and others tell the rest") {
  const std::string prterun = "PRTE_LAUNCHED=1 PMIX_RANK=3 PMIX_NAMESPACE=prterun-host-2717@1 ";
  CHECK(ranks_of(prterun + "WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2") ==
        "3 of 8, here 1 of 2");
  CHECK(refusal_of(prterun) ==
        "penstock: PMIX_RANK=3 without WORLD_SIZE: nothing tells how many processes there are. Set "
        "WORLD_SIZE for each process, unset PMIX_RANK if there is only one, or give ps::Ranks by "
        "hand.");
}

TEST_CASE("torchrun counts within srun and within mpirun") {
  CHECK(ranks_of(torchrun + daemon_of_two) == "5 of 8, here 1 of 4");
  CHECK(ranks_of(torchrun + open_mpi) == "5 of 8, here 1 of 4");
  // mpirun in a worker of torchrun whose own numbers are unset.
  CHECK(ranks_of("TORCHELASTIC_RUN_ID=none " + open_mpi) == "2 of 3, here 2 of 3");
  CHECK(ranks_of(torchrun + "SLURM_STEP_NUM_TASKS=what PMI_RANK=-1") == "5 of 8, here 1 of 4");
}

TEST_CASE("mpirun and mpiexec count within sbatch, salloc and srun") {
  CHECK(ranks_of(open_mpi + daemon_of_two) == "2 of 3, here 2 of 3");
  CHECK(ranks_of("MPI_LOCALNRANKS=1 MPI_LOCALRANKID=0 PMI_RANK=3 PMI_SIZE=4 " + daemon_of_two) ==
        "3 of 4, here 0 of 1");
  // One process a node: Hydra's numbers are those of its daemons.
  CHECK(ranks_of("MPI_LOCALNRANKS=1 MPI_LOCALRANKID=0 PMI_RANK=1 PMI_SIZE=2 " + daemon_of_two) ==
        "1 of 2, here 0 of 1");
  // Either number shows that they are not.
  CHECK(ranks_of("MPI_LOCALNRANKS=1 MPI_LOCALRANKID=0 PMI_RANK=0 PMI_SIZE=2 " + daemon_of_two) ==
        "0 of 2, here 0 of 1");
  CHECK(ranks_of("MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1 PMI_RANK=1 PMI_SIZE=4 " + daemon_of_two) ==
        "1 of 4, here 1 of 2");
  // Not a rank of the daemons' step, even if it has the same number.
  CHECK(refusal_of("PMIX_RANK=1 PMIX_NAMESPACE=prterun-host-2717@1 " + daemon_of_two)
            .find("penstock: PMIX_RANK=1 without WORLD_SIZE: ") == 0);
  CHECK(refusal_of("PMI_ID=1 MPI_LOCALNRANKS=2 MPI_LOCALRANKID=0 " + daemon_of_two)
            .find("penstock: PMI_ID=1 without WORLD_SIZE: ") == 0);
  // The outer srun told MPI its own numbers.
  CHECK(ranks_of(open_mpi + srun_pmi2) == "2 of 3, here 2 of 3");
  CHECK(ranks_of(hydra + srun + "PMIX_RANK=4 PMIX_NAMESPACE=slurm.pmix.2.0") ==
        "1 of 3, here 1 of 3");
  // mpirun -n 1 in a batch script, whose daemon is a step of one.
  CHECK(ranks_of("OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 "
                 "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 PMIX_NAMESPACE=1665007617 "
                 "PMIX_RANK=0 SLURM_GTIDS=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NTASKS=1 "
                 "SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 "
                 "SLURM_STEP_TASKS_PER_NODE=1") == alone);
}

TEST_CASE("variables set by hand may repeat what a launcher tells, and add to it") {
  CHECK(ranks_of(srun + "RANK=4 WORLD_SIZE=5 LOCAL_RANK=0") == "4 of 5, here 0 of 1");
  CHECK(ranks_of(srun + "WORLD_SIZE=5 MASTER_ADDR=n1") == "4 of 5, here 0 of 1");
  CHECK(ranks_of(open_mpi + "LOCAL_RANK=0") == "2 of 3, here 0 of 3");
  CHECK(ranks_of(srun_pmi2 + "MV2_COMM_WORLD_LOCAL_RANK=1") == "1 of 2, here 1 of 2");
  CHECK(ranks_of("PMI_RANK=3 PMI_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2") == "3 of 8, here 1 of 2");
  CHECK(ranks_of("RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2") == "3 of 8, here 1 of 2");
}

TEST_CASE("without a number of processes on this host, that is the world") {
  CHECK(ranks_of("RANK=3 WORLD_SIZE=8 LOCAL_RANK=1") == "3 of 8, here 1 of 8");
}

TEST_CASE("without a rank on this host, only a process that is alone is accepted") {
  CHECK(ranks_of("RANK=0 WORLD_SIZE=1") == alone);
  CHECK(refusal_of("PMI_RANK=3 PMI_SIZE=8") ==
        "penstock: PMI_RANK=3 without MPI_LOCALRANKID: nothing tells which of this host's "
        "processes this is, and so which GPU it takes. Set LOCAL_RANK for each process, unset "
        "PMI_RANK if there is only one, or give ps::Ranks by hand.");
  CHECK(refusal_of("RANK=3 WORLD_SIZE=8").find("penstock: RANK=3 without LOCAL_RANK: ") == 0);
}

TEST_CASE("half of what is needed is refused") {
  CHECK(refusal_of("RANK=3 LOCAL_RANK=3") ==
        "penstock: RANK=3 without WORLD_SIZE: nothing tells how many processes there are. Set "
        "WORLD_SIZE for each process, unset RANK if there is only one, or give ps::Ranks by hand.");
  CHECK(refusal_of("WORLD_SIZE=8") ==
        "penstock: WORLD_SIZE=8 without RANK: nothing tells which process this is. Set RANK for "
        "each process, unset WORLD_SIZE if there is only one, or give ps::Ranks by hand.");
  CHECK(refusal_of("LOCAL_RANK=0").find("penstock: LOCAL_RANK=0 without RANK: ") == 0);
  CHECK(refusal_of("OMPI_COMM_WORLD_SIZE=3")
            .find("penstock: OMPI_COMM_WORLD_SIZE=3 without OMPI_COMM_WORLD_RANK: ") == 0);
  CHECK(refusal_of("PMI_RANK=3").find("penstock: PMI_RANK=3 without PMI_SIZE: ") == 0);
  CHECK(refusal_of("SLURM_PROCID=3 SLURM_NTASKS=8")
            .find("penstock: SLURM_PROCID=3 without SLURM_STEP_NUM_TASKS: ") == 0);
  CHECK(refusal_of("SLURM_STEP_NUM_TASKS=8")
            .find("penstock: SLURM_STEP_NUM_TASKS=8 without SLURM_PROCID: ") == 0);
}

TEST_CASE("ranks that cannot be are refused") {
  CHECK(refusal_of("RANK=8 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=8") ==
        "penstock: RANK=8 is no rank of WORLD_SIZE=8: ranks count from 0. Correct or unset them, "
        "or give ps::Ranks by hand.");
  CHECK(refusal_of("RANK=0 WORLD_SIZE=0")
            .find("penstock: WORLD_SIZE=0 is no number of processes: ") == 0);
  CHECK(refusal_of("RANK=2 WORLD_SIZE=8 LOCAL_RANK=4 LOCAL_WORLD_SIZE=4") ==
        "penstock: LOCAL_RANK=4 is no rank on a host with LOCAL_WORLD_SIZE=4: ranks count from 0. "
        "Correct or unset them, or give ps::Ranks by hand.");
  CHECK(refusal_of("RANK=2 WORLD_SIZE=8 LOCAL_RANK=8")
            .find("penstock: LOCAL_RANK=8 is no rank on a host with WORLD_SIZE=8: ") == 0);
  CHECK(refusal_of("RANK=2 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=8") ==
        "penstock: LOCAL_WORLD_SIZE=8 is more than WORLD_SIZE=4, and those of this host are among "
        "all. Correct or unset them, or give ps::Ranks by hand.");
  CHECK(
      refusal_of(open_mpi + "LOCAL_RANK=3")
          .find("penstock: LOCAL_RANK=3 is no rank on a host with OMPI_COMM_WORLD_LOCAL_SIZE=3") ==
      0);
}

TEST_CASE("what is no number is refused") {
  CHECK(refusal_of("RANK=4abc WORLD_SIZE=8 LOCAL_RANK=0") ==
        "penstock: RANK=4abc is no whole number from 0 to 4294967295. Correct or unset it, or give "
        "ps::Ranks by hand.");
  for (const char* text : {"-1", "", "+3", "0x3", "3.0", "three", "4294967296",
                           "18446744073709551616", "99999999999999999999999999999999999"}) {
    INFO(text);
    CHECK(refusal_of(std::string{"RANK="} + text + " WORLD_SIZE=8 LOCAL_RANK=0")
              .find(std::string{"penstock: RANK="} + text + " is no whole number") == 0);
  }
  CHECK(refusal_of("PMI_RANK=0 PMI_SIZE=8 MPI_LOCALRANKID=x")
            .find("penstock: MPI_LOCALRANKID=x is no whole number") == 0);
  CHECK(ranks_of("RANK=4294967294 WORLD_SIZE=4294967295 LOCAL_RANK=007 LOCAL_WORLD_SIZE=8") ==
        "4294967294 of 4294967295, here 7 of 8");
  const Environment environment{"RANK=3 WORLD_SIZE=8 LOCAL_RANK=0"};
  ::setenv("RANK", " 3", 1);
  CHECK(has(caught<ps::OptionError>([] { ps::ranks(); }), "RANK= 3 is no whole number"));
}

TEST_CASE("launchers of equal standing that disagree are refused, with both variables") {
  CHECK(refusal_of(open_mpi + "PMI_RANK=2 PMI_SIZE=8 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=4") ==
        "penstock: OMPI_COMM_WORLD_SIZE=3 and PMI_SIZE=8 disagree about how many processes there "
        "are. Unset the one that does not count, or give ps::Ranks by hand.");
  CHECK(refusal_of("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 PMIX_RANK=1")
            .find("penstock: OMPI_COMM_WORLD_RANK=2 and PMIX_RANK=1 disagree about which process "
                  "this is. ") == 0);
  // Left over in a shell, or a platform's numbers of hosts.
  CHECK(refusal_of(srun + "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0")
            .find("penstock: RANK=0 and SLURM_PROCID=4 disagree about which process this is. ") ==
        0);
  CHECK(refusal_of(srun + "WORLD_SIZE=2")
            .find("penstock: WORLD_SIZE=2 and SLURM_STEP_NUM_TASKS=5 disagree about how many ") ==
        0);
  CHECK(refusal_of(hydra + "RANK=1 WORLD_SIZE=2")
            .find("penstock: WORLD_SIZE=2 and PMI_SIZE=3 disagree about how many ") == 0);
}

TEST_CASE("what is left of another step is refused, and so is what tells no number of tasks") {
  // srun -n4, one of whose tasks calls sbatch.
  CHECK(refusal_of("ENVIRONMENT=BATCH SLURM_GTIDS=0 SLURM_JOB_ID=11 SLURM_LOCALID=0 "
                   "SLURM_NODEID=0 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEPID=0 SLURM_STEP_ID=0 "
                   "SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE=4 SLURM_TASKS_PER_NODE=1") ==
        "penstock: SLURM_STEP_TASKS_PER_NODE=4 does not fit SLURM_GTIDS=0: it is left of a step "
        "that submitted this job. Start the program with srun, unset SLURM_STEP_NUM_TASKS if there "
        "is only one process, or give ps::Ranks by hand.");
  // srun -N2 -n2 likewise.
  const std::string one_a_node = "SLURM_GTIDS=0 SLURM_JOB_ID=41 SLURM_LOCALID=0 SLURM_NODEID=0 "
                                 "SLURM_NTASKS=2 SLURM_PROCID=0 SLURM_STEPID=0 SLURM_STEP_ID=0 "
                                 "SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=1(x2) ";
  CHECK(refusal_of(one_a_node + "ENVIRONMENT=BATCH SLURM_TASKS_PER_NODE=1")
            .find("penstock: SLURM_STEP_TASKS_PER_NODE=1(x2) does not fit SLURM_TASKS_PER_NODE=1: "
                  "it is left of a step that submitted this job. ") == 0);
  CHECK(ranks_of(one_a_node + "SLURM_TASKS_PER_NODE=1") == "0 of 2, here 0 of 1");
  CHECK(ranks_of(one_a_node + "ENVIRONMENT=BATCH") == "0 of 2, here 0 of 1");
  const std::string step = "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=9 SLURM_LOCALID=0 ";
  CHECK(refusal_of(step + "SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=4(x2)") ==
        "penstock: SLURM_STEP_TASKS_PER_NODE=4(x2) and SLURM_NODEID=2 do not tell how many tasks "
        "this host has. Start the program with srun, or give ps::Ranks by hand.");
  for (const char* nodes :
       {"", "x", "4x", "4(x", "4(x2", "4(2)", "4)", "-4", "4(x-1)", "4294967296", ",4"}) {
    INFO(nodes);
    CHECK(refusal_of(step + "SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=" + nodes)
              .find("do not tell how many tasks this host has") != std::string::npos);
  }
  CHECK(refusal_of(step + "SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4,,3")
            .find("do not tell how many tasks this host has") != std::string::npos);
  CHECK(refusal_of(step + "SLURM_STEP_TASKS_PER_NODE=4").find(" and SLURM_NODEID= do not tell ") !=
        std::string::npos);
}

TEST_CASE("ranks are asked for anew each time") {
  const Environment environment{"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2"};
  CHECK(ps::ranks() == ps::Ranks{0, 2, 0, 2});
  ::setenv("RANK", "1", 1);
  ::setenv("LOCAL_RANK", "1", 1);
  CHECK(ps::ranks() == ps::Ranks{1, 2, 1, 2});
}

TEST_CASE("ranks given by hand are checked") {
  CHECK(ps::detail::checked({}) == ps::Ranks{});
  CHECK(ps::detail::checked({.rank = 2, .world = 8}) == ps::Ranks{2, 8, 0, 1});
  CHECK(refusal_by_hand({.rank = 8, .world = 8}) ==
        "penstock: order.ranks.rank=8 is no rank of order.ranks.world=8: ranks count from 0. "
        "Correct the Reader's, or take what ps::ranks() returns.");
  CHECK(refusal_by_hand({.world = 0}) ==
        "penstock: order.ranks.world=0 is no number of processes: it must be at least 1. Correct "
        "the Reader's, or take what ps::ranks() returns.");
  CHECK(refusal_by_hand({.world = 8, .local_rank = 1}) ==
        "penstock: order.ranks.local_rank=1 is no rank on a host with order.ranks.local_world=1: "
        "ranks count from 0. "
        "Correct the Reader's, or take what ps::ranks() returns.");
  CHECK(refusal_by_hand({.world = 8, .local_world = 0})
            .find("penstock: order.ranks.local_world=0 is no number of processes: ") == 0);
  CHECK(refusal_by_hand({.world = 2, .local_world = 4}) ==
        "penstock: order.ranks.local_world=4 is more than order.ranks.world=2, and those of this "
        "host are among all. "
        "Correct the Reader's, or take what ps::ranks() returns.");
}
