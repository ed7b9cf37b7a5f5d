#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""What does penstock cost to compile? In CPU seconds, compiled only and not linked, against a main that includes the
standard, system and CUDA headers that the other includes. Interleaved; the median of the rounds' ratios. For g++ and
nvcc a main that includes a header of penstock's, without optimisation; for g++ README's program too, with -O2.

bench/compile_time.py [--rounds N] [--cuda FOLDER]
"""
import argparse
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = ROOT / "include"
HELLO = ROOT / "examples" / "01_hello_pipeline.cpp"
LINE = re.compile(r"^#include <([^>]+)>", re.MULTILINE)


def others(text: str, seen: set[str]) -> set[str]:
    """The headers that are not penstock's among all that a file with this text includes."""
    found = set()
    for name in LINE.findall(text):
        if not (INCLUDE / name).exists():
            found.add(name)
        elif name not in seen:
            seen.add(name)
            found |= others((INCLUDE / name).read_text(), seen)
    return found


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compare(compiler: str, command: list[str], what: str, text: str, rounds: int):
    """Prints what the file with this text takes with that command."""
    with tempfile.TemporaryDirectory() as folder:
        suffix = ".cu" if compiler == "nvcc" else ".cpp"
        files = [Path(folder) / (name + suffix) for name in ("without", "with")]
        # What cudart's own header is for, and nvcc includes unasked.
        names = {name.replace("cuda_runtime_api.h", "cuda_runtime.h") for name in others(text, set())}
        files[0].write_text("".join(f"#include <{name}>\n" for name in sorted(names)) + "int main() {}\n")
        files[1].write_text(text)
        build = [*command, "-std=c++20", f"-I{INCLUDE}", "-c", "-o", f"{folder}/out.o"]
        taken = [[cpu_seconds([*build, str(file)]) for file in files] for _ in range(rounds)]
    without, whole = (statistics.median(column) for column in zip(*taken))
    ratios = sorted(b / a for a, b in taken)
    print(f"{compiler:10}{what:24}{without:8.2f}s{whole:8.2f}s{statistics.median(ratios):8.2f}   "
          + " ".join(f"{ratio:.2f}" for ratio in ratios), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cuda", default="/usr/local/cuda/include", help="where cuda_runtime.h is")
    options = parser.parse_args()
    compilers = {"g++": ["g++", "-isystem", options.cuda], "nvcc": ["nvcc"]}
    print(f"{'compiler':10}{'what':24}{'without':>9}{'with':>9}{'ratio':>8}   ratios of {options.rounds} rounds")
    for compiler, command in compilers.items():
        if not shutil.which(compiler):
            print(f"{compiler:10}not there")
            continue
        for header in ["penstock/penstock.hpp", "penstock/cuda.hpp"]:
            main_alone = f"#include <{header}>\nint main() {{}}\n"
            compare(compiler, [*command, "-O0"], header, main_alone, options.rounds)
    if shutil.which("g++"):
        compare("g++ -O2", ["g++", "-O2"], HELLO.name, HELLO.read_text(), options.rounds)


main()
