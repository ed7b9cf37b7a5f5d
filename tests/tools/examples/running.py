# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""How the checks of examples run them."""
import math
import subprocess
import sys
from pathlib import Path


LIMIT = 100


def run(program: str, *args, cwd: Path | None = None) -> str:
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=LIMIT, cwd=cwd)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    return done.stdout


def refused(program: str, *args, says: list, by: str = "", cwd: Path | None = None):
    """Runs it with what it must refuse in these words; it prints nothing else. With `by`, that is one line which begins so."""
    failed = subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=LIMIT, cwd=cwd)
    assert failed.returncode == 1 and not failed.stdout and all(str(words) in failed.stderr for words in says), (args, failed)
    assert not by or (failed.stderr.startswith(by) and failed.stderr.count("\n") == 1), (args, failed)


def run_on_gpu(program: str, *args) -> str:
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=LIMIT) if program else None
    if not done or (done.returncode == 1 and "this process has no GPU" in done.stderr):
        print(done.stderr if done else "there is no cuBLAS")
        sys.exit(77)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    return done.stdout


def check_full(program: str, *args):
    """What cannot be written to standard output is an error, not lost."""
    with open("/dev/full", "w", encoding="ascii") as full:
        failed = subprocess.run([program, *map(str, args)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    assert failed.returncode == 1 and "cannot write to standard output" in failed.stderr, failed


def is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def records_in_words(count: int) -> str:
    """Returns how a Report begins."""
    return f"{count} record" + ("," if count == 1 else "s,")


def noise(n: int) -> float:
    n = (n + 1) * 0x9E3779B97F4A7C15 % 2**64
    n = (n ^ n >> 32) * 0xD6E8FEB86659FD93 % 2**64
    return (n >> 40) / 2**23 - 1


def mixed(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def splitmix(seed: int, i: int) -> int:
    return mixed((seed + i * 0x9E3779B97F4A7C15) % 2**64)
