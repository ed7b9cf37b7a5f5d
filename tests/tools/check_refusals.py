# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a compiler refuses each mistake in tests/compile_fail, and says what is wrong and how to mend it.

check_refusals.py COMPILER ROOT --work FOLDER [NAME…]; exits with 77 (skipped) where there is no such compiler.

Each file there is a small program, wrong if PENSTOCK_REFUSED is defined and right if not. The right one must compile
without a word. The wrong one must not; its first error must be penstock's own, or that of a deleted function, and match
the regular expression in the file's line `// refused: …`; and all that the compiler says must be a few lines. g++ and
clang++ leave the .cu files out where there is no nvcc, whose headers these need. Without PENSTOCK_THOROUGH=1 in the
environment and without names, each of the three compilers is shown others of the mistakes: nvcc, which takes longest, a
sixth.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

MOST_LINES = 12
REFUSED = re.compile(r"^// refused: (.+)$", re.MULTILINE)
OURS = re.compile(r"error: .*(penstock: |deleted (member )?function|deleted constructor)")
CRASH = re.compile(r"internal (compiler )?error|PLEASE submit a bug report")


@dataclass
class Said:
    code: int
    text: str

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    def quoted(self) -> str:
        return "".join(f"    {line}\n" for line in self.text.splitlines())


class Compiler:
    def __init__(self, command: str, root: Path, work: Path, cuda: Path | None):
        self.nvcc = "nvcc" in Path(command).name
        self.base = [command, "-std=c++20", f"-I{root / 'include'}"]
        self.header: list[str] = []
        # A main in a namespace must return something, as the others need not.
        self.many_mains = ["-diag-suppress=940"] if self.nvcc else ["-Wno-return-type"]
        if self.nvcc:
            # The device pass alone reads the whole program, and nothing comes before it.
            self.base += ["-Xcompiler=-Wall,-Wextra,-Wshadow", "-Werror=all-warnings", "-ptx", "-o", os.devnull]
            return
        self.base += ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow"]
        if cuda:
            self.base += ["-isystem", str(cuda)]
        self.precompile(work)
        self.base.append("-fsyntax-only")

    # Most of the time is the headers'. What the compiler says is the same, but for a line more of clang++.
    def precompile(self, work: Path):
        header = work / "precompiled.hpp"
        header.write_text("#include <penstock/penstock.hpp>\n")
        said = self.run("-x", "c++-header", header, "-o", f"{header}.gch")
        if said.code != 0:
            sys.exit(f"penstock/penstock.hpp does not compile:\n{said.text}")
        self.header = ["-include", str(header)]

    def run(self, *args) -> Said:
        done = subprocess.run([*self.base, *self.header, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=300)
        return Said(done.returncode, done.stdout)

    def compile(self, source: Path, *args) -> Said:
        return self.run(*args, "-x", "cu" if self.nvcc else "c++", source)


def wrong_with(path: Path, said: Said) -> list[str]:
    """What is not as it should be in what a compiler said of a refused program."""
    if said.code == 0:
        return ["it compiles"]
    errors = [line for line in said.text.splitlines() if "error: " in line]
    wanted = REFUSED.findall(path.read_text())
    wrong = []
    if said.code not in (1, 2) or CRASH.search(said.text):
        wrong.append(f"the compiler broke down, exit code {said.code}")
    if not errors or not OURS.search(errors[0]):
        wrong.append("the first error is not penstock's")
    if not wanted:
        wrong.append("the file has no line `// refused: …`")
    wrong += [f"the first error does not match {text!r}" for text in wanted if errors and not re.search(text, errors[0])]
    if said.lines > MOST_LINES:
        wrong.append(f"more than {MOST_LINES} lines")
    return wrong


def all_right_ones(files: list[Path]) -> str:
    """All programs as one, each in a namespace of its own, for a compiler to read the headers once."""
    includes = sorted({line for path in files for line in re.findall("^#include .+$", path.read_text(), re.MULTILINE)})
    programs = [f'namespace {path.stem} {{\n#include "{path.resolve()}"\n}}' for path in files]
    return "\n".join([*includes, *programs, ""])


def main() -> int:
    args = argparse.ArgumentParser()
    args.add_argument("compiler")
    args.add_argument("root", type=Path)
    args.add_argument("--work", type=Path, required=True)
    args.add_argument("names", nargs="*", metavar="NAME")
    args = args.parse_intermixed_args()
    if not shutil.which(args.compiler):
        print(f"there is no {args.compiler}")
        return 77
    args.work.mkdir(parents=True, exist_ok=True)
    nvcc = shutil.which("nvcc")
    cuda = Path(nvcc).resolve().parents[1] / "include" if nvcc else None
    compiler = Compiler(args.compiler, args.root, args.work, cuda)
    kinds = {".cpp", ".cu"} if cuda else {".cpp"}
    files = [path for path in sorted((args.root / "tests" / "compile_fail").iterdir())
             if path.suffix in kinds and (not args.names or path.stem in args.names)]
    if not files:
        sys.exit("there is nothing in tests/compile_fail")
    if not args.names and os.environ.get("PENSTOCK_THOROUGH", "") in ("", "0"):
        sixths = [5] if compiler.nvcc else [1, 2, 4] if "clang" in args.compiler else [0, 3]
        files = [path for i, path in enumerate(files) if i % 6 in sixths]
    together = args.work / "all_right_ones.cpp"
    together.write_text(all_right_ones(files))
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        right = pool.submit(compiler.compile, together, *compiler.many_mains)
        for path, said in zip(files, pool.map(lambda path: compiler.compile(path, "-DPENSTOCK_REFUSED"), files)):
            wrong = wrong_with(path, said)
            failed += bool(wrong)
            print(f"{path.stem}: {said.lines} lines" + "".join(f"\nFAILED  {path.name}: {what}" for what in wrong))
            if wrong:
                print(said.quoted())
        said = right.result()
        if said.code != 0 or said.text:
            failed += 1
            print(f"FAILED  without PENSTOCK_REFUSED these do not all compile quietly:\n{said.quoted()}")
    print(f"{len(files)} refusals, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
