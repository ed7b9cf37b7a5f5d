#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Tokens a second of GPT-2 124M, 64 sequences of 1024 tokens a step: train with each cure, llm.c and PyTorch.

bench/gpt/tokens_per_second.py --train PROGRAM [--llm-c PROGRAM] [--no-pytorch] [--data FILE] [--steps N]
                               [--repetitions N] [--out JSON] [--config NAME --batch N --context N]

With another --config only train runs.

Runs train with no cure, with each cure alone, with all and with the fastest; llm.c's train_gpt2cu, built without cuDNN,
with recomputed GELU and without; and pytorch_tokens_per_second.py, eager and compiled. All have the same tokens: random
ones, with llm.c's header, if there is no --data. Runs of all contenders alternate in random order, a process each, and
the table has the medians. Each train then runs once with --profile, for what CUPTI sees: idle time, syncs and launches,
which the timed runs leave alone. A contender that fails is named, with what it said last, and the others go on.
"""
import argparse
import json
import os
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
CURES = ["pinned", "prefetch", "pinned,workers", "graph", "layout", "tensor_cores", "recompute", "optimiser"]
WATCHED = ["idle", "syncs", "launches"]
EVENTS = ["none", *CURES, "all", "fastest"]


@dataclass
class Contender:
    name: str
    command: list[str]
    read: object  # makes the result of what the command printed
    rows: list[dict] = field(default_factory=list)
    watched: dict = field(default_factory=dict)  # what a run with --profile says in its last line
    profile: str = ""  # and before it
    failure: str = ""


def last_json(text: str) -> dict:
    return json.loads(text.strip().splitlines()[-1])


def of_llm_c(text: str, tokens: int) -> dict:
    """Takes the median of the steps behind the first ten, as the machine warms up in those."""
    times = [float(ms) for ms in re.findall(r"^step +\d+/\d+ .*\| ([\d.]+) ms \|", text, re.MULTILINE)]
    losses = [float(loss) for loss in re.findall(r"^step +\d+/\d+ \| loss ([\d.]+)", text, re.MULTILINE)]
    if len(times) <= 10:
        raise ValueError("fewer than eleven steps were printed")
    return {"tokens_per_s": tokens / (statistics.median(times[10:]) / 1e3), "loss": losses}


def made_tokens(path: str, count: int):
    """Writes random tokens behind llm.c's header."""
    numbers = random.Random(1)
    with open(path, "wb") as file:
        file.write(struct.pack("<3i", 20240520, 1, count).ljust(1024, b"\0"))
        left = count
        while left:
            some = min(left, 1 << 16)
            file.write(struct.pack(f"<{some}H", *(numbers.randrange(50257) for _ in range(some))))
            left -= some


def contenders(args: argparse.Namespace) -> list[Contender]:
    steps, batch, context = str(args.steps), str(args.batch), str(args.context)
    tokens = args.batch * args.context
    all_of_them = [Contender(f"train {events}", [args.train, "--config", args.config, "--data", args.data, "--batch", batch,
                                                 "--context", context, "--dropout", "0", "--steps", steps,
                                                 "--eval-every", "0", "--device", "cuda", "--events", events, "--json"],
                             last_json) for events in args.events]
    if args.config != "124M":
        return all_of_them
    if args.llm_c:
        all_of_them += [Contender(f"llm.c -r {r}", [args.llm_c, "-i", args.data, "-j", args.data, "-e", "d12", "-b", batch,
                                                    "-t", context, "-d", str(tokens), "-r", r, "-x", steps,
                                                    "-v", "1000000", "-m", "1", "-s", "0"], lambda text: of_llm_c(text, tokens))
                        for r in ("0", "1")]
    if args.pytorch:
        script = [sys.executable, str(HERE / "pytorch_tokens_per_second.py"), "--data", args.data, "--batch", batch,
                  "--steps", steps]
        all_of_them += [Contender("PyTorch eager", script, last_json),
                        Contender("PyTorch compiled", [*script, "--compile"], last_json)]
    return all_of_them


def run(contender: Contender, limit_s: float):
    try:
        done = subprocess.run(contender.command, capture_output=True, text=True, timeout=limit_s)
        if done.returncode:
            raise ValueError(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
        contender.rows.append(contender.read(done.stdout))
        print(f"{contender.name:24} {contender.rows[-1]['tokens_per_s']:12.0f} tokens/s", flush=True)
    except (OSError, ValueError, LookupError, subprocess.TimeoutExpired) as error:
        contender.failure = str(error)
        print(f"{contender.name:24} failed: {error}", flush=True)


def watch(contender: Contender, limit_s: float):
    """Runs it once more, with --profile."""
    try:
        done = subprocess.run([*contender.command, "--profile"], capture_output=True, text=True, timeout=limit_s, check=True)
        contender.watched = last_json(done.stdout)
        contender.profile = done.stdout.strip().rpartition("\n")[0]
    except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        contender.failure = f"with --profile: {error}"
        print(f"{contender.name:24} failed {contender.failure}", flush=True)


def median(rows: list[dict], key: str) -> float | None:
    values = [row[key] for row in rows if row.get(key) is not None]
    return statistics.median(values) if values else None


def print_table(all_of_them: list[Contender]):
    keys = {"tokens_per_s": "tokens/s", "idle": "idle", "wait_share": "waiting", "syncs": "syncs", "launches": "launches"}
    print("\n| | " + " | ".join(keys.values()) + " |\n| --- |" + " --- |" * len(keys))
    for contender in all_of_them:
        cells = []
        for key in keys:
            value = contender.watched.get(key) if key in WATCHED else median(contender.rows, key)
            cells.append("" if value is None else f"{value * 100:.1f} %" if key in ("idle", "wait_share") else f"{value:,.0f}")
        print(f"| {contender.name} | " + " | ".join(cells) + " |")
    for contender in all_of_them:
        if contender.failure:
            print(f"{contender.name} failed: {contender.failure}")


def first_line(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip().partition("\n")[0]
    except OSError:
        return "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", required=True)
    parser.add_argument("--llm-c")
    parser.add_argument("--no-pytorch", dest="pytorch", action="store_false")
    parser.add_argument("--data")
    parser.add_argument("--events", nargs="+", default=EVENTS)
    parser.add_argument("--config", default="124M")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600, help="seconds that one run may take")
    parser.add_argument("--out")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not args.data:
            args.data = os.path.join(folder, "tokens.bin")
            made_tokens(args.data, max(args.steps + 20, 150) * args.batch * args.context)
        all_of_them = contenders(args)
        rounds = [contender for contender in all_of_them for _ in range(args.repetitions)]
        random.Random(2).shuffle(rounds)
        for contender in rounds:
            run(contender, args.limit)
        for contender in all_of_them:
            if contender.rows and "--events" in contender.command:
                watch(contender, args.limit)
    print_table(all_of_them)
    if args.out:
        context = {"date": datetime.now().astimezone().isoformat(timespec="seconds"), "executable": "tokens_per_second.py",
                   "gpu": first_line(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]),
                   "num_cpus": os.cpu_count(), "commit": os.environ.get("PENSTOCK_COMMIT", "unknown"),
                   "config": args.config, "batch": args.batch, "context": args.context, "steps": args.steps}
        Path(args.out).write_text(json.dumps({"context": context, "runs": [
            {"name": contender.name, "command": [word.replace(str(HERE), "bench/gpt") for word in contender.command], "rows": contender.rows, "watched": contender.watched,
             "profile": contender.profile, "failure": contender.failure}
            for contender in all_of_them]}, indent=1), encoding="utf-8")
    sys.exit(any(contender.failure for contender in all_of_them))


main()
