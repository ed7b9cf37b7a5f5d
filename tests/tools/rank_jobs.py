# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Starts programs as several ranks, for tests."""
import os
import shutil
import subprocess
import uuid
from pathlib import Path

LIMIT = 60
RUN_RANKS = str(Path(__file__).resolve().parents[2] / "examples" / "run_ranks")
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "TORCHELASTIC_", "OMPI_", "MV2_", "MPI_", "PMI", "SLURM_", "MASTER_", "MEETING")
MARK = f"PENSTOCK_TEST={uuid.uuid4()}"  # in the environment of all that this test starts
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)} | dict([MARK.split("=")])


class Job:
    """So many ranks of a program, with what they print."""

    def __init__(self, launcher: str, ranks: int, *program, **variables: str):
        mpirun = ["mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe", "-n"]
        how = [RUN_RANKS] if launcher == "run_ranks" else mpirun
        self.process = subprocess.Popen([*how, str(ranks), *map(str, program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=ENVIRONMENT | variables)
        self.program = str(program[0])

    def wait(self) -> tuple[int, list[str], str]:
        out, errors = self.process.communicate(timeout=LIMIT)
        for folder in Path("/dev/shm").glob(f"ranks-{os.geteuid()}-{self.process.pid}-*"):
            shutil.rmtree(folder)  # a rank 0 that was killed could not
        return self.process.returncode, out.splitlines(), errors

    def ranks(self) -> dict[int, int]:
        """Returns the process of each rank that runs."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                variables = (folder / "environ").read_text(errors="replace").split("\0")
                if MARK in variables and os.readlink(folder / "exe") == self.program:
                    rank = next(text for text in variables if text.startswith(("RANK=", "OMPI_COMM_WORLD_RANK=")))
                    found[int(rank.split("=")[1])] = int(folder.name)
            except OSError:
                continue  # it has ended
        return found

    def wait_for_first_lines(self, ranks: int):
        """Returns when all ranks are at work: each has printed something."""
        lines = [self.process.stdout.readline() for _ in range(200 * ranks)]
        assert all(lines), "the ranks have ended"
        assert len(self.ranks()) == ranks, self.ranks()
