# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Starts several ranks of 14_order, and checks that they read each record once, and that the launcher ends all if one fails.

check_ranks.py run_ranks|mpirun PROGRAM; exits with 77 (skipped) if there is no such launcher.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rank_jobs import ENVIRONMENT, LIMIT, RUN_RANKS, Job


def check_records(launcher: str, program: str):
    for ranks in range(1, 5):
        for more in [], ["--seed", 7], ["--block", 16, "--window", 4, "--seed", 3]:
            # To a file each: mpirun mixes the ranks' output in the middle of lines.
            with tempfile.TemporaryDirectory() as folder:
                code, _, errors = Job(launcher, ranks, "/bin/sh", "-c", 'exec "$0" "$@" >"$FOLDER/${RANK:-$OMPI_COMM_WORLD_RANK}"',
                                      program, "--records", 10_007, "--uneven", "keep", "--batch", 100, *more, FOLDER=folder).wait()
                files = sorted(Path(folder).iterdir())
                lines = [line for file in files for line in file.read_text().splitlines()]
            assert code == 0 and len(files) == ranks, f"{ranks} ranks, {more}: exit code {code}, {len(files)} files: {errors}"
            assert sorted(map(int, lines)) == list(range(10_007)), f"{ranks} ranks, {more}: {len(lines)} records, {len(set(lines))} different"
            positions = [line for line in errors.splitlines() if line.startswith("position: ")]
            assert len(positions) == ranks and len(set(positions)) == 1, errors


ENDLESS = ["--records", 1000, "--batch", 10, "--epochs", 1_000_000, "--step-ms", 2]


def check_killed(launcher: str, program: str, culprit: int, how: signal.Signals):
    """Checks that the launcher ends all ranks soon, and says why, if a signal ends one of them."""
    job = Job(launcher, 3, program, *ENDLESS)
    job.wait_for_first_lines(3)
    began = time.monotonic()
    os.kill(job.ranks()[culprit], how)
    code, _, errors = job.wait()
    took = time.monotonic() - began
    said = f"rank {culprit} of 3 ended with code {128 + how}" if launcher == "run_ranks" else f"exited on signal {how.value}"
    assert code == 128 + how and said in errors, (code, errors)
    assert took < 20, f"it took {took:.1f} s"
    assert not job.ranks(), f"still there: {job.ranks()}"
    print(f"{launcher}: all have ended {took:.1f} s after a rank got {how.name}")


def check_failed(launcher: str, program: str):
    """The same, if one ends by itself with an error."""
    script = '[ ${RANK:-$OMPI_COMM_WORLD_RANK} = 1 ] && sleep 1 && set -- --records x; exec "$0" "$@"'
    began = time.monotonic()
    job = Job(launcher, 3, "/bin/sh", "-c", script, program, *ENDLESS)
    code, _, errors = job.wait()
    assert code == 1 and "14_order: --records takes a number" in errors, (code, errors)
    assert not job.ranks(), f"still there: {job.ranks()}"
    print(f"{launcher}: all have ended {time.monotonic() - began - 1:.1f} s after a rank ended with exit code 1")


def check_stopped(launcher: str, program: str):
    """Checks that no launcher sees a rank that is stopped: it takes one that waits for it with a limit."""
    job = Job(launcher, 3, program, *ENDLESS)
    job.wait_for_first_lines(3)
    os.kill(job.ranks()[1], signal.SIGSTOP)
    time.sleep(4)
    assert job.process.poll() is None and len(job.ranks()) == 3, job.ranks()
    job.process.terminate()
    job.wait()
    assert not job.ranks(), f"still there: {job.ranks()}"


def check_run_ranks(program: str):
    def code(*args, **variables) -> int:
        return Job("run_ranks", 3, *args, **variables).wait()[0]

    assert code("/bin/sh", "-c", "exit $RANK") in (1, 2), "the first failure's exit code"
    # One that fails ends those that do not look.
    assert code("/bin/sh", "-c", "[ $RANK$WORLD_SIZE$LOCAL_RANK$LOCAL_WORLD_SIZE = 1313 ] && exit 7; exec sleep 60") == 7
    for _ in range(40):  # one is killed while the other ends
        ended, _, errors = Job("run_ranks", 2, "/bin/sh", "-c", "[ $RANK = 0 ] || kill -PIPE $$").wait()
        assert ended == 128 + signal.SIGPIPE and "rank 1 of 2 ended with code 141 (SIGPIPE)" in errors, (ended, errors)
    job = Job("run_ranks", 3, "/bin/sh", "-c", "trap 'echo heard; exit 0' TERM; echo here; while :; do sleep 0.05; done")
    for _ in range(3):
        assert job.process.stdout.readline() == "here\n"
    job.process.terminate()
    ended, lines, _ = job.wait()
    assert ended == 0 and lines == ["heard"] * 3, (ended, lines)
    left_over = dict(OMPI_COMM_WORLD_SIZE="8", SLURM_STEP_NUM_TASKS="8", RANK="7")
    ended, lines, errors = Job("run_ranks", 2, program, "--records", 100, **left_over).wait()
    assert ended == 0 and len(lines) == 100, errors
    for wrong in ["0", "/bin/true"], ["x", "/bin/true"], ["2"], [], ["2", "/no/such/program"]:
        done = subprocess.run([RUN_RANKS, *wrong], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 2 and done.stderr.startswith("run_ranks: ") and "Usage: run_ranks N PROGRAM" in done.stderr, done


def check_lines(program: str):
    """Checks that a rank writes its last line at once: others write to the same place."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # a write is a datagram
    with ours, theirs:
        code = subprocess.run([program, "--records", "x"], stderr=theirs, env=ENVIRONMENT, timeout=LIMIT).returncode
        line = ours.recv(4096).decode()
    assert code == 1 and line.startswith("14_order: --records takes a number") and line.endswith("\n"), line


def check_contradictions(launcher: str, program: str):
    code, lines, errors = Job(launcher, 2, program, "--records", 100, WORLD_SIZE="7").wait()
    assert code != 0 and not lines, (code, lines)
    assert "penstock: WORLD_SIZE=7 and OMPI_COMM_WORLD_SIZE=2 disagree about how many processes there are." in errors, errors


def main(launcher: str, program: str):
    check_records(launcher, program)
    for culprit, how in (0, signal.SIGKILL), (1, signal.SIGKILL), (2, signal.SIGTERM):
        check_killed(launcher, program, culprit, how)
    check_failed(launcher, program)
    check_stopped(launcher, program)
    if launcher == "run_ranks":
        check_run_ranks(program)
        check_lines(program)
    else:
        check_contradictions(launcher, program)


if sys.argv[1] == "mpirun" and not shutil.which("mpirun"):
    print("there is no mpirun")
    sys.exit(77)
try:
    main(sys.argv[1], os.path.realpath(sys.argv[2]))
except (AssertionError, subprocess.TimeoutExpired) as error:
    sys.exit(f"{sys.argv[1]}: {error}")
