#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Faults in the system's own calls, which libfiu injects before the C library: a second look at what faulty_io.hpp
tests.

usage: check_fiu.py HISTOGRAM WEIGHTS    the examples 02_histogram and 18_load_weights

Short reads and interruptions must go unnoticed, failures must be one error that names the file, also where one of several
pipelines fails and the others are to stop. A loop that reads each piece once must be seen to fall short, or nothing was
injected.
"""
import os
import subprocess
import sys
import tempfile

NAIVE = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
print(sum(len(os.pread(file, 4096, i * 4096)) < 4096 for i in range(1000)))
"""
SHORT = "enable_random name=posix/io/rw/pread/reduce,probability=0.3"
INTERRUPTED = "enable_random name=posix/io/rw/pread,probability=0.2,failinfo=4"
SOME_BROKEN = "enable_random name=posix/io/rw/pread,probability=0.1,failinfo=5"
BROKEN = "enable_random name=posix/io/rw/pread,probability=1,failinfo=5"
LOCKED = "enable name=posix/io/oc/open,failinfo=13"


def run(command, fault=None):
    before = ["fiu-run", "-x", "-c", fault] if fault else []
    return subprocess.run([*before, *command], capture_output=True, text=True, timeout=120)


def main(program: str, weights: str) -> int:
    failures = []

    def check(what: str, right: bool, ran):
        print(("ok      " if right else "FAILED  ") + what)
        if not right:
            failures.append(what)
            print(f"exit code {ran.returncode}\n{ran.stdout[-500:]}\n{ran.stderr[-500:]}")

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "records.bin")
        with open(path, "wb") as file:
            file.write(os.urandom(20_000_000))
        command = [program, "--device", "host", "--json", path]
        counts = lambda ran: ran.stdout.partition('"counts": ')[2].partition("]")[0]

        naive = run([sys.executable, "-c", NAIVE, path], SHORT)
        check("a loop that reads once falls short", int(naive.stdout or 0) > 100, naive)
        whole = run(command)
        check("without a fault", whole.returncode == 0 and counts(whole) != "", whole)
        for what, fault in {"three of ten reads are short": SHORT, "one of five is interrupted": INTERRUPTED}.items():
            ran = run(command, fault)
            check(what, ran.returncode == 0 and counts(ran) == counts(whole), ran)
        for what, fault, says in [("every read fails", BROKEN, "Input/output error"),
                                  ("the file cannot be opened", LOCKED, "Permission denied")]:
            ran = run(command, fault)
            check(what, ran.returncode == 1 and path in ran.stderr and says in ran.stderr and not ran.stdout, ran)

        path = os.path.join(folder, "model.safetensors")
        size = 20_000_000
        header = b'{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
        with open(path, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header + os.urandom(size))
        command = [weights, "--device", "host", "--gpus", "3", "--piece", "200000", path]
        whole = run(command)
        check("three devices without a fault", whole.returncode == 0, whole)
        of_readers = 0
        for _ in range(8):  # some fail at the header
            ran = run(command, SOME_BROKEN)
            of_readers += "Reader" in ran.stderr
            check("a read of one of three devices fails", ran.returncode == 1 and path in ran.stderr and not ran.stdout
                  and ran.stderr.count("\n") == 1 and "Input/output error" in ran.stderr, ran)
        check("a Reader's read has failed", of_readers > 0, ran)
    return len(failures)


sys.exit(main(sys.argv[1], sys.argv[2]))
