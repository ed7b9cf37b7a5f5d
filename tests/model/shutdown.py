#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Searches shutdown.pml with spin: every run of every chain ends as it should, and each planted bug
is found.

usage: shutdown.py [--cc gcc] [--work DIR] [PART_OF_A_NAME]

Prints one line a search and one a planted bug, then a sum. Exits 0 only if no search found an error
or was cut short and every planted bug was found; 77 if there is no spin or no C compiler.
"""
import argparse
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

MODEL = pathlib.Path(__file__).resolve().parent / "shutdown.pml"
# Seconds of processor time a search, and MB.
LIMIT, MEMORY = 60, 4000

# Short chains get deep rings and many runs, the longest at least one of each.
CHAINS = {
    "2 stages, 2 runs": dict(STAGES=2, RUNS=2, MISHAPS=3, FINE=1),
    "2 stages, 2 workers": dict(STAGES=2, WORKERS=2, DEPTH=3),
    "3 stages, 2 workers": dict(STAGES=3, WORKERS=2, DEPTH=1, RECORDS=2, MISHAPS=1, KNOWN_SIZE=1),
    "3 stages, device": dict(STAGES=3, DEVICE=1, MISHAPS=1),
    "3 stages, device, 2 runs": dict(STAGES=3, DEVICE=1, DEPTH=1, RECORDS=2, RUNS=2),
    "4 stages, device": dict(STAGES=4, DEVICE=1, DEPTH=1, RECORDS=2, MISHAPS=1),
    "5 stages, device": dict(STAGES=5, DEVICE=1, DEPTH=1, RECORDS=2, MISHAPS=1, KNOWN_SIZE=1),
}
# All searches look for assertions that fail. Each also looks for one of two faults: threads that wait for ever, or runs
# that go on for ever. No fairness is assumed: no thread may loop without end.
SEARCHES = {
    "deadlock": (["-DSAFETY", "-DNOCLAIM"], []),
    "every run ends": ([], ["-a"]),
}
# The longest chain would take minutes: it is searched for deadlocks only. Without PENSTOCK_THOROUGH=1 in the
# environment it is left out, the other long ones are searched for deadlocks only, and every third bug is planted.
LONGEST = "5 stages, device"
LONG = [chain for chain in CHAINS if not chain.startswith("2")]
THOROUGH = os.environ.get("PENSTOCK_THOROUGH", "") not in ("", "0")

# The planted bug, its name in the model, the chain that shows it.
PLANTED = [
    ("a failing stage leaves its upstream ring open", "UPSTREAM_STAYS_OPEN", "3 stages, device"),
    ("the device thread reads its bell after it looked whether the run is over", "BELL_READ_LATE",
     "3 stages, device"),
    ("the end wakes nobody", "END_WAKES_NOBODY", "3 stages, device"),
    ("the consumer does not ring the bell at its end", "DRAINED_IS_NOT_RUNG", "3 stages, device"),
    ("a stop is noted and closes nothing", "STOP_CLOSES_NOTHING", "2 stages, 2 runs"),
    ("a stop does not ask whether anything runs", "STOP_AFTER_THE_RUN", "2 stages, 2 runs"),
    ("a stop is announced before it is there", "ANNOUNCED_EARLY", "2 stages, 2 runs"),
    ("the last error counts", "LAST_ERROR_COUNTS", "2 stages, 2 runs"),
    ("a second error does not wait for the rings to be closed", "SECOND_ERROR_CLOSES_NOTHING",
     "2 stages, 2 workers"),
    ("a lease dies before its error is known", "LEASE_DIES_FIRST", "2 stages, 2 workers"),
]


class Broken(Exception):
    """The search itself went wrong."""


def search(options, settings, compiling, running, optimized="-O1"):
    """Returns (states, depth, seconds of processor time, errors) of one search, which stops at the first error."""
    defines = [f"-D{name}={value}" for name, value in settings.items()]
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        for command in (["spin", *defines, "-a", MODEL],
                        [options.cc, optimized, "-w", f"-DMEMLIM={MEMORY}", *compiling, "-o", "pan", "pan.c"]):
            built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if built.returncode != 0:
                raise Broken(built.stdout[-2000:] + built.stderr[-2000:])
        began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        ran = subprocess.run(["./pan", "-m100000", *running], cwd=folder, capture_output=True, text=True,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT)))
        took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began
    if ran.returncode < 0:
        raise Broken(f"ended by signal {-ran.returncode}; not done after {LIMIT} s of processor time?")
    said = ran.stdout
    found = re.search(r"depth reached (\d+), errors: (\d+)\n\s*(\S+) states, stored", said)
    if not found or "Search not completed" in said and found[2] == "0" or "max search depth" in said:
        raise Broken(said[-2000:])
    return int(float(found[3])), int(found[1]), took, int(found[2])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--work", default=None)
    options = parser.parse_args()
    for tool in ("spin", options.cc):
        if not shutil.which(tool):
            print(f"shutdown.py: there is no {tool}")
            return 77
    chains = {name: settings for name, settings in CHAINS.items()
              if options.part in name and (THOROUGH or options.part or name != LONGEST)}
    planted = [bug for bug in PLANTED if options.part in bug[0] or options.part in bug[2]]
    if not options.part and not THOROUGH:
        planted = planted[::3]
    if not chains and not planted:
        sys.exit(f"shutdown.py: nothing is called '{options.part}'")
    states = errors = found = 0
    good = True
    print(f"{'stages':26}{'looked for':16}{'states':>12}{'depth':>8}{'seconds':>9}  result")
    for chain, settings in chains.items():
        for aim, (compiling, running) in SEARCHES.items():
            if aim != "deadlock" and chain in ([LONGEST] if THOROUGH else LONG):
                continue
            try:
                seen, depth, took, wrong = search(options, settings, compiling, running)
            except Broken as broken:
                print(f"{chain:26}{aim:16}BROKEN: {broken}", flush=True)
                good = False
                continue
            states += seen
            errors += wrong
            print(f"{chain:26}{aim:16}{seen:12}{depth:8}{took:9.1f}  {'RED' if wrong else 'ok'}", flush=True)
    for name, define, chain in planted:
        try:
            # Compiling takes longer here than searching.
            wrong = search(options, CHAINS[chain] | {define: 1}, *SEARCHES["deadlock"], "-O0")[3] != 0
        except Broken as broken:
            print(f"BROKEN {name}: {broken}", flush=True)
            good = False
            continue
        found += wrong
        print(f"{'found' if wrong else 'LIVES':6} {name}  [{chain}]", flush=True)
    print(f"{len(chains)} models, {states} states, {errors} errors; {found} of {len(planted)} planted bugs found")
    return 0 if good and not errors and found == len(planted) else 1


if __name__ == "__main__":
    sys.exit(main())
