# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Trains examples/gpt by several ranks, and checks that they train what one process does, on any number of them.

check_gpt_ranks.py PROGRAM

Losses are compared to 1e-5 of them: ranks add up gradients part by part, and so in another order than one process. The
position, and losses of equally many ranks, must be the same to the last bit.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rank_jobs import ENVIRONMENT, LIMIT, Job

STEPS = 12
BATCH = 12  # of all ranks


class Trial:
    def __init__(self, program: str, folder: Path):
        self.program = program
        self.folder = folder
        words = "ranks read their own part of a text and train one model together until it knows some words".split()
        self.text = folder / "text"
        self.text.write_text(" ".join(random.Random(3).choices(words, k=1_500)))

    def arguments(self, ranks: int, *more) -> list:
        return [self.program, "--data", self.text, "--device", "host", "--context", "8", "--warmup", "5", "--dropout", "0.1", "--eval-batches", "2",
                "--steps", STEPS, "--batch", BATCH // ranks, "--json", *more]

    def job(self, ranks: int, *more, launcher: str = "run_ranks") -> Job:
        return Job(launcher, ranks, *self.arguments(ranks, *more))

    def trained(self, ranks: int, *more, launcher: str = "run_ranks") -> dict:
        code, lines, errors = self.job(ranks, *more, launcher=launcher).wait()
        assert code == 0 and not (errors and launcher == "run_ranks"), f"{ranks} ranks, {more}: exit code {code}: {errors}"
        assert len([line for line in lines if line.startswith("{")]) == 1 and lines[-1].startswith("{"), lines
        return json.loads(lines[-1])


def check_near(found: dict, wanted: dict, what: str):
    assert found["position"] == wanted["position"], f"{what}: {found['position']}, not {wanted['position']}"
    count = len(found["loss"])
    pairs = list(zip([*found["loss"], found["val_loss"]], [*wanted["loss"][-count:], wanted["val_loss"]], strict=True))
    worst = max(abs(one - other) / other for one, other in pairs)
    assert worst < 1e-5, f"{what}: a loss is off by {worst:.1e}: {pairs}"


def check_losses(trial: Trial) -> dict:
    alone = trial.trained(1)
    assert len(alone["loss"]) == STEPS and alone["loss"][-1] < 0.95 * alone["loss"][0], alone
    for ranks, more in (3, ["--events", "none"]), (1, ["--micro-batches", "3"]), (2, ["--micro-batches", "2"]):
        check_near(trial.trained(ranks, *more), alone, f"{ranks} ranks, {more}")
    two = trial.trained(2)
    check_near(two, alone, "2 ranks")
    for events in "none", "all":
        assert trial.trained(2, "--events", events)["loss"] == two["loss"], events
    if shutil.which("mpirun"):
        assert trial.trained(2, launcher="mpirun")["loss"] == two["loss"]
    uncut = trial.trained(2, "--clip", "0")
    assert trial.trained(2, "--clip", "0", "--events", "optimiser=overlapped")["loss"] == uncut["loss"] != two["loss"]
    return alone


def check_files(trial: Trial):
    csv, svg = trial.folder / "losses.csv", trial.folder / "losses.svg"
    job = trial.job(3, "--csv", csv, "--svg", svg, "--eval-every", "5")
    code, lines, errors = job.wait()
    rows = [row.split(",") for row in csv.read_text().splitlines()[1:]]
    assert code == 0 and [int(row[0]) for row in rows] == list(range(1, STEPS + 1)), (rows, errors)
    losses = json.loads(lines[-1])["loss"]
    assert lines[0].endswith("; on host"), lines
    assert all(abs(float(row[1]) - loss) < 1e-6 for row, loss in zip(rows, losses, strict=True)), rows
    assert [line.split(":")[0] for line in lines[1:-1]] == ["step 5", "step 10", "step 12"] and svg.stat().st_size > 0, lines


def check_resumed(trial: Trial, alone: dict):
    """Kills one of two ranks, and goes on with one, two and three."""
    saved = trial.folder / "saved"
    job = trial.job(2, "--steps", "1000000", "--checkpoint", saved, "--checkpoint-every", "4")
    until = time.monotonic() + LIMIT
    while not saved.exists() and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(job.ranks()[0], signal.SIGKILL)  # the one that writes; the other ends with it
    assert job.wait()[0] != 0
    stopped = int(re.search(rb"steps=(\d+)\npasses=", saved.read_bytes())[1])
    if stopped >= STEPS:
        trial.trained(2, "--steps", 8, "--checkpoint", saved)  # a fast machine
        stopped = 8
    for ranks in 1, 2, 3:
        rest = trial.trained(ranks, "--resume", saved)
        assert len(rest["loss"]) == STEPS - stopped, (len(rest["loss"]), stopped)
        check_near(rest, alone, f"{ranks} ranks behind step {stopped} of 2")
    code, lines, errors = trial.job(2, "--resume", saved, "--batch", "12").wait()
    assert code != 0 and not lines and "was trained with --batch 12, and these 2 ranks have 24 together" in errors, (lines, errors)


def said(errors: str) -> str:
    """Returns the line of the ranks, which is the same if several have said one."""
    lines = {line for line in errors.splitlines() if not line.startswith("run_ranks: ")}
    assert len(lines) == 1, errors
    return lines.pop()


def end_one(trial: Trial, launcher: str, how: signal.Signals) -> tuple[int, str, float]:
    """Gives one of three ranks at work this signal. Returns how all end: exit code, what they say, and after how many seconds."""
    endless = trial.folder / "endless"
    endless.unlink(missing_ok=True)
    job = trial.job(3, "--steps", "1000000", "--csv", endless, "--stall", "2", launcher=launcher)
    until = time.monotonic() + LIMIT
    while not endless.exists() and time.monotonic() < until:
        time.sleep(0.01)
    began = time.monotonic()
    os.kill(job.ranks()[1], how)
    code, _, errors = job.wait()
    assert not job.ranks(), job.ranks()
    return code, errors, time.monotonic() - began


def check_failures(trial: Trial):
    for launcher in ["run_ranks", *(["mpirun"] if shutil.which("mpirun") else [])]:
        code, errors, took = end_one(trial, launcher, signal.SIGKILL)
        assert code == 128 + signal.SIGKILL and took < 20, (launcher, code, errors, took)
        code, errors, took = end_one(trial, launcher, signal.SIGSTOP)  # no launcher sees that
        assert code == 1 and " of 3 has waited 2 s for the others: one is gone, or stopped." in errors and 2 < took < 20, (launcher, code, errors, took)
        print(f"{launcher}, --stall 2: all have ended {took:.1f} s after a rank was stopped")

    def fails(ranks: int, script: str, *more) -> str:
        command = [str(word) for word in trial.arguments(ranks, *more)]
        code, lines, errors = Job("run_ranks", ranks, "/bin/sh", "-c", script + '; exec "$0" "$@" $MORE', *command).wait()
        assert code == 1 and not lines, (code, lines)
        return said(errors)

    why = fails(3, '[ "$RANK" = 2 ] && MORE="--data /no/such/file"')
    assert why.startswith("train: ") and "/no/such/file" in why, why
    why = fails(2, 'MORE="--steps 1$RANK"')
    assert "the options, the data or the checkpoint are not those of rank 0: give all ranks the same" in why, why
    text = trial.text.read_text()
    for other in text.replace("a", "A", 3), text[::-1]:  # of another alphabet, and of the same
        for rank, content in enumerate([text, other]):
            (trial.folder / str(rank)).mkdir(exist_ok=True)
            (trial.folder / str(rank) / "text").write_text(content)
        why = fails(2, f'cd "{trial.folder}/$RANK" && MORE="--data text"')
        assert "the data or the checkpoint are not those of rank 0" in why, why
    for gradients in trial.folder / "gradients", "/no/such/folder/gradients":  # refused before anything is made
        why = fails(2, ":", "--dump-gradients", gradients)
        assert "here are 2 ranks: start one" in why, why
        assert not [path for path in trial.folder.iterdir() if "gradients" in path.name], list(trial.folder.iterdir())

    for variables, what in (dict(RANK="5", WORLD_SIZE="2", LOCAL_RANK="0"), "RANK=5 is no rank of WORLD_SIZE=2"), (dict(RANK="0"), "RANK=0 without WORLD_SIZE"):
        done = subprocess.run([str(word) for word in trial.arguments(1)], capture_output=True, text=True, timeout=LIMIT, env=ENVIRONMENT | variables)
        assert done.returncode == 1 and not done.stdout and what in done.stderr and done.stderr.count("\n") == 1, done


with tempfile.TemporaryDirectory() as name:
    try:
        trial = Trial(os.path.realpath(sys.argv[1]), Path(name))
        whole = check_losses(trial)
        check_files(trial)
        check_resumed(trial, whole)
        check_failures(trial)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        sys.exit(f"train by ranks: {error}")
