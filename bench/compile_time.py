#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""What does including penstock cost to compile? For g++ and nvcc: CPU seconds of a main that includes a header of
penstock's, against a main that includes the standard, system and CUDA headers that the header includes. Rounds are
interleaved; the result is the median of their ratios.

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

INCLUDE = Path(__file__).resolve().parents[1] / "include"
LINE = re.compile(r"^#include <([^>]+)>", re.MULTILINE)


def others(header: str, seen: set[str]) -> set[str]:
    """Returns the headers that are not penstock's among all that `header` includes."""
    found = set()
    for name in LINE.findall((INCLUDE / header).read_text()):
        if not (INCLUDE / name).exists():
            found.add(name)
        elif name not in seen:
            seen.add(name)
            found |= others(name, seen)
    return found


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cuda", default="/usr/local/cuda/include", help="where cuda_runtime.h is")
    options = parser.parse_args()
    compilers = {"g++": ["g++", "-isystem", options.cuda], "nvcc": ["nvcc"]}
    print(f"{'compiler':10}{'header':24}{'without':>9}{'with':>9}{'ratio':>8}   ratios of {options.rounds} rounds")
    for compiler, command in compilers.items():
        if not shutil.which(compiler):
            print(f"{compiler:10}not there")
            continue
        for header in ["penstock/penstock.hpp", "penstock/cuda.hpp"]:
            with tempfile.TemporaryDirectory() as folder:
                suffix = ".cu" if compiler == "nvcc" else ".cpp"
                files = [Path(folder) / (name + suffix) for name in ("without", "with")]
                # cuda_runtime.h includes cuda_runtime_api.h, and nvcc includes it unasked.
                names = {name.replace("cuda_runtime_api.h", "cuda_runtime.h") for name in others(header, set())}
                files[0].write_text("".join(f"#include <{name}>\n" for name in sorted(names)) + "int main() {}\n")
                files[1].write_text(f"#include <{header}>\nint main() {{}}\n")
                build = [*command, "-std=c++20", "-O0", f"-I{INCLUDE}", "-c", "-o", f"{folder}/out.o"]
                rounds = [[cpu_seconds([*build, str(file)]) for file in files] for _ in range(options.rounds)]
            without, whole = (statistics.median(column) for column in zip(*rounds))
            ratios = sorted(b / a for a, b in rounds)
            print(f"{compiler:10}{header:24}{without:8.2f}s{whole:8.2f}s{statistics.median(ratios):8.2f}   "
                  + " ".join(f"{ratio:.2f}" for ratio in ratios), flush=True)


main()
