# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Makes single headers by amalgamate.py, and compiles and runs programs in folders that have nothing else of penstock.

check_amalgamate.py --work FOLDER COMPILER     g++, clang++ or nvcc; the exit code is 77 if it is missing
"""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT = 280
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wsign-conversion", "-Wnull-dereference", "-Werror"]


def run(*command, fails=False) -> str:
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
    print(f"$ {' '.join(map(str, command))}\n{done.stdout}")
    assert (done.returncode != 0) == fails, f"{command[0]} ended with exit code {done.returncode}"
    return done.stdout


def amalgamate(*words, fails=False) -> str:
    return run(sys.executable, HERE / "amalgamate.py", *words, fails=fails)


def single(include: Path, name: str, *headers: str) -> Path:
    """Makes a single header, the only file below `include`, and checks its text."""
    shutil.rmtree(include, ignore_errors=True)
    file = include / name
    amalgamate("--out", file, *headers)
    text = file.read_text()
    for path in (ROOT / "include/penstock").rglob("*.[hc][pu][ph]"):
        header = str(path.relative_to(ROOT / "include"))
        assert text.count(f"\n// {header}\n\n") <= 1, f"{header} is there more than once"
    for header in headers:
        assert f"\n// {header}\n\n" in text, f"{header} is missing"
    assert not re.search(r"^\s*#\s*include\s*[<\"]penstock/", text, re.MULTILINE), "it includes another of penstock's headers"
    assert text.count("#pragma once") == 1 and text.count("// SPDX-License-Identifier: Apache-2.0\n") == 1, \
        "what stands at the top of each header is there more than once"
    version = re.search(r'PENSTOCK_VERSION "(.+)"', (ROOT / "include/penstock/version.hpp").read_text())[1]
    assert re.search(rf"^// penstock {re.escape(version)}, (commit [0-9a-f]{{40}}|of no known commit)", text, re.MULTILINE), "no version"
    amalgamate("--out", include.parent / "again", *headers)
    assert (include.parent / "again").read_text() == text, "the same tree gives two texts"
    return file


def foreign(work: Path, kind: str) -> Path:
    """Returns a copy of tests/install/host or gpu, a program of two files in a folder of its own."""
    folder = work / kind
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "tests/install" / kind, folder)
    return folder


def refuses_wrong_use():
    """A header that comes first under a condition, and a name of no header."""
    assert "name that one first" in amalgamate("penstock/with_device.hpp", "penstock/cuda.hpp", fails=True)
    assert "there is no header" in amalgamate("penstock/pennstock.hpp", fails=True)


def on_host(work: Path, cxx: str):
    include = work / "include"
    single(include, "penstock/penstock.hpp", "penstock/penstock.hpp")
    build = [cxx, "-std=c++20", "-O1", *STRICT, f"-I{include}", "-pthread"]
    run(*build, ROOT / "examples/01_hello_pipeline.cpp", "-o", work / "hello")
    run(sys.executable, HERE / "check_example.py", "01_hello_pipeline", work / "hello")
    folder = foreign(work, "host")
    # One source has the part that the others lack.
    for name, *part in [("main",), ("other", "-DPENSTOCK_IMPLEMENTATION")]:
        run(*build, "-DPENSTOCK_COMPILED", *part, "-c", folder / f"{name}.cpp", "-o", folder / f"{name}.o")
    run(*build, folder / "main.o", folder / "other.o", "-o", folder / "mine")
    assert "counted 100000\n" in run(folder / "mine")
    twice = folder / "twice.cpp"
    shutil.copyfile(include / "penstock/penstock.hpp", folder / "again.hpp")
    twice.write_text('#include "again.hpp"\n#include <penstock/penstock.hpp>\n')
    said = run(*build, "-fsyntax-only", twice, fails=True)
    assert "another header of penstock came before" in said and "redefinition" not in said, said
    twice.write_text('#include "again.hpp"\n#include <penstock/formats/tar.hpp>\n')
    said = run(cxx, "-std=c++20", f"-I{ROOT / 'include'}", "-fsyntax-only", twice, fails=True)
    assert "name this header too" in said and "redefinition" not in said, said


def with_nvcc(work: Path, nvcc: str):
    """One file for g++ and one for nvcc, with different single headers, in one program."""
    folder = foreign(work, "gpu")
    warnings = ["-Werror=all-warnings", "-Xcompiler=-Wall,-Wextra,-Werror"]
    for source, *headers in [("main.cpp", "penstock/cuda.hpp"), ("count.cu", "penstock/cuda.hpp", "penstock/cuda/algorithm.cuh")]:
        include = work / f"include_{source}"
        single(include, "penstock/cuda.hpp", *headers)
        text = (folder / source).read_text()
        (folder / source).write_text(text.replace("#include <penstock/cuda/algorithm.cuh>\n", ""))
        run(nvcc, "-std=c++20", *warnings, f"-I{include}", "-c", folder / source, "-o", folder / f"{source}.o")
    run(nvcc, folder / "main.cpp.o", folder / "count.cu.o", "-o", folder / "mine")
    said = run(folder / "mine")
    assert "counted 100000\n" in said or "this process has no GPU" in said, said


args = argparse.ArgumentParser()
args.add_argument("compiler")
args.add_argument("--work", type=Path, required=True)
args = args.parse_args()
if not shutil.which(args.compiler) or subprocess.run([args.compiler, "--version"], capture_output=True).returncode != 0:
    print(f"there is no {args.compiler} that runs")
    sys.exit(77)
work = args.work.resolve()
work.mkdir(parents=True, exist_ok=True)
try:
    refuses_wrong_use()
    (with_nvcc if Path(args.compiler).name.startswith("nvcc") else on_host)(work, args.compiler)
except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
    sys.exit(f"{args.compiler}: {error}")
